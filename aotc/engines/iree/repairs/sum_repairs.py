"""Sums of products, and sums of many numbers."""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.compile.mlir import long_sums
from aotc.compile.mlir.jax_functions import dtype_of, element_of, put, shape_of
from aotc.compile.mlir.mlir_context import DTYPES, operations_named
from aotc.engines.iree.repairs.repair_bodies import FLOATS, UnrepairableError, replace


def product(operation: Any) -> None:
    """Sum products of float16 and bfloat16 in float32, as XLA does; IREE rounds every sum.

    Unsigned integers are widened, which IREE reads as signed when the sums are wider. Sums of
    booleans over nothing are false, for which IREE divides by zero.
    """
    element = element_of(operation.results[0])
    if element == "i1" and any(0 in operand.type.shape for operand in operation.operands):
        shape = shape_of(operation.results[0])
        replace(operation, lambda *_: jnp.zeros(shape, bool))
        return
    given = [element_of(operand) for operand in operation.operands]
    if element in ("f16", "bf16"):
        _sum_in(operation, "f32", operation.name == "stablehlo.convolution")
    elif any(each.startswith("ui") and each != element for each in given):
        _sum_in(operation, element, True)


def _sum_in(operation: Any, element: str, widened: bool) -> None:
    """Sum in a type. widened: whether the factors are made numbers of it."""
    (given,) = operation.results
    factors = list(operation.operands)
    if widened:
        factors = [_convert(operation, each, DTYPES[element]) for each in factors]
    with ir.InsertionPoint(operation):
        wide = ir.Operation.create(
            operation.name,
            results=[ir.RankedTensorType.get(shape_of(given), ir.Type.parse(element))],
            operands=factors,
            attributes={name: operation.attributes[name] for name in operation.attributes},
        )
    given.replace_all_uses_with(_convert(operation, wide.result, dtype_of(given)))
    operation.erase()


