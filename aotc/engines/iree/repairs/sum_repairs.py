"""Sums of products, and sums of many numbers."""

from __future__ import annotations

from math import prod
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.compile.mlir import long_sums
from aotc.engines.iree.repairs.repair_text import (
    FLOATS,
    UnrepairableError,
    kind_of,
    like,
    put,
    replace,
    shape_of,
    tensor,
)


def product(operation: Any) -> None:
    """Sum products of float16 and bfloat16 in float32, as XLA does; IREE rounds every sum.

    Unsigned integers are widened, which IREE reads as signed when the sums are wider. Sums of
    booleans over nothing are false, for which IREE divides by zero.
    """
    kind, element = kind_of(operation.results[0])
    if element == "i1" and any(0 in operand.type.shape for operand in operation.operands):
        replace(operation, f"    %r = stablehlo.constant dense<false> : {kind}")
        return
    given = [kind_of(operand)[1] for operand in operation.operands]
    if element in ("f16", "bf16"):
        _summed(operation, "f32", operation.name == "stablehlo.convolution")
    elif any(each.startswith("ui") and each != element for each in given):
        _summed(operation, element, True)


def _summed(operation: Any, element: str, widened: bool) -> None:
    """widened: whether the factors are made numbers of the sums' kind."""
    (given,) = operation.results
    kind = str(given.type)
    factors = list(operation.operands)
    if widened:
        factors = [_converted(operation, each, like(str(each.type), element)) for each in factors]
    with ir.InsertionPoint(operation):
        wide = ir.Operation.create(
            operation.name,
            results=[ir.Type.parse(like(kind, element))],
            operands=factors,
            attributes={name: operation.attributes[name] for name in operation.attributes},
        )
    given.replace_all_uses_with(_converted(operation, wide.result, kind))
    operation.erase()


def _converted(operation: Any, value: Any, kind: str) -> Any:
    """Return a conversion behind a barrier, so that IREE does not fuse it into the product."""
    body = f"""
    %made = stablehlo.convert %a0 : ({value.type}) -> {kind}
    %r = stablehlo.optimization_barrier %made : {kind}
"""
    (made,) = put(operation, body, [value], [kind])
    return made


def total(operation: Any) -> None:
    """Add many numbers as sums of sums, since IREE adds those of an axis to one number."""
    for operand in operation.operands:
        _hold(operand)
    axes = list(ir.DenseI64ArrayAttr(operation.attributes["dimensions"]))
    element, shape = _element_of_sum(operation), shape_of(operation.operands[0])
    steps = long_sums.plan(shape, axes) if element in FLOATS else []
    if len(steps) < 2:
        return
    value, body = "%a0", f"    %zero = stablehlo.constant dense<0.0> : tensor<{element}>\n"
    kind = tensor(shape, element)
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        value, kind, lines = _step(step, f"%s{number}", value, kind, "%a1" if last else "%zero")
        body += lines
    result = str(operation.results[0].type)
    body += f"    %r = stablehlo.reshape {value} : ({kind}) -> {result}\n"
    replace(operation, body)


def _hold(value: Any) -> None:
    """Round numbers of 16 bits once that a reduction shares with other operations.

    IREE computes them again for each, in float32, and rounds those of one only: a softmax subtracts
    the maximum of numbers from larger ones, and its exponentials are infinite.
    """
    if kind_of(value)[1] not in ("bf16", "f16") or len([*value.uses]) < 2:
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
    return kind_of(operation.operands[0])[1] if is_sum else ""


def _step(
    step: long_sums.Step, name: str, value: str, kind: str, start: str
) -> tuple[str, str, str]:
    """Return the result of a step with its type, and its lines."""
    element = kind.removesuffix(">").rpartition("x")[2]
    body = ""
    if (given := tensor(step.shape, element)) != kind:
        body += f"    {name}_given = stablehlo.reshape {value} : ({kind}) -> {given}\n"
        value, kind = f"{name}_given", given
    if (padded := tensor(step.padded, element)) != kind:
        none = [0] * len(step.shape)
        behind = [wide - size for wide, size in zip(step.padded, step.shape, strict=True)]
        body += (
            f"    {name}_padded = stablehlo.pad {value}, %zero, low = {none}, high = {behind}, "
            f"interior = {none} : ({kind}, tensor<{element}>) -> {padded}\n"
        )
        value, kind = f"{name}_padded", padded
    if (cut := tensor(step.cut, element)) != kind:
        body += f"    {name}_cut = stablehlo.reshape {value} : ({kind}) -> {cut}\n"
        value, kind = f"{name}_cut", cut
    left = [size for axis, size in enumerate(step.cut) if axis not in step.axes]
    made = tensor(left, element)
    body += (
        f"    {name} = stablehlo.reduce({value} init: {start}) applies stablehlo.add "
        f"across dimensions = {list(step.axes)} : ({kind}, tensor<{element}>) -> {made}\n"
    )
    return name, made, body


