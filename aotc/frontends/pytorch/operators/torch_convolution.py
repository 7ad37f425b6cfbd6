"""Convolutions. Without a batch's axis the input has one axis less than the weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from aotc.frontends.pytorch.operators.torch_operator_table import Family
from aotc.frontends.pytorch.torch_refusals import Unsupported, few

FAMILY = Family()
op = FAMILY

type Numbers = int | Sequence[int]


def each(value: Numbers, rank: int) -> tuple[int, ...]:
    """A number for each axis."""
    if isinstance(value, int):
        return (value,) * rank
    return tuple(value) * rank if len(value) == 1 else tuple(value)


def _layout(rank: int) -> lax.ConvDimensionNumbers:
    every = tuple(range(rank + 2))
    return lax.ConvDimensionNumbers(every, every, every)


@op("convolution.default")
def convolution(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    transposed: bool,
    output_padding: Numbers,
    groups: int,
) -> Array:
    rank = weight.ndim - 2
    if input.ndim == weight.ndim - 1:
        made = convolution(
            input[None], weight, bias, stride, padding, dilation, transposed, output_padding, groups
        )
        return made[0]
    strides, dilations, around = each(stride, rank), each(dilation, rank), each(padding, rank)
    if transposed:
        made = _transposed(
            input, weight, strides, around, dilations, each(output_padding, rank), groups
        )
    else:
        made = lax.conv_general_dilated(
            input,
            weight,
            strides,
            [(p, p) for p in around],
            rhs_dilation=dilations,
            dimension_numbers=_layout(rank),
            feature_group_count=groups,
        )
    return made if bias is None else made + bias.reshape((1, -1) + (1,) * rank)


def _transposed(
    x: Array,
    weight: Array,
    strides: Sequence[int],
    padding: Sequence[int],
    dilations: Sequence[int],
    more: Sequence[int],
    groups: int,
) -> Array:
    """A convolution with the flipped weight over the input with strides between its elements."""
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
        [(r - p, r - p + m) for r, p, m in zip(reach, padding, more, strict=True)],
        lhs_dilation=strides,
        rhs_dilation=dilations,
        dimension_numbers=_layout(rank),
        feature_group_count=groups,
    )


@op("conv1d.default", "conv2d.default", "conv3d.default")
def conv(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Array:
    return convolution(input, weight, bias, stride, padding, dilation, False, 0, groups)


@op("conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv_named_padding(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: str = "valid",
    dilation: Numbers = 1,
    groups: int = 1,
) -> Array:
    """ "same" pads the odd element at the end."""
    if padding == "valid":
        return conv(input, weight, bias, stride, 0, dilation, groups)
    if padding != "same":
        raise Unsupported(f"padding {padding!r}")
    rank = weight.ndim - 2
    total = [d * (k - 1) for d, k in zip(each(dilation, rank), weight.shape[2:], strict=True)]
    batched = input[None] if input.ndim == rank + 1 else input
    made = lax.conv_general_dilated(
        batched,
        weight,
        each(stride, rank),
        [(t // 2, t - t // 2) for t in total],
        rhs_dilation=each(dilation, rank),
        dimension_numbers=_layout(rank),
        feature_group_count=groups,
    )
    made = made if bias is None else made + bias.reshape((1, -1) + (1,) * rank)
    return made[0] if input.ndim == rank + 1 else made


@op("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Array:
    return convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


@op("im2col.default")
def im2col(
    self: Array, kernel_size: Numbers, dilation: Numbers, padding: Numbers, stride: Numbers
) -> Array:
    """What nn.Unfold does: windows as columns, the channel's elements together."""
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


@op("col2im.default")
def col2im(
    self: Array,
    output_size: Sequence[int],
    kernel_size: Numbers,
    dilation: Numbers,
    padding: Numbers,
    stride: Numbers,
) -> Array:
    """What nn.Fold does: the transpose of `im2col`, sums where windows overlap."""
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
