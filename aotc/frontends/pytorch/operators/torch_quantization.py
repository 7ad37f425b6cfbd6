"""Quantization as torch's and torchao's exports have it: scales, zero points, rounded integers.

Each function keeps torch's order of operations, since one rounding decides between two integers.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from aotc.capture.model_files.framework_arithmetic import true_divide
from aotc.frontends.pytorch.operators.torch_operator_table import Family
from aotc.frontends.pytorch.torch_dtypes import FLOAT, INT, as_dtype, canonical, category, wide
from aotc.frontends.pytorch.torch_refusals import Unsupported

FAMILY = Family("quantized_decomposed")
TORCHAO = Family("torchao")
op = FAMILY

INT32_MIN = -(2**31)


def _scalar(value: Any, dtype: Any) -> Any:
    """Return a scale as a number of `dtype`; torch takes it out of its tensor."""
    return jnp.reshape(as_dtype(value, dtype), ())


def _inverse(scale: Any, dtype: Any) -> Any:
    if isinstance(scale, float | int):
        return as_dtype(1.0 / scale if scale else math.inf, dtype)
    return _scalar(1.0 / scale, dtype)


def _clamped(x: Array, low: Any, high: Any, dtype: Any) -> Array:
    x = jnp.minimum(jnp.maximum(x, low), high)
    if dtype == jnp.int32:
        return _as_int32(x)
    return as_dtype(x, dtype) if dtype == jnp.uint8 else x.astype(dtype)


def _number(value: Any) -> Any:
    return value if isinstance(value, int) else jnp.reshape(value, ())


@op("quantize_per_tensor", "quantize_per_tensor.tensor", "quantize_per_tensor.tensor2")
def quantize_per_tensor(
    input: Array, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: Any
) -> Array:
    x = input.astype(wide(input.dtype))
    made = jnp.round(x * _inverse(scale, x.dtype)) + _number(zero_point)
    return _clamped(made, _number(quant_min), _number(quant_max), dtype)


@op("dequantize_per_tensor", "dequantize_per_tensor.tensor", "dequantize_per_tensor.tensor2")
def dequantize_per_tensor(
    input: Array,
    scale: Any,
    zero_point: Any,
    quant_min: Any,
    quant_max: Any,
    dtype: Any,
    out_dtype: Any = None,
) -> Array:
    out = FLOAT if out_dtype is None else out_dtype
    computed = wide(out)
    centred = (as_dtype(input, out).astype(computed) - _number(zero_point)).astype(out)
    return (centred.astype(computed) * _scalar(scale, computed)).astype(out)


def _spread(
    x: Array, numbers: tuple[Any, Any], axis: int | None, group_size: int | None
) -> tuple[Array, Any, Any]:
    """Return an array, and scales and zero points that broadcast to it.

    There is one of each for a slice of an axis, for a group of a row's numbers, or for a row; with
    groups, the array has a row for each.
    """
    if axis is not None:
        shape = [-1 if each == axis % x.ndim else 1 for each in range(x.ndim)]
    elif group_size is not None:
        whole = group_size > x.shape[-1] and numbers[0].shape[-1] == 1
        x, shape = x.reshape(-1, x.shape[-1] if whole else group_size), [-1, 1]
    else:
        return x, *numbers
    scales, zero_points = numbers
    zero_points = None if zero_points is None else jnp.reshape(zero_points, shape)
    return x, jnp.reshape(scales, shape), zero_points


def _quantized(
    input: Array,
    scales: Array,
    zero_points: Array,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    axis: int | None = None,
    group_size: int | None = None,
) -> Array:
    x, scale, zero = _spread(input, (scales, zero_points), axis, group_size)
    if axis is None:
        made = jnp.round(x * (1.0 / scale) + zero)
    else:
        made = jnp.round(x.astype(wide(x.dtype)) * (1.0 / scale)) + zero
    return _clamped(made, quant_min, quant_max, dtype).reshape(input.shape)


def _dequantized(
    input: Array,
    scales: Array,
    zero_points: Array | None,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    axis: int | None = None,
    group_size: int | None = None,
    out_dtype: Any = None,
    output_dtype: Any = FLOAT,
) -> Array:
    x, scale, zero = _spread(input, (scales, zero_points), axis, group_size)
    made = (x if zero is None else x - zero) * scale
    return as_dtype(made.reshape(input.shape), output_dtype if out_dtype is None else out_dtype)


for _kind in ("per_channel", "per_token", "per_channel_group"):
    _groups = {"group_size": 128} if _kind == "per_channel_group" else {}
    op(f"quantize_{_kind}")(partial(_quantized, **_groups))
    op(f"dequantize_{_kind}")(partial(_dequantized, **_groups))


def _ends(x: Array, axes: Any, keepdim: bool) -> tuple[Array, Array]:
    """Return the least and the largest number, both moved so that 0 is between them."""
    low, high = (f(x, axis=axes, keepdims=keepdim) for f in (jnp.min, jnp.max))
    return jnp.minimum(low, 0), jnp.maximum(high, 0)


def _as_int32(x: Array) -> Array:
    """NaN becomes the smallest number, as on the processors that torch runs on."""
    return jnp.where(jnp.isnan(x), INT32_MIN, x.astype(jnp.int32))


@op("choose_qparams.tensor", narrow=True)
def choose_qparams(
    input: Array, quant_min: int, quant_max: int, eps: float, dtype: Any
) -> tuple[Array, Array]:
    low, high = _ends(input, None, False)
    scale = jnp.maximum(true_divide(high - low, quant_max - quant_min), jnp.full(1, eps, FLOAT))
    zero = quant_min - _as_int32(jnp.round(low / scale))
    zero = jnp.clip(zero, quant_min, quant_max)
    return as_dtype(scale, jnp.float64), zero.astype(canonical(INT))


@op("choose_qparams_symmetric.tensor", narrow=True)
def choose_qparams_symmetric(
    input: Array, quant_min: int, quant_max: int, eps: float, dtype: Any
) -> tuple[Array, Array]:
    low, high = _ends(input, None, False)
    scale = true_divide(jnp.maximum(-low, high), (quant_max - quant_min) / 2)
    zero = jnp.full(1, 128 if dtype == jnp.uint8 else 0, canonical(INT))
    return as_dtype(jnp.maximum(scale, jnp.full(1, eps, FLOAT)), jnp.float64), zero


@op("choose_qparams_per_token", narrow=True)
def choose_qparams_per_token(input: Array, dtype: Any) -> tuple[Array, Array]:
    """Torch records float64 and int64 of these, and returns floats of the input's width."""
    if dtype != jnp.int8:
        raise Unsupported(f"numbers for {dtype}: torch has none but for int8")
    scales = jnp.max(jnp.abs(input), axis=-1, keepdims=True)
    scales = scales.astype(FLOAT) if scales.dtype == jnp.float16 else scales
    scales = true_divide(jnp.maximum(scales, jnp.asarray(1e-5, scales.dtype)), 127)
    return scales, jnp.zeros_like(scales)


