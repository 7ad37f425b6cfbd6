"""Numerical workarounds for indices outside of an array.

IREE accesses memory outside it, or misreads small or large integers. XLA clamps indices of gathers
and slices, and omits updates that do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.engines.iree.repairs.repair_text import (
    BITS,
    FLOATS,
    bools,
    chosen,
    constants,
    kind_of,
    like,
    pair,
    put,
    shape_of,
    tensor,
)

_INDEX = "i32"
_MOST = 2**31 - 1


def gather(operation: Any) -> None:
    """Clamp the indices as StableHLO says."""
    numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    sizes = list(ir.DenseI64ArrayAttr(operation.attributes["slice_sizes"]))
    shape = shape_of(operation.operands[0])
    limits = [shape[axis] - sizes[axis] for axis in numbers.start_index_map]
    indices = operation.operands[1]
    if 0 in shape_of(indices) or _fit(indices, numbers.index_vector_dim, limits):
        return
    body, kind = _wide(indices, limits)
    body += _row("high", kind, numbers.index_vector_dim, limits)
    body += constants(kind, low="0") + f"    %r = stablehlo.clamp %low, %i, %high : {kind}\n"
    (operation.operands[1],) = put(operation, body, [indices], [kind])


def dynamic_slice(operation: Any) -> None:
    """Clamp starts that are no int32 before IREE makes them one."""
    sizes = ir.DenseI64ArrayAttr(operation.attributes["slice_sizes"])
    _clamp_starts(operation, 1, list(sizes))


def dynamic_update_slice(operation: Any) -> None:
    """Clamp starts that are no int32 before IREE makes them one."""
    _clamp_starts(operation, 2, shape_of(operation.operands[1]))


def _clamp_starts(operation: Any, first: int, sizes: Sequence[int]) -> None:
    shape = shape_of(operation.operands[0])
    if all(kind_of(start)[1] == _INDEX for start in list(operation.operands)[first:]):
        return
    for axis, size in enumerate(sizes):
        start = operation.operands[first + axis]
        body, kind = _wide(start, [shape[axis] - size])
        body += constants(kind, low="0", high=str(shape[axis] - size))
        body += f"""
    %safe = stablehlo.clamp %low, %i, %high : {kind}
    %r = stablehlo.convert %safe : ({kind}) -> tensor<{_INDEX}>
"""
        (operation.operands[first + axis],) = put(operation, body, [start], [f"tensor<{_INDEX}>"])


def scatter(operation: Any) -> None:
    """Leave out the updates whose window does not fit.

    They become updates that change nothing where the function has such; else they go to room that
    is added behind the array and cut off again.
    """
    numbers = stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
    count = len(operation.results)
    operands = list(operation.operands)
    arrays, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    shape, windows = shape_of(arrays[0]), _windows(numbers, shape_of(updates[0]))
    axes = list(numbers.scattered_dims_to_operand_dims)
    window = [windows.get(axis, 1) for axis in range(len(shape))]
    limits = [shape[axis] - window[axis] for axis in axes]
    if 0 in shape_of(updates[0]) or _fit(indices, numbers.index_vector_dim, limits):
        return
    neutral = _neutral(operation) if count == 1 else None
    batches = list(numbers.scatter_indices_batching_dims)
    arguments, value = _returned(operation)
    alone = (
        count == 1
        and value == arguments[1]  # whatever was there
        and prod(
            size
            for axis, size in enumerate(shape_of(indices))
            if axis not in (*batches, numbers.index_vector_dim)
        )
        == 1
    )
    room = max(axes, key=lambda axis: shape[axis])
    instead = [0 if neutral or alone or axis != room else shape[axis] for axis in axes]
    fits, safe = _checked(operation, indices, numbers.index_vector_dim, limits, instead)
    operation.operands[count] = safe
    if "indices_are_sorted" in operation.attributes:
        del operation.attributes["indices_are_sorted"]
    if neutral or alone:
        kind, _ = kind_of(updates[0])
        outer = [d for d in range(len(shape_of(updates[0]))) if d not in numbers.update_window_dims]
        mask = f"""
    %mask = stablehlo.broadcast_in_dim %a1, dims = {outer} : ({fits.type}) -> {bools(kind)}
    %r = stablehlo.select %mask, %a0, %kept : {chosen(kind)}
