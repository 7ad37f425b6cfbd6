"""Windows over images: convolutions, pooling, and resizing.

Of convolutions, an input without a batch's axis has one axis less than the weight. Of pooling and
resizing, axes before those of space are kept, one or two of them.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial, wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.ndimage import map_coordinates

from aotc.frontends.pytorch.operators.torch_operator_table import Family
from aotc.frontends.pytorch.torch_dtypes import category, wide
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
            x, weight, strides, pads, rhs_dilation=dilations, feature_group_count=groups
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


def _ends(
    size: Any, kernel: int, stride: int, pad: int, dilation: int, ceil: bool
) -> tuple[int, Any]:
    """Return the padding on both sides; with `ceil`, a last window may exceed the input.

    It has to begin in the input or in the padding before it.
    """
    reach = dilation * (kernel - 1) + 1
    if not ceil:
        return pad, pad
    count = -(-(size + 2 * pad - reach) // stride) + 1
    count = jax.core.min_dim(count, -(-(size + pad) // stride))
    return pad, jax.core.max_dim((count - 1) * stride + reach - size - pad, 0)


def _strides(stride: Numbers, kernel: Sequence[int]) -> tuple[int, ...]:
    """Windows follow each other where no stride is given."""
    if not isinstance(stride, int) and not len(stride):
        return tuple(kernel)
    return each(stride, len(kernel))


class _Window(NamedTuple):
    """A window over the pooled axes. ends: padding before and after each of them."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    ends: list[tuple[int, Any]]


def _window(
    sizes: Sequence[Any],
    kernel_size: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    ceil: bool,
) -> _Window:
    """Return the window over axes of these sizes."""
    rank = len(sizes)
    kernel, dilations, pads = each(kernel_size, rank), each(dilation, rank), each(padding, rank)
    strides = _strides(stride, kernel)
    numbers = zip(sizes, kernel, strides, pads, dilations, strict=True)
    return _Window(kernel, strides, dilations, [_ends(*one, ceil) for one in numbers])


def _windows(x: Array, start: Any, function: Callable[..., Any], window: _Window) -> Array:
    rest = x.ndim - len(window.kernel)
    ones = (1,) * rest
    return lax.reduce_window(
        x,
        np.asarray(start, x.dtype),
        function,
        (*ones, *window.kernel),
        (*ones, *window.strides),
        [(0, 0)] * rest + window.ends,
        window_dilation=(*ones, *window.dilations),
    )


def _max_pool(
    self: Array,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    *,
    rank: int,
) -> Array:
    sizes = self.shape[-rank:]
    window = _window(sizes, kernel_size, stride, padding, dilation, ceil_mode)
    lowest = -jnp.inf if category(self.dtype) == 2 else jnp.iinfo(self.dtype).min
    return _windows(self, lowest, lax.max, window)


def _avg_pool(
    self: Array,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Numbers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    rank: int,
) -> Array:
    sizes, around = self.shape[-rank:], each(padding, rank)
    window = _window(sizes, kernel_size, stride, padding, 1, ceil_mode)
    total = _windows(self.astype(wide(self.dtype)), 0, lax.add, window)
    if divisor_override is not None:
        return (total / divisor_override).astype(self.dtype)
    if not any(around) and not ceil_mode:
        return (total / math.prod(window.kernel)).astype(self.dtype)
    for axis, (size, k, s, p, (low, high)) in enumerate(
        zip(sizes, window.kernel, window.strides, around, window.ends, strict=True)
    ):
        # Padding counts as elements if asked to, but never what `ceil_mode` adds to it.
        counted = jnp.ones((size + 2 * p if count_include_pad else size,), total.dtype)
        inner = (0, high - p) if count_include_pad else (low, high)
        count = lax.reduce_window(counted, np.asarray(0, total.dtype), lax.add, (k,), (s,), [inner])
        total = total / count.reshape((-1,) + (1,) * (rank - axis - 1))
    return total.astype(self.dtype)


