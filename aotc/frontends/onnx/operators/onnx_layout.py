"""Operators that move elements and compute none: shapes, axes, slices, copies."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import core, lax

from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_operator_table import Value, add_expanded, operator
from aotc.frontends.onnx.onnx_values import is_known, is_symbolic


def axis_of(call: Call, axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        call.refuse(f"axis {axis} of an array of rank {rank}")
    return axis % rank if rank else 0


def axes_of(call: Call, axes: Value, rank: int) -> tuple[int, ...] | None:
    """Return axes from an input, or from the older attribute; None without both."""
    stated = call.attribute("axes") if axes is None else call.ints(axes, "axes")
    if stated is None:
        return None
    found = tuple(axis_of(call, axis, rank) for axis in stated)
    if len(set(found)) < len(found):
        call.refuse(f"axes {list(stated)} with one twice")
    return found


def reshaped(x: Value, shape: Sequence[Any]) -> Value:
    """Return a value in another shape of as many elements."""
    return (np if is_known(x) and _plain(shape) else jnp).reshape(x, tuple(shape))


def _plain(shape: Sequence[Any]) -> bool:
    return all(isinstance(size, int) for size in shape)


@operator("Constant")
def constant(call: Call) -> Value:
    names = [name for name in call.attributes if name.startswith(("value", "sparse"))]
    if len(names) != 1:
        call.refuse(f"a constant with {len(names)} values")
    value = call.attribute(names[0])
    if names[0] == "value":
        return value
    if names[0] in ("value_float", "value_floats"):
        return np.asarray(value, np.float32)
    if names[0] in ("value_int", "value_ints"):
        return np.asarray(value, np.int64)
    return call.lacks("a string or sparse constant")


@operator("ConstantOfShape", deciding=(0,))
def constant_of_shape(call: Call, shape: Value) -> Value:
    fill = call.attribute("value")
    fill = np.zeros(1, np.float32) if fill is None else fill
    dimensions = call.ints(shape, "a shape")
    if call.is_small(dimensions):
        return np.full(dimensions, fill.reshape(()), fill.dtype)
    return jnp.full(dimensions, call.to_jax(fill.reshape(())))


@operator("Reshape", deciding=(1,))
def reshape(call: Call, x: Value, shape: Value) -> Value:
    wanted = list(call.ints(shape, "a shape"))
    for index, size in enumerate(wanted):
        if isinstance(size, int) and size == 0 and not call.attribute("allowzero", 0):
            if index >= len(x.shape):
                call.refuse(f"the shape {wanted} for {x.shape}")
            wanted[index] = x.shape[index]
    unknown = [i for i, size in enumerate(wanted) if isinstance(size, int) and size == -1]
    if len(unknown) > 1 or any(isinstance(size, int) and size < -1 for size in wanted):
        call.refuse(f"the shape {wanted}")
    if unknown:
        others = math.prod([size for index, size in enumerate(wanted) if index != unknown[0]])
        total = math.prod(x.shape)
        if isinstance(others, int) and others == 0:
            call.refuse(f"the shape {wanted}, with an ambiguous -1")
        wanted[unknown[0]] = total // others
    if _plain(wanted) and _plain(x.shape) and math.prod(wanted) != math.prod(x.shape):
        call.refuse(f"the shape {wanted} for {list(x.shape)}")
    return reshaped(x, wanted)


@operator("Flatten")
def flatten(call: Call, x: Value) -> Value:
    axis = call.attribute("axis")
    axis = axis + x.ndim if axis < 0 else axis
    return reshaped(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Squeeze", deciding=(1,))
def squeeze(call: Call, x: Value, axes: Value = None) -> Value:
    chosen = axes_of(call, axes, x.ndim)
    if chosen is None:
        chosen = tuple(i for i, size in enumerate(x.shape) if isinstance(size, int) and size == 1)
    return (np if is_known(x) else jnp).squeeze(x, chosen)


@operator("Unsqueeze", deciding=(1,))
def unsqueeze(call: Call, x: Value, axes: Value = None) -> Value:
    stated = call.attribute("axes") if axes is None else call.ints(axes, "axes")
    rank = x.ndim + len(stated)
    added = {axis_of(call, axis, rank) for axis in stated}
    if len(added) < len(stated):
        call.refuse(f"axes {list(stated)} with one twice")
    old = iter(x.shape)
    return reshaped(x, [1 if axis in added else next(old) for axis in range(rank)])


@operator("Transpose")
def transpose(call: Call, x: Value) -> Value:
    order = call.attribute("perm") or tuple(reversed(range(x.ndim)))
    return (np if is_known(x) else jnp).transpose(x, order)


@operator("Concat")
def concat(call: Call, *values: Value) -> Value:
    axis = axis_of(call, call.attribute("axis", 1), values[0].ndim)
    if values[0].ndim == 0:
        call.refuse("arrays of rank 0")
    xp, arrays = call.operands(*values)
    if xp is np:
        if sum(array.size for array in arrays) > 1 << 20:
            xp, arrays = jnp, tuple(map(call.to_jax, arrays))
        elif any(is_symbolic(value) for value in arrays):
            arrays = tuple(array.astype(object) for array in arrays)
    return xp.concatenate(arrays, axis)


@operator("Split", deciding=(1,))
def split(call: Call, x: Value, lengths: Value = None) -> tuple[Value, ...]:
    axis = axis_of(call, call.attribute("axis"), x.ndim)
    total = x.shape[axis]
    parts = call.attribute("split") if lengths is None else call.ints(lengths, "split")
    if parts is None:
        count = call.attribute("num_outputs") or len(call.node.outputs)
        if call.version >= 18:
            each = -(-total // count)
            parts = [each] * (count - 1)
            parts.append(total - each * (count - 1))
        else:
            if isinstance(total, int) and total % count:
                call.refuse(f"{total} elements in {count} equal parts")
            parts = [total // count] * count
    if _plain(parts) and isinstance(total, int) and sum(parts) != total:
        call.refuse(f"parts of {list(parts)} of {total} elements")
    if _plain(parts) and min(parts, default=0) < 0:
        call.refuse(f"parts of {list(parts)}")
    return tuple(pieces(x if _plain(parts) else call.to_jax(x), parts, axis))


def pieces(x: Value, parts: Sequence[Any], axis: int) -> list[Value]:
    """Return parts of an array one after the other."""
    found = []
    start: Any = 0
    for part in parts:
        found.append(cut(x, axis, start, start + part))
        start = start + part
    return found


def cut(x: Value, axis: int, start: Any, end: Any) -> Value:
    """Return elements from start to end of an axis, both within it."""
    if is_known(x):
        return x[(slice(None),) * axis + (slice(start, end),)]
    return lax.slice_in_dim(x, start, end, axis=axis)


@operator("Slice", deciding=(1, 2, 3, 4))
def slice_(
    call: Call,
    x: Value,
    starts: Value = None,
    ends: Value = None,
    axes: Value = None,
    steps: Value = None,
) -> Value:
    if call.version < 10:
        first, last = call.attribute("starts"), call.attribute("ends")
        over = call.attribute("axes") or range(len(first))
    else:
        first, last = call.ints(starts, "starts"), call.ints(ends, "ends")
        over = range(len(first)) if axes is None else call.ints(axes, "axes")
    by = [1] * len(first) if steps is None else call.ints(steps, "steps")
    if not len(first) == len(last) == len(list(over)) == len(by):
        call.refuse("starts, ends, axes and steps of different lengths")
    for start, end, axis, step in zip(first, last, over, by, strict=True):
        axis = axis_of(call, axis, x.ndim)
        if step == 0:
            call.refuse("a step of 0")
        x = _sliced(call, x, axis, start, end, step)
    return x


def _bounded(at: Any, size: Any, low: Any, high: Any) -> Any:
    """Return a position that counts from the end where it is negative, within bounds."""
    if isinstance(at, int) and at >= 1 << 30:
        return high
    if isinstance(at, int) and at <= -(1 << 30):
        return low
    if at is size:
        return high
    if isinstance(at, int) and at == 0:
        return 0
    at = at + size if at < 0 else at
    return core.max_dim(core.min_dim(at, high), low)


def _sliced(call: Call, x: Value, axis: int, start: Any, end: Any, step: int) -> Value:
    size = x.shape[axis]
    if not _plain((size, start, end)):
        x = call.to_jax(x)  # numpy takes no symbolic size
    if step > 0:
        low, high = _bounded(start, size, 0, size), _bounded(end, size, 0, size)
        high = max(low, high) if isinstance(high, int) and isinstance(low, int) else high
        if is_known(x):
            return x[(slice(None),) * axis + (slice(low, high, step),)]
        if isinstance(step, int) and step > 2**31 - 1:
            step = 2**31 - 1
        return lax.slice_in_dim(x, low, high, stride=step, axis=axis)
    first = _bounded(start, size, -1, size - 1)
    last = _bounded(end, size, -1, size - 1)
    if isinstance(end, int) and isinstance(size, int) and end < -size:
        last = -1
    index = (slice(None),) * axis
    if is_known(x):
        return x[(*index, slice(first, last if last >= 0 else None, step))]
    low, high = last + 1, first + 1
    if isinstance(low, int) and isinstance(high, int):
        high = max(low, high)
    flipped = lax.rev(lax.slice_in_dim(x, low, high, axis=axis), (axis,))
    length = flipped.shape[axis]
    return flipped if step == -1 else lax.slice_in_dim(flipped, 0, length, stride=-step, axis=axis)


@operator("Expand", deciding=(1,))
def expand(call: Call, x: Value, shape: Value) -> Value:
    wanted = call.ints(shape, "a shape")
    rank = max(x.ndim, len(wanted))
    old = (1,) * (rank - x.ndim) + tuple(x.shape)
    new = (1,) * (rank - len(wanted)) + wanted
    both = tuple(b if isinstance(a, int) and a == 1 else a for a, b in zip(old, new, strict=True))
    for a, b in zip(both, new, strict=True):
        if isinstance(a, int) and isinstance(b, int) and b not in (1, a):
            call.refuse(f"the shape {list(wanted)} for {list(x.shape)}")
    if call.is_small(both) and is_known(x):
        return np.broadcast_to(x, both)
    return jnp.broadcast_to(call.to_jax(x), both)


@operator("Tile", deciding=(1,))
def tile(call: Call, x: Value, repeats: Value) -> Value:
    times = call.ints(repeats, "repeats")
    if len(times) != x.ndim:
        call.refuse(f"{len(times)} repeats for rank {x.ndim}")
    small = call.is_small([size * n for size, n in zip(x.shape, times, strict=True)])
    return np.tile(x, times) if small and is_known(x) else jnp.tile(call.to_jax(x), times)


@operator("Range", deciding=(0, 1, 2))
def range_(call: Call, start: Value, limit: Value, delta: Value) -> Value:
    if all(is_known(value) and not is_symbolic(value) for value in (start, limit, delta)):
        first, last, step = (value.reshape(()) for value in (start, limit, delta))
        if step == 0:
            call.refuse("a step of 0")
        if start.dtype.kind in "iu":
            count = max(-(-(int(last) - int(first)) // int(step)), 0)
        else:
            count = max(math.ceil((float(last) - float(first)) / float(step)), 0)
        if call.is_small([count]):
            return (first + np.arange(count) * step).astype(start.dtype)
        dtype = call.jax_dtype(start.dtype)
        return lax.iota(dtype, count) * call.to_jax(step) + call.to_jax(first)
    first, last, step = (
        call.ints(value, "a size of a range")[0] for value in (start, limit, delta)
    )
    return jnp.arange(first, last, step, dtype=call.jax_dtype(np.int64))


@operator("Pad", deciding=(1, 3))
def pad(call: Call, x: Value, pads: Value = None, value: Value = None, axes: Value = None) -> Value:
    stated = call.attribute("pads") if pads is None else call.ints(pads, "pads")
    over = axes_of(call, axes, x.ndim)
    along = range(x.ndim) if over is None else over
    if len(stated) != 2 * len(along):
        call.refuse(f"{len(stated)} pads for {len(along)} axes")
    widths: list[tuple[Any, Any]] = [(0, 0)] * x.ndim
    for index, axis in enumerate(along):
        widths[axis] = stated[index], stated[index + len(along)]
    mode = call.attribute("mode")
    x = call.to_jax(x)
    call.is_small([size + sum(width) for size, width in zip(x.shape, widths, strict=True)])
    if mode == "constant":
        fill = call.attribute("value", 0.0) if value is None else call.to_jax(value).reshape(())
        return lax.pad(x, jnp.asarray(fill, x.dtype), [(low, high, 0) for low, high in widths])
    for axis, (low, high) in enumerate(widths):
        size = x.shape[axis]
        x = cut(x, axis, max(-low, 0), size - max(-high, 0))
    grown = [(max(low, 0), max(high, 0)) for low, high in widths]
    if mode not in ("reflect", "edge", "wrap"):
        call.refuse(f"the mode {mode!r}")
    return jnp.pad(x, grown, mode=mode)


@operator("DepthToSpace")
def depth_to_space(call: Call, x: Value) -> Value:
    x, block = call.to_jax(x), call.attribute("blocksize")
    n, c, *space = x.shape
    dims, depth = len(space), c // block ** len(space)
    if call.attribute("mode", "DCR") == "DCR":
        x = x.reshape(n, *[block] * dims, depth, *space)
        order = [0, dims + 1]
        for i in range(dims):
            order += [dims + 2 + i, 1 + i]
    else:
        x = x.reshape(n, depth, *[block] * dims, *space)
        order = [0, 1]
        for i in range(dims):
            order += [2 + dims + i, 2 + i]
    return x.transpose(order).reshape(n, depth, *[size * block for size in space])


@operator("SpaceToDepth")
def space_to_depth(call: Call, x: Value) -> Value:
    x, block = call.to_jax(x), call.attribute("blocksize")
    n, c, *space = x.shape
    dims = len(space)
    split_up: list[Any] = []
    for size in space:
        split_up += [size // block, block]
    x = x.reshape(n, c, *split_up)
    outer = [2 + 2 * i for i in range(dims)]
    inner = [3 + 2 * i for i in range(dims)]
    if call.attribute("mode", "DCR") == "DCR":
        x = x.transpose(0, *inner, 1, *outer)
    else:
        x = x.transpose(0, 1, *inner, *outer)
    return x.reshape(n, c * block**dims, *[size // block for size in space])


@operator("EyeLike")
def eye_like(call: Call, x: Value) -> Value:
    kind = call.attribute("dtype")
    dtype = call.jax_dtype(x.dtype if kind is None else call.dtype(kind))
    return jnp.eye(x.shape[0], x.shape[1], call.attribute("k"), dtype)


@operator("Trilu")
def trilu(call: Call, x: Value, k: Value = None) -> Value:
    x = call.to_jax(x)
    offset = 0 if k is None else call.to_jax(k).reshape(())
    rows = lax.broadcasted_iota(jnp.int32, x.shape[-2:], 0)
    columns = lax.broadcasted_iota(jnp.int32, x.shape[-2:], 1)
    kept = columns - rows >= offset if call.attribute("upper") else columns - rows <= offset
    return jnp.where(kept, x, jnp.zeros((), x.dtype))


@operator("ReverseSequence")
def reverse_sequence(call: Call, x: Value, lengths: Value) -> Value:
    x, lengths = call.to_jax(x), call.to_jax(lengths)
    time, batch = call.attribute("time_axis"), call.attribute("batch_axis")
    moved = jnp.moveaxis(x, (time, batch), (0, 1))
    return jnp.moveaxis(reversed_steps(moved, lengths), (0, 1), (time, batch))


def reversed_steps(x: Any, lengths: Any) -> Any:
    """Reverse the first `lengths` steps of each batch in an array of (step, batch, …)."""
    steps = lax.iota(jnp.int32, x.shape[0])[:, None]
    lengths = lengths.astype(jnp.int32)[None, :]
    index = jnp.where(steps < lengths, lengths - 1 - steps, steps)
    return jnp.take_along_axis(x, index.reshape(*index.shape, *[1] * (x.ndim - 2)), axis=0)


add_expanded("CenterCropPad", deciding=(1,))


@operator("Col2Im", deciding=(1, 2))
def col2im(call: Call, x: Value, image: Value, block: Value) -> Value:
    x = call.to_jax(x)
    sizes_, blocks = call.ints(image, "a shape"), call.ints(block, "a shape")
    dims = len(sizes_)
    steps = call.attribute("strides") or (1,) * dims
    gaps = call.attribute("dilations") or (1,) * dims
    pads = call.attribute("pads") or (0,) * (2 * dims)
    padded = [size + pads[i] + pads[i + dims] for i, size in enumerate(sizes_)]
    call.is_small(padded)
    counts = [(padded[i] - gaps[i] * (blocks[i] - 1) - 1) // steps[i] + 1 for i in range(dims)]
    batch, columns, _ = x.shape
    channels = columns // math.prod(blocks)
    x = x.reshape(batch, channels, math.prod(blocks), *counts)
    total = jnp.zeros((batch, channels, *padded), x.dtype)
    for position, at in enumerate(np.ndindex(*blocks)):
        place = tuple(
            slice(at[i] * gaps[i], at[i] * gaps[i] + steps[i] * (counts[i] - 1) + 1, steps[i])
            for i in range(dims)
        )
        call.spend(1)
        total = total.at[(slice(None), slice(None), *place)].add(x[:, :, position])
    inside = tuple(slice(pads[i], pads[i] + sizes_[i]) for i in range(dims))
    return total[(slice(None), slice(None), *inside)]
