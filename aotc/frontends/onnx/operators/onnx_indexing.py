"""Operators that choose elements by index, or by their order."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_operator_table import Value, operator
from aotc.frontends.onnx.onnx_values import KNOWN, is_known, is_symbolic
from aotc.frontends.onnx.operators.onnx_layout import axis_of, reshaped


def _from_front(index: Any, size: Any) -> Any:
    """Return indices of which negative ones count from the end."""
    return jnp.where(index < 0, index + jnp.asarray(size, index.dtype), index)


def _require_inside(call: Call, index: Value, size: Any) -> None:
    if not is_known(index) or is_symbolic(index) or not isinstance(size, int) or not index.size:
        return
    if index.min() < -size or index.max() >= size:
        call.refuse(f"an index outside of {size} elements")


@operator("Gather")
def gather(call: Call, x: Value, index: Value) -> Value:
    axis = axis_of(call, call.attribute("axis"), x.ndim)
    _require_inside(call, index, x.shape[axis])
    if is_known(x) and is_known(index) and not is_symbolic(index) and x.size <= KNOWN >= index.size:
        return np.take(x, index.astype(np.int64), axis)
    if is_known(index) and index.ndim == 0 and not is_symbolic(index):
        at = int(index) if index >= 0 else int(index) + x.shape[axis]
        return lax.index_in_dim(call.to_jax(x), at, axis, keepdims=False)
    x, index = call.to_jax(x), call.to_jax(index)
    return jnp.take(x, _from_front(index, x.shape[axis]), axis, mode="clip")


def _own_places(shape: Any) -> list[Any]:
    """Return the index of each element along each axis, in arrays that broadcast to the shape."""
    rank = len(shape)
    thin = [tuple(size if i == axis else 1 for i in range(rank)) for axis, size in enumerate(shape)]
    return [lax.broadcasted_iota(jnp.int32, entry, axis) for axis, entry in enumerate(thin)]


@operator("GatherElements")
def gather_elements(call: Call, x: Value, index: Value) -> Value:
    axis = axis_of(call, call.attribute("axis"), x.ndim)
    x, index = call.to_jax(x), call.to_jax(index)
    index = _from_front(index, x.shape[axis])
    places = _own_places(index.shape)
    places[axis] = index
    return x.at[tuple(places)].get(mode="clip")


@operator("GatherND")
def gather_nd(call: Call, x: Value, index: Value) -> Value:
    batch = call.attribute("batch_dims", 0)
    if is_known(x) and is_known(index) and not batch and not is_symbolic(index):
        return x[tuple(np.moveaxis(index, -1, 0))]
    x, index = call.to_jax(x), call.to_jax(index)

    def one(x: Any, index: Any) -> Any:
        places = tuple(_from_front(index[..., i], x.shape[i]) for i in range(index.shape[-1]))
        return x.at[places].get(mode="clip") if places else x

    for _ in range(batch):
        one = jax.vmap(one)
    return one(x, index)


def _updated(at: Any, updates: Any, reduction: str) -> Any:
    if reduction == "none":
        return at.set(updates, mode="drop")
    names = {"add": "add", "mul": "multiply", "max": "max", "min": "min"}
    return getattr(at, names[reduction])(updates, mode="drop")


@operator("Scatter", "ScatterElements")
def scatter_elements(call: Call, x: Value, index: Value, updates: Value) -> Value:
    axis = axis_of(call, call.attribute("axis"), x.ndim)
    _require_inside(call, index, x.shape[axis])
    x, index, updates = map(call.to_jax, (x, index, updates))
    places = _own_places(index.shape)
    places[axis] = _from_front(index, x.shape[axis])
    return _updated(x.at[tuple(places)], updates, call.attribute("reduction", "none"))


@operator("ScatterND")
def scatter_nd(call: Call, x: Value, index: Value, updates: Value) -> Value:
    reduction = call.attribute("reduction", "none")
    if (
        reduction == "none"
        and all(is_known(v) and v.size <= KNOWN for v in (x, index, updates))
        and not is_symbolic(index)
    ):
        result = x.astype(object) if is_symbolic(updates) else x.copy()
        result[tuple(np.moveaxis(index, -1, 0))] = updates
        return result
    x, index, updates = map(call.to_jax, (x, index, updates))
    places = tuple(_from_front(index[..., i], x.shape[i]) for i in range(index.shape[-1]))
    return _updated(x.at[places], updates, reduction)


@operator("TensorScatter")
def tensor_scatter(call: Call, past: Value, update: Value, starts: Value = None) -> Value:
    past, update = call.to_jax(past), call.to_jax(update)
    axis = axis_of(call, call.attribute("axis"), past.ndim)
    length, new = past.shape[axis], update.shape[axis]
    moved, added = jnp.moveaxis(past, axis, 1), jnp.moveaxis(update, axis, 1)
    zero = jnp.zeros(past.shape[0], jnp.int32)
    first = zero if starts is None else call.to_jax(starts).astype(jnp.int32)
    index = first[:, None] + lax.iota(jnp.int32, new)[None, :]
    if call.attribute("mode") == "circular":
        index = index % length
    rows = lax.iota(jnp.int32, past.shape[0])[:, None]
    return jnp.moveaxis(moved.at[rows, index].set(added, mode="drop"), 1, axis)


@operator("OneHot", deciding=(1,))
def one_hot(call: Call, index: Value, depth: Value, values: Value) -> Value:
    count = call.ints(depth, "a depth")[0]
    index, values = call.to_jax(index), call.to_jax(values)
    axis = axis_of(call, call.attribute("axis"), index.ndim + 1)
    call.is_small([*index.shape, count])
    if not jnp.issubdtype(index.dtype, jnp.signedinteger):
        index = index.astype(call.jax_dtype(np.int64))
    index = jnp.expand_dims(_from_front(index, count), axis)
    places = jnp.expand_dims(
        lax.iota(index.dtype, count), tuple(i for i in range(index.ndim) if i != axis)
    )
    return jnp.where(index == places, values[1], values[0])


@operator("TopK", deciding=(1,))
def top_k(call: Call, x: Value, k: Value = None) -> tuple[Value, Value]:
    """Return the k largest or smallest elements and indices; of equal ones the first."""
    count = call.attribute("k") if k is None else call.ints(k, "k")[0]
    x = call.to_jax(x)
    axis = axis_of(call, call.attribute("axis"), x.ndim)
    if (
        isinstance(count, int)
        and isinstance(x.shape[axis], int)
        and not 0 <= count <= x.shape[axis]
    ):
        call.refuse(f"k {count} of {x.shape[axis]}")
    order = jnp.argsort(x, axis, stable=True, descending=bool(call.attribute("largest", 1)))
    order = lax.slice_in_dim(order, 0, count, axis=axis)
    return jnp.take_along_axis(x, order, axis), order.astype(call.jax_dtype(np.int64))


@operator("NonZero", deciding=(0,))
def non_zero(call: Call, x: Value) -> Value:
    found = call.concrete(x, "a mask for a value-dependent result size")
    if found.ndim == 0:
        found = found.reshape(1)
    return np.stack(np.nonzero(found)).astype(np.int64)


@operator("Compress", deciding=(1,))
def compress(call: Call, x: Value, condition: Value) -> Value:
    chosen = np.flatnonzero(call.concrete(condition, "a condition for a result size"))
    axis = call.attribute("axis")
    if axis is None:
        x, axis = reshaped(x, (-1,)), 0
    if is_known(x):
        return np.take(x, chosen, axis)
    return jnp.take(x, jnp.asarray(chosen, jnp.int32), axis_of(call, axis, x.ndim))


def _arg(call: Call, x: Value, *, largest: bool) -> Value:
    x = call.to_jax(x)
    axis = axis_of(call, call.attribute("axis"), x.ndim)
    last = call.attribute("select_last_index", 0)
    if last:
        x = jnp.flip(x, axis)
    dtype = call.jax_dtype(np.int64)
    found = (jnp.argmax if largest else jnp.argmin)(
        x, axis, keepdims=bool(call.attribute("keepdims"))
    )
    found = found.astype(dtype)
    return jnp.asarray(x.shape[axis] - 1, dtype) - found if last else found


operator("ArgMax")(partial(_arg, largest=True))
operator("ArgMin")(partial(_arg, largest=False))
