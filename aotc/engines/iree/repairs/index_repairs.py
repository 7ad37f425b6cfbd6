"""Numerical workarounds for indices outside of an array.

IREE accesses memory outside it, or misreads small or large integers. XLA clamps indices of gathers
and slices, and omits updates that do not fit.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.compile.mlir.jax_functions import dtype_of, element_of, put, shape_of
from aotc.engines.iree.repairs.repair_bodies import BITS

_MOST = 2**31 - 1


def gather(operation: Any) -> None:
    """Clamp the indices as StableHLO says."""
    numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    sizes = list(ir.DenseI64ArrayAttr(operation.attributes["slice_sizes"]))
    shape = shape_of(operation.operands[0])
    limits = [shape[axis] - sizes[axis] for axis in numbers.start_index_map]
    indices, dimension = operation.operands[1], numbers.index_vector_dim
    if 0 in shape_of(indices) or _fit(indices, dimension, limits):
        return
    (operation.operands[1],) = put(operation, _clamp(indices, dimension, limits), indices)


def _clamp(indices: Any, dimension: int, limits: Sequence[int]) -> Callable[[Any], Any]:
    """Return a function that clamps indices to limits, which lie along a dimension."""
    held = _index_type(indices, limits)
    high = _row(shape_of(indices), dimension, limits, held)
    return lambda i: jnp.clip(i.astype(held), np.zeros((), held), high)


def dynamic_slice(operation: Any) -> None:
    """Clamp starts, also those of an update, that are no int32 before IREE makes them one."""
    first, sizes = 2, shape_of(operation.operands[1])
    if "slice_sizes" in operation.attributes:
        first, sizes = 1, list(ir.DenseI64ArrayAttr(operation.attributes["slice_sizes"]))
    shape = shape_of(operation.operands[0])
    if all(element_of(start) == "i32" for start in list(operation.operands)[first:]):
        return
    for axis, size in enumerate(sizes):
        start = operation.operands[first + axis]
        clamped = _clamp(start, 0, [shape[axis] - size])
        (operation.operands[first + axis],) = put(
            operation, lambda i, clamped=clamped: clamped(i).astype(jnp.int32), start
        )


def scatter(operation: Any) -> None:
    """Leave out the updates whose window does not fit.

    They become updates that change nothing where the function has such; else they go to room that
    is added behind the array and cut off again.
    """
    numbers = stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
    count, dimension = len(operation.results), numbers.index_vector_dim
    operands = list(operation.operands)
    arrays, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    shape, windows = shape_of(arrays[0]), _windows(numbers, shape_of(updates[0]))
    axes = list(numbers.scattered_dims_to_operand_dims)
    window = [windows.get(axis, 1) for axis in range(len(shape))]
    limits = [shape[axis] - window[axis] for axis in axes]
    if 0 in shape_of(updates[0]) or _fit(indices, dimension, limits):
        return
    neutral = _neutral(operation) if count == 1 else None
    arguments, value = _region_results(operation)
    unbatched = [
        size
        for axis, size in enumerate(shape_of(indices))
        if axis not in (*numbers.scatter_indices_batching_dims, dimension)
    ]
    # A single update may write what was there.
    alone = count == 1 and value == arguments[1] and prod(unbatched) == 1
    room = max(axes, key=lambda axis: shape[axis])
    is_kept = neutral is not None or alone
    instead = [0 if is_kept or axis != room else shape[axis] for axis in axes]
    fits, safe = put(operation, _check_windows(indices, dimension, limits, instead), indices)
    operation.operands[count] = safe
    if "indices_are_sorted" in operation.attributes:
        del operation.attributes["indices_are_sorted"]
    if not is_kept:
        _make_room(operation, arrays, room, window[room])
        return
    inner = list(numbers.update_window_dims)

    def chosen(update: Any, fits: Any, array: Any, safe: Any) -> Any:
        kept = _old(numbers, window, array, safe) if neutral is None else neutral
        return jnp.where(jnp.expand_dims(fits, inner), update, kept)

    (operation.operands[count + 1],) = put(
        operation, chosen, updates[0], fits, arrays[0], operation.operands[count]
    )


def _windows(numbers: Any, updates: Sequence[int]) -> dict[int, int]:
    """Return the window's size along each axis of the array; those left out have one."""
    out = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    rank = len(numbers.update_window_dims) + len(out)
    kept = [axis for axis in range(rank) if axis not in out]
    return {
        axis: updates[place] for axis, place in zip(kept, numbers.update_window_dims, strict=True)
    }