def _convert(operation: Any, value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert behind a barrier, so that IREE does not fuse the conversion into the product."""
    (made,) = put(operation, lambda x: lax.optimization_barrier(x.astype(dtype)), value)
    return made


def total(operation: Any) -> None:
    """Add many numbers as sums of sums, since IREE adds those of an axis to one number."""
    for operand in operation.operands:
        _hold(operand)
    axes = list(ir.DenseI64ArrayAttr(operation.attributes["dimensions"]))
    element = _element_of_sum(operation)
    steps = long_sums.plan(shape_of(operation.operands[0]), axes) if element in FLOATS else []
    if len(steps) > 1:
        replace(operation, partial(_in_steps, steps, shape_of(operation.results[0])))


def _in_steps(steps: Sequence[long_sums.Step], shape: Sequence[int], value: Any, start: Any) -> Any:
    zero = np.zeros((), value.dtype)
    for step in steps:
        behind = [(0, wide - size, 0) for wide, size in zip(step.padded, step.shape, strict=True)]
        value = lax.pad(value.reshape(step.shape), zero, behind).reshape(step.cut)
        value = lax.reduce(value, start if step is steps[-1] else zero, lax.add, step.axes)
    return value.reshape(shape)


def _hold(value: Any) -> None:
    """Round numbers of 16 bits once that a reduction shares with other operations.

    IREE computes them again for each, in float32, and rounds those of one only: a softmax subtracts
    the maximum of numbers from larger ones, and its exponentials are infinite.
    """
    if element_of(value) not in ("bf16", "f16") or len([*value.uses]) < 2:
        return
    if isinstance(value.owner, ir.Block) or value.owner.name in _HELD:
        return
    made_by = value.owner.operation
    operations = [each.operation for each in made_by.block.operations]
    with ir.InsertionPoint(operations[operations.index(made_by) + 1]):
        barrier = ir.Operation.create(
            "stablehlo.optimization_barrier", results=[value.type], operands=[value]
        )
    value.replace_all_uses_except(barrier.results[0], barrier)


_HELD = ("stablehlo.constant", "stablehlo.optimization_barrier")


def _element_of_sum(operation: Any) -> str:
    """Return what a reduction adds; "" of one that adds nothing."""
    if len(operation.results) != 1:
        return ""
    block = operation.regions[0].blocks[0]
    first, *others = block.operations
    is_sum = len(others) == 1 and first.operation.name == "stablehlo.add"
    is_sum = is_sum and {*first.operation.operands} == {*block.arguments}
    is_sum = is_sum and [*others[0].operation.operands] == [*first.operation.results]
    return element_of(operation.operands[0]) if is_sum else ""


def long_product(operation: Any) -> None:
    """Add the products along a long axis in blocks."""
    numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    given = [list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)]
    batches = [list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)]
    operands = list(operation.operands)
    sizes = [shape_of(operands[0])[axis] for axis in given[0]]
    element = element_of(operation.results[0])
    if element not in FLOATS or max(sizes, default=0) <= _TERMS_MAX:
        return
    place = sizes.index(max(sizes))
    count = -(-sizes[place] // (_TERMS_MAX // 2))
    block = -(-sizes[place] // count)
    precision = (
        [
            lax.Precision[str(each).partition("<precision ")[2][:-1]]
            for each in operation.attributes["precision_config"]
        ]
        if "precision_config" in operation.attributes
        else None
    )
    dtype = dtype_of(operation.results[0])

    def in_blocks(*factors: Any) -> Any:
        cut, contracting, batching = [], [], []
        for factor, contracted, batch in zip(factors, given, batches, strict=True):
            axis = contracted[place]
            cut.append(_cut(factor, axis, count, block))
            moved = [each + (each > axis) for each in contracted]
            moved[place] = axis + 1
            contracting.append(moved)
            batching.append([axis, *(each + (each > axis) for each in batch)])
        made = lax.dot_general(
            *cut, (contracting, batching), precision, preferred_element_type=dtype
        )
        return lax.reduce(made, np.zeros((), dtype), lax.add, (0,))

    replace(operation, in_blocks)


_TERMS_MAX = 4096
"""Most products that are added one after the other."""


def _cut(value: Any, axis: int, count: int, block: int) -> Any:
    """Return an array with an axis as two, which is padded with zeros."""
    behind = [(0, 0)] * value.ndim
    behind[axis] = 0, count * block - value.shape[axis]
    shape = (*value.shape[:axis], count, block, *value.shape[axis + 1 :])
    return jnp.pad(value, behind).reshape(shape)


def _numbers(operation: Any, name: str) -> list[int]:
    """Return one number for each axis; none where the operation does not state them."""
    if name not in operation.attributes:
        return []
    return list(ir.DenseI64ArrayAttr(operation.attributes[name]))


def convolution(operation: Any) -> None:
    """Sum products as `product` does.

    Raises UnrepairableError for a convolution of one number at a stride: IREE computes what made
    the image at the taken places alone, though other operations read the rest.
    """
    numbers = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    axes = *numbers.kernel_spatial_dimensions, numbers.kernel_input_feature_dimension
    shape = shape_of(operation.operands[1])
    if (
        prod(shape[axis] for axis in axes) == 1
        and max(_numbers(operation, "window_strides"), default=1) > 1
    ):
        raise UnrepairableError(f"{operation.name} of single numbers at a stride")
    product(operation)


def require_windows(operation: Any) -> None:
    """Raise UnrepairableError for windows that IREE computes differently.

    These are windows of one number at a stride, where it computes the operand at the used places
    only, and sums of many floats per window, which it adds one by one.
    """
    sizes, strides = (_numbers(operation, f"window_{name}") for name in ("dimensions", "strides"))
    if max(sizes, default=1) == 1 < max(strides, default=1):
        raise UnrepairableError(f"{operation.name} of single numbers at a stride")
    if _element_of_sum(operation) in FLOATS and prod(sizes) > long_sums.TERMS_MAX:
        raise UnrepairableError(f"{operation.name} of sums of {prod(sizes)} numbers")


_REDUCING = (
    "stablehlo.convolution",
    "stablehlo.dot_general",
    "stablehlo.reduce",
    "stablehlo.reduce_window",
)


def keep_known(module: Any) -> None:
    """Put a barrier between a reduction and values computed from constants alone.

    IREE folds these to one number, and then forgets how many of them are reduced.
    """
    known: dict[Any, bool] = {}
    for operation in operations_named(module, _REDUCING):
        count = len(operation.operands)
        for place in range(count // 2 if "reduce" in operation.name else count):
            value = operation.operands[place]
            if _is_known(value, known) and not _is_filled(value):
                (operation.operands[place],) = put(operation, lax.optimization_barrier, value)


def _is_filled(value: Any) -> bool:
    """Return whether a value is a constant, or one that is repeated."""
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name == "stablehlo.broadcast_in_dim":
        owner = owner.operands[0].owner
    return not isinstance(owner, ir.Block) and owner.name == "stablehlo.constant"


def _is_known(value: Any, known: dict[Any, bool]) -> bool:
    """Return whether a value depends on constants alone. known: answers so far."""
    if value not in known:
        owner = value.owner
        known[value] = not isinstance(owner, ir.Block) and all(
            _is_known(each, known) for each in owner.operands
        )
    return known[value]
