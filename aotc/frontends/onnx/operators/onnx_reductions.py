"""Operators that combine the elements of axes, and those that scale by what was combined."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from aotc.capture.model_files.framework_arithmetic import convert
from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_operator_table import Value, add_expanded, operator
from aotc.frontends.onnx.onnx_values import KNOWN, is_known
from aotc.frontends.onnx.operators.onnx_layout import axes_of, axis_of, reshaped


def _axes(call: Call, x: Value, axes: Value) -> tuple[int, ...]:
    if axes is not None and call.concrete(axes, "axes").size == 0:
        axes = None
    chosen = axes_of(call, axes, x.ndim) if axes is not None or "axes" in call.attributes else None
    if chosen:
        return chosen
    return () if call.attribute("noop_with_empty_axes", 0) else tuple(range(x.ndim))


def _reduction(
    name: str,
    known: bool = False,
    before: Callable[[Any], Any] = lambda x: x,
    after: Callable[[Any], Any] = lambda x: x,
) -> Callable[..., Value]:
    """Return a reduction of numpy's name. known: whether numpy's is taken of what is known."""

    def reduce(call: Call, x: Value, axes: Value = None) -> Value:
        chosen = _axes(call, x, axes)
        keep = bool(call.attribute("keepdims"))
        xp: Any = np if known and is_known(x) and x.size <= KNOWN else jnp
        x = x if xp is np else call.to_jax(x)
        if not chosen and call.attribute("noop_with_empty_axes", 0):
            return after(before(x)) if name not in ("mean", "logsumexp") else x
        if xp is np:
            kept = object if x.dtype == object else x.dtype
            none = name in ("max", "min") and not x.size
            given = {"initial": _limit(name, call.jax_dtype(x.dtype))} if none else {}
            return np.asarray(getattr(np, name)(x, axis=chosen, keepdims=keep, **given), kept)
        dtype = x.dtype
        if name in ("max", "min"):
            return _extreme(name, x, chosen, keep)
        if name == "logsumexp":
            return jax.scipy.special.logsumexp(x, chosen, keepdims=keep)
        if name == "mean" and not jnp.issubdtype(dtype, jnp.inexact):
            total = jnp.sum(x, chosen, keepdims=keep, dtype=dtype)
            return lax.div(total, jnp.asarray(math.prod([x.shape[i] for i in chosen]), dtype))
        x = before(x)
        result = getattr(jnp, name)(x, axis=chosen, keepdims=keep, dtype=x.dtype)
        return after(result).astype(dtype)

    return reduce


def _limit(name: str, dtype: Any) -> Any:
    """Return the largest or least number of no elements: the least, or the largest, of the type."""
    if dtype == np.bool_:
        return name == "min"
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        return info.min if name == "max" else info.max
    return -np.inf if name == "max" else np.inf


def _extreme(name: str, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """Return the extreme along axes; of no elements it is the type's least or largest."""
    if x.dtype == np.bool_:
        return (jnp.any if name == "max" else jnp.all)(x, axis=axes, keepdims=keep)
    empty = any(isinstance(x.shape[axis], int) and x.shape[axis] == 0 for axis in axes)
    given = {"initial": jnp.asarray(_limit(name, x.dtype), x.dtype)} if empty else {}
    return getattr(jnp, name)(x, axis=axes, keepdims=keep, **given)


for _operator, _reduce in {
    "ReduceSum": _reduction("sum", known=True),
    "ReduceProd": _reduction("prod", known=True),
    "ReduceMax": _reduction("max", known=True),
    "ReduceMin": _reduction("min", known=True),
    "ReduceMean": _reduction("mean"),
    "ReduceL1": _reduction("sum", before=jnp.abs),
    "ReduceL2": _reduction("sum", before=jnp.square, after=jnp.sqrt),
    "ReduceSumSquare": _reduction("sum", before=jnp.square),
    "ReduceLogSum": _reduction("sum", after=jnp.log),
    "ReduceLogSumExp": _reduction("logsumexp"),
}.items():
    operator(_operator, deciding=(1,))(_reduce)


def _cumulative(call: Call, x: Value, axis: Value, *, one: bool) -> Value:
    x = call.to_jax(x)
    along = axis_of(call, call.ints(axis, "an axis")[0], x.ndim)
    reverse = bool(call.attribute("reverse"))
    result = (lax.cumprod if one else lax.cumsum)(x, along, reverse=reverse)
    if not call.attribute("exclusive"):
        return result
    widths = [(0, 0, 0)] * x.ndim
    widths[along] = (-1, 1, 0) if reverse else (1, -1, 0)
    return lax.pad(result, jnp.asarray(int(one), x.dtype), widths)