def _fit(indices: Any, dimension: int, limits: Sequence[int]) -> bool:
    """Return whether all windows are known to lie inside, at indices of a type that IREE takes."""
    found = constant_value(indices) if element_of(indices) in ("i32", "i64") else None
    if found is None:
        return False
    rows = found[..., None] if dimension == found.ndim else np.moveaxis(found, dimension, -1)
    return bool((rows >= 0).all() and (rows <= np.asarray(limits)).all())


_NUMBERS_MAX = 2**20
"""Most numbers of an array that is computed here."""

_DEPTH = 12
"""Operations that are followed backwards."""


def constant_value(value: Any, depth: int = _DEPTH) -> Any:
    """Return the numbers of an array computed from constants alone; None of others.

    Only operations that jax uses for indices are followed.
    """
    owner, element, shape = value.owner, element_of(value), shape_of(value)
    if depth == 0 or isinstance(owner, ir.Block) or prod(shape) > _NUMBERS_MAX:
        return None
    name, attributes = owner.name.removeprefix("stablehlo."), owner.attributes
    if name == "constant":
        is_whole = element in (*BITS, "i1")
        return np.asarray(ir.DenseElementsAttr(attributes["value"])) if is_whole else None
    if name == "iota" and element in BITS:
        axis = ir.IntegerAttr(attributes["iota_dimension"]).value
        row = np.arange(shape[axis]).reshape(-1, *[1] * (len(shape) - axis - 1))
        return np.broadcast_to(row, shape)
    given = [constant_value(operand, depth - 1) for operand in owner.operands]
    if any(each is None for each in given):
        return None
    match name:
        case "add" if element in BITS:
            return given[0] + given[1]
        case "broadcast_in_dim":
            own = [1] * len(shape)
            axes = list(ir.DenseI64ArrayAttr(attributes["broadcast_dimensions"]))
            for axis, size in zip(axes, given[0].shape, strict=True):
                own[axis] = size
            return np.broadcast_to(given[0].reshape(own), shape) if axes == sorted(axes) else None
        case "compare" if "LT" in str(attributes["comparison_direction"]):
            return given[0] < given[1]
        case "concatenate":
            return np.concatenate(given, ir.IntegerAttr(attributes["dimension"]).value)
        case "convert" if element in BITS:
            return given[0].astype(dtype_of(value))
        case "reshape":
            return given[0].reshape(shape)
        case "select":
            return np.where(*given)
    return None


def _index_type(indices: Any, limits: Sequence[int]) -> np.dtype[Any]:
    """Return an integer type for indices that IREE takes and that holds the limits."""
    own, most = np.dtype(dtype_of(indices)), max(limits, default=0)
    if own.itemsize < 4 and most <= _MOST:
        return np.dtype(np.int32)
    return own if own.itemsize > 2 and most <= np.iinfo(own).max else np.dtype(np.int64)


def _row(shape: Sequence[int], dimension: int, numbers: Sequence[int], dtype: Any) -> Any:
    """Return numbers along a dimension of indices, in an array that broadcasts to their shape."""
    if dimension == len(shape) or not shape:
        return np.asarray(numbers[0], dtype)
    row = np.asarray(numbers, dtype)
    return row.reshape([-1 if axis == dimension else 1 for axis in range(len(shape))])