@op("choose_qparams_per_token_asymmetric", "_choose_qparams_per_token_asymmetric_impl", narrow=True)
def choose_qparams_per_token_asymmetric(input: Array, dtype: Any) -> tuple[Array, Array]:
    least, most = -128, 127
    low, high = _ends(input, -1, True)
    scale = true_divide(high - low, most - least)
    scale = jnp.maximum(scale, jnp.asarray(jnp.finfo(FLOAT).eps, scale.dtype))
    below, above = low / scale, high / scale
    zero = jnp.where(least + below + (most + above) > 0, least - below, most - above)
    zero = jnp.round(jnp.clip(zero, least, most))
    return as_dtype(scale, jnp.float64), as_dtype(zero, INT)


@op("convert_element_type.no_fuse")
def convert_element_type(input: Array, dtype: Any) -> Array:
    return as_dtype(input, dtype)


# Of torchao: one scale for each block of a tensor.


def _blocks(shape: Sequence[Any], block_size: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the shape with divided axes as blocks and elements, and the axes within blocks."""
    parts: list[Any] = []
    within: list[int] = []
    for size, block in zip(shape, block_size, strict=True):
        if isinstance(block, int) and block == 1:
            parts.append(size)
            continue
        if block != size:
            parts.append(size // block)
        within.append(len(parts))
        parts.append(block)
    return parts, within


def _of_blocks(value: Array, parts: Sequence[Any], within: Sequence[int]) -> Array:
    """Return one number for each block, so that they broadcast over its elements."""
    return jnp.reshape(value, [1 if i in within else size for i, size in enumerate(parts)])


def _limits(dtype: Any, low: Any, high: Any) -> tuple[Any, Any]:
    if low is not None and high is not None:
        return low, high
    if category(dtype) != 1:
        raise Unsupported(f"limits of {dtype} that are not stated")
    info = jnp.iinfo(dtype)
    return (int(info.min) if low is None else low), (int(info.max) if high is None else high)


@TORCHAO("quantize_affine")
def quantize_affine(
    input: Array,
    block_size: Sequence[Any],
    scale: Array,
    zero_point: Array | None,
    output_dtype: Any,
    quant_min: Any = None,
    quant_max: Any = None,
) -> Array:
    low, high = _limits(output_dtype, quant_min, quant_max)
    parts, within = _blocks(input.shape, block_size)
    made = jnp.round(input.reshape(parts) * (1.0 / _of_blocks(scale, parts, within)))
    if zero_point is not None and zero_point.size:
        made = made + _of_blocks(zero_point, parts, within)
    return _clamped(made, low, high, output_dtype).reshape(input.shape)


@TORCHAO("dequantize_affine")
def dequantize_affine(
    input: Array,
    block_size: Sequence[Any],
    scale: Array,
    zero_point: Array | None,
    input_dtype: Any,
    quant_min: Any = None,
    quant_max: Any = None,
    output_dtype: Any = FLOAT,
) -> Array:
    parts, within = _blocks(input.shape, block_size)
    made = as_dtype(input, output_dtype).reshape(parts)
    if zero_point is not None:
        made = made - as_dtype(_of_blocks(zero_point, parts, within), output_dtype)
    made = made * _of_blocks(scale, parts, within)
    return as_dtype(made.reshape(input.shape), output_dtype)


def _quotient(x: Array, size: Any) -> Array:
    """Return `x` divided by a number that its dtype may not hold, such as 65536 in float16."""
    kind, computed = jnp.finfo(x.dtype), x.astype(wide(x.dtype))
    if computed.dtype != x.dtype:
        # `x` is rounded first, which a compiler may leave out.
        computed = lax.reduce_precision(computed, kind.nexp, kind.nmant)
    return true_divide(computed, size).astype(x.dtype)


@TORCHAO("choose_qparams_affine")
def choose_qparams_affine(
    input: Array,
    mapping_type: str,
    block_size: Sequence[Any],
    target_dtype: Any,
    quant_min: Any = None,
    quant_max: Any = None,
    eps: float | None = None,
    scale_dtype: Any = None,
    zero_point_dtype: Any = None,
    keepdim: bool = False,
) -> tuple[Array, Array]:
    least, most = _limits(target_dtype, quant_min, quant_max)
    parts, within = _blocks(input.shape, block_size)
    if not within:
        raise Unsupported("numbers for blocks of one element, of which torchao makes one block")
    low, high = _ends(input.reshape(parts), tuple(within), keepdim)
    smallest = jnp.finfo(input.dtype).smallest_normal if eps is None else eps
    if mapping_type == "ASYMMETRIC":
        scale = _quotient(high - low, most - least)
    elif mapping_type == "SYMMETRIC":
        scale = _quotient(jnp.maximum(-low, high), (most - least) / 2)
    elif mapping_type == "SYMMETRIC_NO_CLIPPING_ERR":
        below, above = _quotient(low, least), _quotient(high, most)
        scale = jnp.where(below > above, below, above)  # the second where one is NaN, as torchao
    else:
        raise Unsupported(f"the mapping {mapping_type!a}")
    scale = jnp.maximum(scale, jnp.asarray(smallest, scale.dtype))
    if mapping_type == "ASYMMETRIC":
        zero = jnp.clip(least - jnp.round(low / scale), least, most)
        zero_point_dtype = jnp.int32 if zero_point_dtype is None else zero_point_dtype
    else:
        zero = jnp.full_like(scale, int((most + least + 1) / 2))
    zero_point_dtype = zero.dtype if zero_point_dtype is None else zero_point_dtype
    if keepdim:
        shape = [size // block for size, block in zip(input.shape, block_size, strict=True)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return (
        scale if scale_dtype is None else as_dtype(scale, scale_dtype),
        _as_int32(zero) if zero_point_dtype == jnp.int32 else as_dtype(zero, zero_point_dtype),
    )