def _adaptive(x: Array, sizes: Sequence[Any], reduce: Callable[..., Array]) -> Array:
    """Part i of n of an axis goes from floor(i * size / n) to ceil((i + 1) * size / n)."""
    rank = len(sizes)
    for number, wanted in enumerate(sizes):
        axis = x.ndim - rank + number
        size = x.shape[axis]
        wanted = size if wanted is None else wanted
        if isinstance(wanted, int) and wanted == 1:
            x = reduce(x, axis=axis, keepdims=True)
        elif isinstance(size, int) and size % wanted == 0:
            split = x.reshape(*x.shape[:axis], wanted, size // wanted, *x.shape[axis + 1 :])
            x = reduce(split, axis=axis + 1)
        elif isinstance(size, int):
            edges = [
                (i * size // wanted, -(-(i + 1) * size // wanted))
                for i in range(few(wanted, "parts"))
            ]
            parts = (lax.slice_in_dim(x, start, end, axis=axis) for start, end in edges)
            x = jnp.concatenate([reduce(part, axis=axis, keepdims=True) for part in parts], axis)
        else:
            raise Unsupported(
                "adaptive pooling of an axis whose size varies to more than one element"
            )
    return x


def _adaptive_pool(
    self: Array, output_size: Numbers, *, rank: int, reduce: Callable[..., Array]
) -> Array:
    x = self.astype(wide(self.dtype)) if reduce is jnp.mean else self
    return _adaptive(x, each(output_size, rank), reduce).astype(self.dtype)


def _without_places(function: Callable[..., Array]) -> Callable[..., tuple[Array, None]]:
    """Return the function of largest elements that says nothing of where they lie."""

    @wraps(function)
    def run(*given: Any, **named: Any) -> tuple[Array, None]:
        return function(*given, **named), None

    return run


for _rank in (1, 2, 3):
    op(f"max_pool{_rank}d")(partial(_max_pool, rank=_rank))
    op(f"max_pool{_rank}d_with_indices")(_without_places(partial(_max_pool, rank=_rank)))
    op(f"avg_pool{_rank}d")(partial(_avg_pool, rank=_rank))
    _mean, _max = (partial(_adaptive_pool, rank=_rank, reduce=f) for f in (jnp.mean, jnp.max))
    op(f"adaptive_avg_pool{_rank}d")(_mean)
    if _rank > 1:
        op(f"_adaptive_avg_pool{_rank}d")(_mean)
    op(f"adaptive_max_pool{_rank}d")(_without_places(_max))


# Resizing.


def _while_tracing(*sizes: Any) -> AbstractContextManager[None]:
    """Compute places and weights while tracing where sizes do not vary.

    As constants they also suit engines that cannot convert floats to integers.
    """
    is_known = all(isinstance(size, int) for size in sizes)
    return jax.ensure_compile_time_eval() if is_known else nullcontext()


def _scale(size: Any, wanted: Any, align: bool, scale: float | None) -> Array:
    """Return the distance between elements of the result, in elements of the input."""
    if align:
        if isinstance(wanted, int) and wanted <= 1:
            return jnp.float32(0)
        return _number(size - 1) / _number(wanted - 1)
    if scale is not None and scale > 0:
        return jnp.float32(1 / scale)
    return _number(size) / _number(wanted)


def _number(value: Any) -> Array:
    return jnp.asarray(value).astype(jnp.float32)


def _sources(size: Any, wanted: Any, align: bool, scale: float | None) -> Array:
    """Return the positions of the result's elements in the input."""
    step, places = _scale(size, wanted, align, scale), jnp.arange(wanted).astype(jnp.float32)
    return places * step if align else (places + 0.5) * step - 0.5


def _nearest(
    x: Array, axis: int, wanted: Any, align: bool, scale: float | None, *, exact: bool
) -> Array:
    size = x.shape[axis]
    with _while_tracing(size, wanted):
        step = _scale(size, wanted, False, scale)
        places = jnp.arange(wanted).astype(jnp.float32)
        at = jnp.floor((places + 0.5) * step) if exact else jnp.floor(places * step)
        at = jnp.minimum(at.astype(jnp.int32), size - 1)
    return jnp.take(x, at, axis=axis, mode="clip")


def _weighted(x: Array, axis: int, at: Sequence[Array], weights: Sequence[Array]) -> Array:
    shape = (-1,) + (1,) * (x.ndim - axis - 1)
    total: Any = 0
    for places, weight in zip(at, weights, strict=True):
        taken = jnp.take(x, places, axis=axis, mode="clip")
        total = total + taken * weight.reshape(shape)
    made: Array = total
    return made


def _linear(x: Array, axis: int, wanted: Any, align: bool, scale: float | None) -> Array:
    size = x.shape[axis]
    with _while_tracing(size, wanted):
        source = jnp.maximum(_sources(size, wanted, align, scale), 0)
        first = jnp.floor(source).astype(jnp.int32)
        part = source - first
        at = [jnp.clip(first + i, 0, size - 1) for i in (0, 1)]
        weights = [1 - part, part]
    return _weighted(x, axis, at, weights)


def _cubic(x: Array, axis: int, wanted: Any, align: bool, scale: float | None) -> Array:
    size = x.shape[axis]
    with _while_tracing(size, wanted):
        source = _sources(size, wanted, align, scale)
        first = jnp.floor(source)
        part = source - first
        weights = [_keys(each, -0.75) for each in (1 + part, part, 1 - part, 2 - part)]
        at = [jnp.clip(first.astype(jnp.int32) + i, 0, size - 1) for i in (-1, 0, 1, 2)]
    return _weighted(x, axis, at, weights)


def _keys(x: Array, a: float) -> Array:
    """Return Keys' kernel of cubic convolution: https://doi.org/10.1109/TASSP.1981.1163711."""
    x = jnp.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return jnp.where(x <= 1, near, jnp.where(x < 2, far, 0))


def _smooth(
    x: Array, axis: int, wanted: Any, align: bool, scale: float | None, *, method: str
) -> Array:
    """Resize antialiased: the kernel is as wide as an element of the result."""
    if align:
        raise Unsupported("antialiased resizing with aligned corners")
    step = _scale(x.shape[axis], wanted, align, scale)
    shape = [wanted if each == axis else size for each, size in enumerate(x.shape)]
    scales, none = jnp.reshape(1 / step, 1), jnp.zeros(1)
    return jax.image.scale_and_translate(x, shape, (axis,), scales, none, method, antialias=True)


def _wanted(
    x: Array, output_size: Sequence[Any] | None, scale_factors: Sequence[float] | None, rank: int
) -> list[Any]:
    if output_size is not None:
        return list(output_size)
    assert scale_factors is not None
    sizes = x.shape[-rank:]
    if not all(isinstance(size, int) for size in sizes):
        made = []
        for size, factor in zip(sizes, scale_factors, strict=True):
            if factor != int(factor):
                raise Unsupported("resizing of an axis whose size varies by a fraction")
            made.append(size * int(factor))
        return made
    return [int(size * factor) for size, factor in zip(sizes, scale_factors, strict=True)]


def _resize(
    self: Array | None = None,
    output_size: Sequence[Any] | None = None,
    align_corners: bool = False,
    input: Array | None = None,
    scale_factors: Sequence[float] | None = None,
    scales: float | None = None,
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
    *,
    rank: int,
    one_axis: Callable[..., Array],
) -> Array:
    x = self if input is None else input
    assert x is not None
    factors: Sequence[float | None] | None = scale_factors
    if factors is None:
        factors = [scales] if rank == 1 else [scales_d, scales_h, scales_w][-rank:]
    made = x.astype(wide(x.dtype)) if category(x.dtype) == 2 else x
    wanted = _wanted(x, output_size, scale_factors, rank)
    for number, (size, factor) in enumerate(zip(wanted, factors, strict=True)):
        made = one_axis(made, x.ndim - rank + number, size, align_corners, factor)
    if category(x.dtype) == 2:
        return made.astype(x.dtype)
    if made.dtype != x.dtype:
        raise Unsupported(f"interpolation between numbers of {x.dtype}")
    return made


_RESIZERS: list[tuple[str, int, Callable[..., Array]]] = [
    *((f"upsample_nearest{rank}d", rank, partial(_nearest, exact=False)) for rank in (1, 2, 3)),
    *(
        (f"_upsample_nearest_exact{rank}d", rank, partial(_nearest, exact=True))
        for rank in (1, 2, 3)
    ),
    ("upsample_linear1d", 1, _linear),
    ("upsample_bilinear2d", 2, _linear),
    ("upsample_trilinear3d", 3, _linear),
    ("upsample_bicubic2d", 2, _cubic),
    ("_upsample_bilinear2d_aa", 2, partial(_smooth, method="linear")),
    ("_upsample_bicubic2d_aa", 2, partial(_smooth, method="cubic")),
]
for _name, _rank, _one_axis in _RESIZERS:
    op(_name, f"{_name}.vec")(partial(_resize, rank=_rank, one_axis=_one_axis))


@op("grid_sampler", "grid_sampler_2d")
def grid_sample(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    """Bilinear or nearest, zeros or the border outside."""
    if interpolation_mode > 1 or padding_mode > 1 or input.ndim != 4:
        raise Unsupported(
            "grid_sample with bicubic interpolation, reflection, or in three dimensions"
        )
    height, width = input.shape[-2:]

    def place(value: Array, size: int) -> Array:
        at = (value + 1) / 2 * (size - 1) if align_corners else ((value + 1) * size - 1) / 2
        at = jnp.clip(at, 0, size - 1) if padding_mode == 1 else jnp.clip(at, -1, size)
        return jnp.round(at) if interpolation_mode == 1 else at

    def sample(channel: Array, y: Array, x: Array) -> Array:
        return map_coordinates(channel, [y, x], order=1 - interpolation_mode)

    sample_all = jax.vmap(jax.vmap(sample, (0, None, None)))
    return sample_all(input, place(grid[..., 1], height), place(grid[..., 0], width))