def _check_windows(
    indices: Any, dimension: int, limits: Sequence[int], instead: Sequence[int]
) -> Callable[[Any], Any]:
    """Return a function of which windows fit, and of indices with other numbers for the rest."""
    shape, held = shape_of(indices), _index_type(indices, [*limits, *instead])
    high, other = (_row(shape, dimension, each, held) for each in (limits, instead))
    last = np.int32 if max([*limits, *instead]) <= _MOST else np.int64

    def checked(indices: Any) -> Any:
        i = indices.astype(held)
        inside = (i >= 0) & (i <= high)
        if dimension == len(shape):
            return inside, jnp.where(inside, i, other).astype(last)
        fits = inside.all(dimension)
        taken = jnp.where(jnp.expand_dims(fits, dimension), i, other)
        return fits, taken.astype(last)

    return checked


def _region_results(operation: Any) -> tuple[list[Any], Any]:
    block = operation.regions[0].blocks[0]
    *_, last = block.operations
    return list(block.arguments), last.operation.operands[0]


def _neutral(operation: Any) -> Any:
    """Return the update that changes nothing; None where it is not known."""
    arguments, value = _region_results(operation)
    owner = value.owner
    if isinstance(owner, ir.Block) or len(owner.operands) != 2:
        return None
    if {*owner.operands} != {*arguments} or len({*arguments}) != 2:
        return None
    element, dtype = element_of(value), dtype_of(value)
    name = owner.name.removeprefix("stablehlo.")
    if element == "i1" or (name == "subtract" and owner.operands[0] != arguments[0]):
        return None
    least, most, nothing = -np.inf, np.inf, -0.0
    if element in BITS:
        limits = np.iinfo(dtype)
        least, most, nothing = limits.min, limits.max, 0
    known = {"add": nothing, "subtract": 0, "multiply": 1, "minimum": most, "maximum": least}
    known |= dict.fromkeys(("or", "xor"), 0)
    return np.asarray(known[name], dtype) if name in known else None


def _old(numbers: Any, window: Sequence[int], array: Any, safe: Any) -> Any:
    """Return what a scatter's windows hold."""
    dimension = numbers.index_vector_dim
    last = safe[..., None] if dimension == safe.ndim else jnp.moveaxis(safe, dimension, -1)
    taken = lax.GatherDimensionNumbers(
        offset_dims=tuple(numbers.update_window_dims),
        collapsed_slice_dims=tuple(numbers.inserted_window_dims),
        start_index_map=tuple(numbers.scattered_dims_to_operand_dims),
        operand_batching_dims=tuple(numbers.input_batching_dims),
        start_indices_batching_dims=tuple(numbers.scatter_indices_batching_dims),
    )
    return lax.gather(array, last, taken, window, mode="promise_in_bounds")


def _make_room(operation: Any, arrays: Sequence[Any], axis: int, size: int) -> None:
    """Scatter into arrays with room behind an axis, and cut it off the results."""
    behind = [(0, size if each == axis else 0) for each in range(len(shape_of(arrays[0])))]
    for place, array in enumerate(arrays):
        (operation.operands[place],) = put(operation, lambda x: jnp.pad(x, behind), array)
    with ir.InsertionPoint(operation):
        wider = ir.Operation.create(
            "stablehlo.scatter",
            results=[each.type for each in list(operation.operands)[: len(arrays)]],
            operands=list(operation.operands),
            attributes={name: operation.attributes[name] for name in operation.attributes},
            regions=1,
        )
    operation.regions[0].blocks[0].append_to(wider.regions[0])
    length = shape_of(arrays[0])[axis]
    for result, made in zip(operation.results, wider.results, strict=True):
        (cut,) = put(operation, lambda x: lax.slice_in_dim(x, 0, length, axis=axis), made)
        result.replace_all_uses_with(cut)
    operation.erase()