def long_product(operation: Any) -> None:
    """Add the products along a long axis in blocks."""
    numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    given = [list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)]
    batches = [list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)]
    kind, element = kind_of(operation.results[0])
    operands = list(operation.operands)
    sizes = [shape_of(operands[0])[axis] for axis in given[0]]
    if element not in FLOATS or max(sizes, default=0) <= _TERMS_MAX:
        return
    place = sizes.index(max(sizes))
    count = -(-sizes[place] // (_TERMS_MAX // 2))
    block = -(-sizes[place] // count)
    body, cut, contracting, batching = "", [], [], []
    for side, value in enumerate(operands):
        shape, (_, of) = shape_of(value), kind_of(value)
        axis = given[side][place]
        lines, wide = _cut(f"%a{side}", shape, of, axis, (count, block))
        body += lines
        cut.append(wide)
        moved = [each + (each > axis) for each in given[side]]
        moved[place] = axis + 1
        contracting.append(moved)
        batching.append([axis, *(each + (each > axis) for each in batches[side])])
    made = tensor([count, *shape_of(operation.results[0])], element)
    precision = ""
    if "precision_config" in operation.attributes:
        chosen = [
            str(each).partition("<precision ")[2][:-1]
            for each in operation.attributes["precision_config"]
        ]
        precision = f", precision = [{', '.join(chosen)}]"
    body += (
        f"    %m = stablehlo.dot_general %a0_cut, %a1_cut, "
        f"batching_dims = {batching[0]} x {batching[1]}, "
        f"contracting_dims = {contracting[0]} x {contracting[1]}{precision} : "
        f"({cut[0]}, {cut[1]}) -> {made}\n"
        f"    %zero = stablehlo.constant dense<0.0> : tensor<{element}>\n"
        f"    %r = stablehlo.reduce(%m init: %zero) applies stablehlo.add "
        f"across dimensions = [0] : ({made}, tensor<{element}>) -> {kind}\n"
    )
    replace(operation, body)


_TERMS_MAX = 4096
"""Most products that are added one after the other."""


def _cut(
    name: str, shape: list[int], element: str, axis: int, sizes: tuple[int, int]
) -> tuple[str, str]:
    """Return lines that give NAME_cut, and its type: an axis as two `sizes`, zero-padded."""
    kind, body = tensor(shape, element), ""
    value, count, block = name, *sizes
    if more := count * block - shape[axis]:
        none = [0] * len(shape)
        behind = [more if each == axis else 0 for each in range(len(shape))]
        padded = tensor([*shape[:axis], count * block, *shape[axis + 1 :]], element)
        body += (
            f"    {name}_none = stablehlo.constant dense<{_nothing(element)}> : tensor<{element}>\n"
            f"    {name}_padded = stablehlo.pad {name}, {name}_none, low = {none}, "
            f"high = {behind}, interior = {none} : ({kind}, tensor<{element}>) -> {padded}\n"
        )
        value, kind = f"{name}_padded", padded
    made = tensor([*shape[:axis], count, block, *shape[axis + 1 :]], element)
    return body + f"    {name}_cut = stablehlo.reshape {value} : ({kind}) -> {made}\n", made


def _nothing(element: str) -> str:
    return "0.0" if element in FLOATS else "false" if element == "i1" else "0"


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
    reductions: list[Any] = []
    calls: dict[str, list[Any]] = {}

    def visit(operation: Any) -> Any:
        if operation.name in _REDUCING:
            reductions.append(operation)
        elif operation.name == "func.call":
            callee = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
            calls.setdefault(callee, []).append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    known = _Known(calls)
    for operation in reductions:
        count = len(operation.operands)
        for place in range(count // 2 if "reduce" in operation.name else count):
            value = operation.operands[place]
            if known.holds(value) and not _is_filled(value):
                kind = str(value.type)
                body = f"    %r = stablehlo.optimization_barrier %a0 : {kind}\n"
                (operation.operands[place],) = put(operation, body, [value], [kind])


def _is_filled(value: Any) -> bool:
    """Return whether a value is a constant, or one that is repeated."""
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name == "stablehlo.broadcast_in_dim":
        owner = owner.operands[0].owner
    return not isinstance(owner, ir.Block) and owner.name == "stablehlo.constant"


class _Known:
    """Which values depend on constants alone. calls: of each function, by its name."""

    def __init__(self, calls: dict[str, list[Any]]) -> None:
        self._calls = calls
        self._found: dict[Any, bool] = {}

    def holds(self, value: Any) -> bool:
        """Return whether a value depends on constants alone."""
        if value not in self._found:
            self._found[value] = False  # of what a loop comes back to
            self._found[value] = self._look(value)
        return self._found[value]

    def _look(self, value: Any) -> bool:
        owner = value.owner
        if not isinstance(owner, ir.Block):
            return all(map(self.holds, owner.operands))
        function = owner.owner.operation
        if function.name != "func.func":
            return False
        calls = self._calls.get(ir.StringAttr(function.attributes["sym_name"]).value, [])
        place = ir.BlockArgument(value).arg_number
        return bool(calls) and all(self.holds(call.operands[place]) for call in calls)
