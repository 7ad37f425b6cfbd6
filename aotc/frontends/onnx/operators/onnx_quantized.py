"""Operators on quantized numbers."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from aotc.capture.model_files.framework_arithmetic import true_divide
from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_operator_table import Value, operator
from aotc.frontends.onnx.operators.onnx_elementwise import FLOAT8, saturated
from aotc.frontends.onnx.operators.onnx_layout import axis_of
from aotc.frontends.onnx.operators.onnx_windows import convolved, window_of


def _spread(call: Call, scale: Any, x: Any) -> Any:
    """Scales or zero points so that they broadcast: one, one per slice of an axis, or blocks."""
    if scale.size == 1 and scale.ndim <= 1:
        return scale.reshape(())
    axis = axis_of(call, call.attribute("axis", 1), x.ndim)
    block = call.attribute("block_size", 0)
    if block:
        return lax.slice_in_dim(jnp.repeat(scale, block, axis), 0, x.shape[axis], axis=axis)
    return _along(scale, axis, x.ndim)


def _along(values: Any, axis: int, rank: int) -> Any:
    """Return numbers so that they broadcast: one number, one for each slice of an axis, or all."""
    if values.ndim > 1:
        return values
    shape = [-1 if each == axis else 1 for each in range(rank)]
    return values.reshape(() if values.size == 1 else shape)


def quantized(x: Any, scale: Any, zero: Any, dtype: Any) -> Any:
    """Return x / scale + zero, rounded to the nearest even number, within the type."""
    limits = jnp.iinfo(dtype)
    shifted = jnp.rint(x / scale)
    if shifted.dtype not in (jnp.float32, jnp.float64):
        shifted = shifted.astype(jnp.float32)
    if zero is not None:
        shifted = shifted + zero.astype(shifted.dtype)
    return jnp.clip(shifted, int(limits.min), int(limits.max)).astype(jnp.int32).astype(dtype)


@operator("QuantizeLinear")
def quantize_linear(call: Call, x: Value, scale: Value, zero: Value = None) -> Value:
    x, scale = call.to_jax(x), call.to_jax(scale)
    kind = call.attribute("output_dtype", 0)
    stated = call.dtype(kind) if kind else np.dtype(np.uint8)
    dtype = call.jax_dtype(stated) if zero is None else call.to_jax(zero).dtype
    precision = call.attribute("precision", 0)
    width = call.jax_dtype(call.dtype(precision)) if precision else scale.dtype
    if jnp.issubdtype(x.dtype, jnp.integer):
        width = jnp.float32
    scale = _spread(call, scale, x).astype(width)
    x = x.astype(width)
    offset = None if zero is None else _spread(call, call.to_jax(zero), x)
    if dtype in FLOAT8 or dtype.name.startswith("float4"):
        result = x / scale
        result = result if offset is None else result + offset.astype(result.dtype)
        is_cut = dtype in FLOAT8 and not call.attribute("saturate", 1)
        return result.astype(dtype) if is_cut else saturated(result, dtype)
    return quantized(x, scale, offset, dtype)


@operator("DequantizeLinear")
def dequantize_linear(call: Call, x: Value, scale: Value, zero: Value = None) -> Value:
    x, scale = call.to_jax(x), call.to_jax(scale)
    kind = call.attribute("output_dtype", 0)
    dtype = call.jax_dtype(call.dtype(kind)) if kind else scale.dtype
    spread = _spread(call, scale, x)
    wide = jnp.promote_types(spread.dtype, jnp.float32)
    is_exact = zero is not None and jnp.issubdtype(x.dtype, jnp.integer)
    number = x.astype(jnp.int32 if is_exact else wide)
    if zero is not None:
        number = number - _spread(call, call.to_jax(zero), x).astype(number.dtype)
    return (number.astype(wide) * spread.astype(wide)).astype(dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(call: Call, x: Value) -> tuple[Value, ...]:
    x = call.to_jax(x)
    low, high = jnp.minimum(jnp.min(x), 0), jnp.maximum(jnp.max(x), 0)
    # ONNX's formula divides by 0 where all numbers are 0; the scale is 1 there in ONNX Runtime.
    scale = jnp.where(high == low, 1, true_divide(high - low, 255))
    zero = jnp.clip(jnp.rint(-low / scale), 0, 255).astype(jnp.uint8)
    return quantized(x, scale, zero, jnp.uint8), scale, zero


def _centred(call: Call, x: Any, zero: Value, axis: int) -> Any:
    """Return whole numbers less their zero point, which may be one for each slice of an axis."""
    wide = x.astype(jnp.int32)
    if zero is None:
        return wide
    offset = call.to_jax(zero).astype(jnp.int32)
    return wide - _along(offset, axis, x.ndim)


@operator("MatMulInteger")
def whole_product(call: Call, a: Any, b: Any, a_zero: Value = None, b_zero: Value = None) -> Any:
    a, b = call.to_jax(a), call.to_jax(b)
    rows = _centred(call, a, a_zero, max(a.ndim - 2, 0))
    return jnp.matmul(rows, _centred(call, b, b_zero, b.ndim - 1))


@operator("ConvInteger")
def whole_convolution(
    call: Call, x: Any, w: Any, x_zero: Value = None, w_zero: Value = None
) -> Any:
    x, w = call.to_jax(x), call.to_jax(w)
    window = window_of(call, x.shape[2:], call.attribute("kernel_shape") or w.shape[2:])
    return convolved(call, _centred(call, x, x_zero, 1), _centred(call, w, w_zero, 0), window)


def _requantized(call: Call, total: Any, factor: Any, scale: Value, zero: Value) -> Any:
    offset, scale = call.to_jax(zero), call.to_jax(scale)
    result = total.astype(jnp.float32) * factor
    if offset.dtype in FLOAT8:
        return saturated(result / scale, offset.dtype)
    return quantized(result, scale, offset, offset.dtype)


@operator("QLinearMatMul")
def q_linear_mat_mul(call: Call, *inputs: Value) -> Value:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = inputs
    a, b = call.to_jax(a), call.to_jax(b)
    if a.dtype in FLOAT8:
        total = jnp.matmul(a.astype(jnp.float32), b.astype(jnp.float32))
    else:
        total = whole_product(call, a, b, a_zero, b_zero)
    left, right = call.to_jax(a_scale), call.to_jax(b_scale)
    if left.ndim == 1 and left.size > 1:
        left = left[:, None]
    factor = left.astype(jnp.float32) * right.astype(jnp.float32)
    return _requantized(call, total, factor, scale, zero)


@operator("QLinearConv")
def q_linear_conv(call: Call, *inputs: Value) -> Value:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, *biases = inputs
    x, w = call.to_jax(x), call.to_jax(w)
    total = whole_convolution(call, x, w, x_zero, w_zero)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    for bias in biases:
        total = total + call.to_jax(bias).reshape(shape)
    factor = call.to_jax(x_scale) * call.to_jax(w_scale).reshape(-1)
    factor = factor.reshape(()) if factor.size == 1 else factor.reshape(shape)
    return _requantized(call, total, factor, scale, zero)