"""
        if neutral:
            body, given = constants(kind, kept=neutral) + mask, [updates[0], fits]
        else:
            old = _old(numbers, window, arrays[0], safe, kind)
            body, given = old + mask, [updates[0], fits, arrays[0], safe]
        (operation.operands[count + 1],) = put(operation, body, given, [kind])
        return
    _make_room(operation, arrays, room, window[room])


def _windows(numbers: Any, updates: Sequence[int]) -> dict[int, int]:
    """Return the window's size along each axis of the array; those left out have one."""
    out = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    rank = len(numbers.update_window_dims) + len(out)
    kept = [axis for axis in range(rank) if axis not in out]
    return {
        axis: updates[place] for axis, place in zip(kept, numbers.update_window_dims, strict=True)
    }


def _fit(indices: Any, dimension: int, limits: Sequence[int]) -> bool:
    """Whether every window is known to lie inside, and the indices are as IREE takes them."""
    found = known(indices) if kind_of(indices)[1] in ("i32", "i64") else None
    if found is None:
        return False
    rows = found[..., None] if dimension == found.ndim else np.moveaxis(found, dimension, -1)
    return bool((rows >= 0).all() and (rows <= np.asarray(limits)).all())


_NUMBERS_MAX = 2**20
"""Most numbers of an array that is computed here."""

_DEPTH = 12
"""Operations that are followed backwards."""


def known(value: Any, depth: int = _DEPTH) -> Any:
    """Return the numbers of an array computed from constants alone; None of others.

    Only operations that jax uses for indices are followed.
    """
    owner, element, shape = value.owner, kind_of(value)[1], shape_of(value)
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
    given = [known(operand, depth - 1) for operand in owner.operands]
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
            return given[0].astype(f"{element.rstrip('0123456789')[0]}{BITS[element] // 8}")
        case "reshape":
            return given[0].reshape(shape)
        case "select":
            return np.where(*given)
    return None


def _wide(indices: Any, limits: Sequence[int]) -> tuple[str, str]:
    """A line that makes %i of the indices %a0, of a type that holds the limits; with its type."""
    kind, element = kind_of(indices)
    bits = BITS[element] - (not element.startswith("u"))
    held = element if max(limits, default=0) < 2**bits and BITS[element] > 16 else "i64"
    if BITS[element] < 32 and max(limits, default=0) <= _MOST:
        held = _INDEX
    wide = like(kind, held)
    return f"    %i = stablehlo.convert %a0 : ({kind}) -> {wide}\n", wide


def _row(name: str, kind: str, dimension: int, numbers: Sequence[int]) -> str:
    """Return lines that define an array of indices with these numbers along a dimension."""
    shape = ir.RankedTensorType(ir.Type.parse(kind)).shape
    element = kind.removesuffix(">").rpartition("x")[2].removeprefix("tensor<")
    if dimension == len(shape):
        return constants(kind, **{name: str(numbers[0])})
    row = tensor([len(numbers)], element)
    return (
        constants(row, **{f"{name}_row": str(list(numbers))})
        + f"    %{name} = stablehlo.broadcast_in_dim %{name}_row, dims = [{dimension}] : "
        + f"({row}) -> {kind}\n"
    )


def _checked(
    operation: Any, indices: Any, dimension: int, limits: Sequence[int], instead: Sequence[int]
) -> list[Any]:
    """Return which windows fit, and indices with other numbers for those that do not."""
    body, kind = _wide(indices, [*limits, *instead])
    body += _row("high", kind, dimension, limits) + _row("instead", kind, dimension, instead)
    shape = shape_of(indices)
    outer = [size for axis, size in enumerate(shape) if axis != dimension]
    mask, every = tensor(outer, "i1"), bools(kind)
    body += (
        constants(kind, low="0")
        + f"""
    %above = stablehlo.compare GE, %i, %low : {pair(kind)}
    %below = stablehlo.compare LE, %i, %high : {pair(kind)}
    %inside = stablehlo.and %above, %below : {every}
"""
    )
    if dimension == len(shape):
        body += f"""    %all = stablehlo.and %inside, %inside : {every}
    %r0 = stablehlo.and %inside, %inside : {every}
"""
    else:
        spread = [axis for axis in range(len(shape)) if axis != dimension]
        body += f"""    %true = stablehlo.constant dense<true> : tensor<i1>
    %r0 = stablehlo.reduce(%inside init: %true) applies stablehlo.and
        across dimensions = [{dimension}] : ({every}, tensor<i1>) -> {mask}
    %all = stablehlo.broadcast_in_dim %r0, dims = {spread} : ({mask}) -> {every}
"""
    last = like(kind, _INDEX if max([*limits, *instead]) <= _MOST else "i64")
    body += f"""    %chosen = stablehlo.select %all, %i, %instead : {chosen(kind)}
    %r1 = stablehlo.convert %chosen : ({kind}) -> {last}
"""
    return put(operation, body, [indices], [mask, last])


