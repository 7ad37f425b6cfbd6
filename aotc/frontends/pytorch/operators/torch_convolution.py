"""Convolutions. Without a batch's axis the input has one axis less than the weight."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from aotc.frontends.pytorch.operators.torch_operator_table import Family
from aotc.frontends.pytorch.torch_refusals import Unsupported, few

FAMILY = Family()
op = FAMILY

type Numbers = int | Sequence[int]


def each(value: Numbers, rank: int) -> tuple[int, ...]:
    """Return a number for each axis."""
    if isinstance(value, int):
        return (value,) * rank
    return tuple(value) * rank if len(value) == 1 else tuple(value)


def _pads(
    padding: Numbers | str, kernel: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """Padding on both sides of each axis; "same" pads the odd element at the end."""
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
        return [(t // 2, t - t // 2) for t in total]
    if isinstance(padding, str) and padding != "valid":
        raise Unsupported(f"padding {padding!r}")
    return [(p, p) for p in each(0 if isinstance(padding, str) else padding, len(kernel))]


@op("convolution")
def convolution(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: Numbers | str = 0,
    dilation: Numbers = 1,
    transposed: bool = False,
    output_padding: Numbers = 0,
    groups: int = 1,
) -> Array:
    rank = weight.ndim - 2
    x = input if input.ndim == weight.ndim else input[None]
    strides, dilations = each(stride, rank), each(dilation, rank)
    pads = _pads(padding, weight.shape[2:], dilations)
    if transposed:
        more = each(output_padding, rank)
        made = _transposed(x, weight, strides, pads, dilations, more, groups)
    else:
        made = lax.conv_general_dilated(
            x,
            weight,
            strides,
            pads,
            rhs_dilation=dilations,
            feature_group_count=groups,
        )
    made = made if bias is None else made + bias.reshape((1, -1) + (1,) * rank)
    return made if input.ndim == weight.ndim else made[0]


for _rank in (1, 2, 3):
    op(f"conv{_rank}d", f"conv{_rank}d.padding")(partial(convolution, transposed=False))
    op("conv_transpose1d" if _rank == 1 else f"conv_transpose{_rank}d.input")(
        partial(convolution, transposed=True)
    )


def _transposed(
    x: Array,
    weight: Array,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilations: Sequence[int],
    more: Sequence[int],
    groups: int,
) -> Array:
    """Convolve the input, with strides between its elements, with the flipped weight."""
    rank = weight.ndim - 2
    inputs, outputs, *kernel = weight.shape
    flipped = jnp.flip(weight, tuple(range(2, rank + 2)))
    flipped = flipped.reshape(groups, inputs // groups, outputs, *kernel).swapaxes(1, 2)
    flipped = flipped.reshape(groups * outputs, inputs // groups, *kernel)
    reach = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
    return lax.conv_general_dilated(
        x,
        flipped,
        (1,) * rank,
        [(r - p, r - p + m) for r, (p, _), m in zip(reach, pads, more, strict=True)],
        lhs_dilation=strides,
        rhs_dilation=dilations,
        feature_group_count=groups,
    )


@op("im2col")
def im2col(
    self: Array, kernel_size: Numbers, dilation: Numbers, padding: Numbers, stride: Numbers
) -> Array:
    """Compute nn.Unfold: windows as columns, each channel's elements together."""
    if 0 in self.shape:
        raise Unsupported("windows of a tensor without elements")
    batched = self if self.ndim == 4 else self[None]
    made = lax.conv_general_dilated_patches(
        batched,
        each(kernel_size, 2),
        each(stride, 2),
        [(p, p) for p in each(padding, 2)],
        rhs_dilation=each(dilation, 2),
        precision=lax.Precision.HIGHEST,
    )
    made = made.reshape(*made.shape[:2], -1)
    return made if self.ndim == 4 else made[0]


@op("col2im")
def col2im(
    self: Array,
    output_size: Sequence[int],
    kernel_size: Numbers,
    dilation: Numbers,
    padding: Numbers,
    stride: Numbers,
) -> Array:
    """Compute nn.Fold: the transpose of `im2col`, with sums where windows overlap."""
    batched = self if self.ndim == 3 else self[None]
    (kh, kw), (dh, dw) = each(kernel_size, 2), each(dilation, 2)
    (ph, pw), (sh, sw) = each(padding, 2), each(stride, 2)
    height, width = output_size
    rows, columns = (
        (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1,
        (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1,
    )
    n = batched.shape[0]
    parts = batched.reshape(n, -1, kh, kw, rows, columns)
    made: Any = jnp.zeros((n, parts.shape[1], height + 2 * ph, width + 2 * pw), self.dtype)
    few(kh * kw, "elements of a window")
    for i in range(kh):
        for j in range(kw):
            at = (
                slice(None),
                slice(None),
                slice(i * dh, i * dh + sh * rows, sh),
                slice(j * dw, j * dw + sw * columns, sw),
            )
            made = made.at[at].add(parts[:, :, i, j])
    made = made[:, :, ph : ph + height, pw : pw + width]
    return made if self.ndim == 3 else made[0]