operator("CumSum", deciding=(1,))(partial(_cumulative, one=False))
operator("CumProd", deciding=(1,))(partial(_cumulative, one=True))


def _along(call: Call, x: Value, *, compute: Callable[[Any, int], Any]) -> Value:
    """Along one axis; before version 13 along all axes from this one on, as if they were one."""
    x = call.to_jax(x)
    axis = axis_of(call, call.attribute("axis"), x.ndim)
    if call.version >= 13:
        return compute(x, axis)
    flat = reshaped(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return reshaped(compute(flat, 1), x.shape)


def _hardmax(x: Any, axis: int) -> Any:
    largest = jax.nn.one_hot(jnp.argmax(x, axis), x.shape[axis], dtype=bool, axis=axis)
    return convert(largest, x.dtype)


operator("Softmax")(partial(_along, compute=jax.nn.softmax))
operator("LogSoftmax")(partial(_along, compute=jax.nn.log_softmax))
operator("Hardmax")(partial(_along, compute=_hardmax))


@operator("LpNormalization")
def lp_normalization(call: Call, x: Value) -> Value:
    x, axis = call.to_jax(x), call.attribute("axis")
    if call.attribute("p") == 1:
        norm = jnp.sum(jnp.abs(x), axis, keepdims=True)
    else:
        norm = jnp.sqrt(jnp.sum(jnp.square(x), axis, keepdims=True))
    return jnp.where(norm == 0, jnp.zeros((), x.dtype), x / jnp.where(norm == 0, 1, norm))


@operator("BatchNormalization", deciding=())
def batch_normalization(
    call: Call, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
) -> Value:
    if call.version < 9 and not call.attribute("spatial", 1):
        call.lacks("non-spatial BatchNormalization")
    if call.attribute("training_mode", 0) or any(call.is_wanted(index) for index in range(1, 5)):
        call.lacks("BatchNormalization in training", hint="export the model for inference")
    x = call.to_jax(x)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    scale, bias, mean, variance = (
        call.to_jax(value).reshape(shape if x.ndim > 1 else (-1,))
        for value in (scale, bias, mean, variance)
    )
    wide = jnp.promote_types(x.dtype, jnp.float32)
    factor = scale.astype(wide) * lax.rsqrt(variance.astype(wide) + call.attribute("epsilon"))
    return ((x.astype(wide) - mean) * factor + bias).astype(x.dtype)


def _standard(x: Any, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any, Any]:
    """Return an array less its mean, over its deviation; the mean, and one over the deviation."""
    mean = jnp.mean(x, axes, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axes, keepdims=True)
    inverse = lax.rsqrt(variance + jnp.asarray(epsilon, x.dtype))
    return (x - mean) * inverse, mean, inverse


@operator("InstanceNormalization")
def instance_normalization(call: Call, x: Value, scale: Value, bias: Value) -> Value:
    x = call.to_jax(x)
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    found, _, _ = _standard(wide, tuple(range(2, x.ndim)), call.attribute("epsilon"))
    shape = (1, -1) + (1,) * (x.ndim - 2)
    scale, bias = call.to_jax(scale).reshape(shape), call.to_jax(bias).reshape(shape)
    return (found * scale + bias).astype(x.dtype)


@operator("LayerNormalization")
def layer_normalization(
    call: Call, x: Value, scale: Value, bias: Value = None
) -> tuple[Value, ...]:
    x = call.to_jax(x)
    axes = tuple(range(axis_of(call, call.attribute("axis"), x.ndim), x.ndim))
    stash = call.jax_dtype(call.dtype(call.attribute("stash_type")))
    found, mean, inverse = _standard(x.astype(stash), axes, call.attribute("epsilon"))
    result = found.astype(x.dtype) * call.to_jax(scale)
    if bias is not None:
        result = result + call.to_jax(bias)
    return result, mean, inverse


add_expanded("GroupNormalization", "MeanVarianceNormalization", "RMSNormalization")


@operator("LRN")
def local_response_normalization(call: Call, x: Value) -> Value:
    x, size = call.to_jax(x), call.attribute("size")
    low = (size - 1) // 2
    window = (1, size) + (1,) * (x.ndim - 2)
    pads = [(0, 0), (low, size - 1 - low)] + [(0, 0)] * (x.ndim - 2)
    zero = np.zeros((), x.dtype)
    squares = lax.reduce_window(jnp.square(x), zero, lax.add, window, (1,) * x.ndim, pads)
    scale = call.attribute("bias") + call.attribute("alpha") / size * squares
    return (x / scale ** call.attribute("beta")).astype(x.dtype)