def _returned(operation: Any) -> tuple[list[Any], Any]:
    block = operation.regions[0].blocks[0]
    *_, last = block.operations
    return list(block.arguments), last.operation.operands[0]


def _neutral(operation: Any) -> str | None:
    """Return the update that changes nothing, as a constant; None where it is not known."""
    arguments, value = _returned(operation)
    owner = value.owner
    if isinstance(owner, ir.Block) or len(owner.operands) != 2:
        return None
    if {*owner.operands} != {*arguments} or len({*arguments}) != 2:
        return None
    element = kind_of(value)[1]
    name = owner.name.removeprefix("stablehlo.")
    if name == "subtract" and owner.operands[0] != arguments[0]:
        return None
    if element in FLOATS:
        infinity = {"f16": "7C00", "bf16": "7F80", "f32": "7F800000", "f64": "7FF0000000000000"}
        least = {"f16": "FC00", "bf16": "FF80", "f32": "FF800000", "f64": "FFF0000000000000"}
        return {
            "add": "-0.0",
            "subtract": "0.0",
            "multiply": "1.0",
            "minimum": f"0x{infinity[element]}",
            "maximum": f"0x{least[element]}",
        }.get(name)
    if element in BITS:
        bits, signed = BITS[element], not element.startswith("u")
        return {
            "add": "0",
            "subtract": "0",
            "multiply": "1",
            "minimum": str(2 ** (bits - signed) - 1),
            "maximum": str(-(2 ** (bits - 1)) if signed else 0),
            "or": "0",
            "xor": "0",
        }.get(name)
    return None


def _old(numbers: Any, window: Sequence[int], array: Any, safe: Any, kind: str) -> str:
    """Return lines that read what a scatter's windows hold, as %kept, from %a2 at %a3."""
    attributes = ", ".join(
        f"{name} = {list(dims)}"
        for name, dims in (
            ("offset_dims", numbers.update_window_dims),
            ("collapsed_slice_dims", numbers.inserted_window_dims),
            ("operand_batching_dims", numbers.input_batching_dims),
            ("start_indices_batching_dims", numbers.scatter_indices_batching_dims),
            ("start_index_map", numbers.scattered_dims_to_operand_dims),
        )
        if list(dims)
    )
    attributes += f", index_vector_dim = {numbers.index_vector_dim}"
    sizes = ", ".join(map(str, window))
    return f"""    %kept = "stablehlo.gather"(%a2, %a3) <{{
        dimension_numbers = #stablehlo.gather<{attributes}>,
        slice_sizes = array<i64: {sizes}>}}> : ({array.type}, {safe.type}) -> {kind}
"""


def _make_room(operation: Any, arrays: Sequence[Any], axis: int, size: int) -> None:
    """Scatter into arrays with room behind an axis, and cut it off the results."""
    shape = shape_of(arrays[0])
    none, behind = [0] * len(shape), [0] * len(shape)
    behind[axis] = size
    larger = [length + more for length, more in zip(shape, behind, strict=True)]
    kinds = []
    for place, array in enumerate(arrays):
        _, element = kind_of(array)
        kinds.append(tensor(larger, element))
        body = constants(f"tensor<{element}>", zero=_zero(element)) + (
            f"    %r = stablehlo.pad %a0, %zero, low = {none}, high = {behind}, "
            f"interior = {none} : "
            f"({array.type}, tensor<{element}>) -> {kinds[-1]}\n"
        )
        (operation.operands[place],) = put(operation, body, [array], [kinds[-1]])
    with ir.InsertionPoint(operation):
        wider = ir.Operation.create(
            "stablehlo.scatter",
            results=[ir.Type.parse(kind) for kind in kinds],
            operands=list(operation.operands),
            attributes={name: operation.attributes[name] for name in operation.attributes},
            regions=1,
        )
    operation.regions[0].blocks[0].append_to(wider.regions[0])
    ends = ", ".join(f"0:{length}" for length in shape)
    for result, made in zip(operation.results, wider.results, strict=True):
        body = f"    %r = stablehlo.slice %a0 [{ends}] : ({made.type}) -> {result.type}\n"
        (cut,) = put(operation, body, [made], [str(result.type)])
        result.replace_all_uses_with(cut)
    operation.erase()


def _zero(element: str) -> str:
    if element == "i1":
        return "false"
    return "0" if element in BITS else "0.0"
