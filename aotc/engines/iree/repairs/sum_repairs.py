"""Sums of products, sums of many numbers, and sums in windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
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
    within,
)


def product(operation: Any) -> None:
    """Sum products of float16 and bfloat16 in float32, as XLA does, where IREE rounds every sum;
    and widen unsigned integers, which IREE takes for signed ones when the sums are wider. Booleans
    that are added over nothing are false, which IREE divides by zero to find out.
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
    """Behind a barrier, since IREE would put the conversion into the product again."""
    body = f"""
    %made = stablehlo.convert %a0 : ({value.type}) -> {kind}
    %r = stablehlo.optimization_barrier %made : {kind}
"""
    (made,) = put(operation, body, [value], [kind])
    return made


def refuse(operation: Any) -> None:
    """Raises UnrepairableError."""
    raise UnrepairableError(operation.name)


def total(operation: Any) -> None:
    """Add many numbers as sums of sums, since IREE adds those of an axis to one number."""
    (element, axes, shape) = _added(operation)
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


def _added(operation: Any) -> tuple[str, list[int], list[int]]:
    """The element, the axes and the sizes of a sum; the element is "" of what is none."""
    if len(operation.results) != 1:
        return "", [], []
    block = operation.regions[0].blocks[0]
    first, *others = block.operations
    is_sum = len(others) == 1 and first.operation.name == "stablehlo.add"
    is_sum = is_sum and {*first.operation.operands} == {*block.arguments}
    is_sum = is_sum and [*others[0].operation.operands] == [*first.operation.results]
    axes = list(ir.DenseI64ArrayAttr(operation.attributes["dimensions"]))
    element = kind_of(operation.operands[0])[1] if is_sum else ""
    return element, axes, shape_of(operation.operands[0])


def _step(
    step: long_sums.Step, name: str, value: str, kind: str, start: str
) -> tuple[str, str, str]:
    """The result of a step with its type, and its lines."""
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
    """Lines that give NAME_cut, with an axis as two of these sizes and zeros behind it, and its
    type.
    """
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


class _Window(NamedTuple):
    """A window of one number along each axis of an array. edges: pairs.
    between: numbers that are put between two.
    """

    edges: Sequence[Sequence[int]]
    between: Sequence[int]
    strides: Sequence[int]


def _taken(
    name: str, shape: Sequence[int], element: str, window: _Window, start: str
) -> tuple[str, str]:
    """Lines that give NAME_taken, the numbers that windows of one take, and its type."""
    low, high = ([pair[side] for pair in window.edges] for side in (0, 1))
    wide = [
        size + max(size - 1, 0) * between + sum(pair)
        for size, between, pair in zip(shape, window.between, window.edges, strict=True)
    ]
    kind, padded = tensor(shape, element), tensor(wide, element)
    ends = ", ".join(
        f"0:{size}:{stride}" for size, stride in zip(wide, window.strides, strict=True)
    )
    taken = [-(-size // stride) for size, stride in zip(wide, window.strides, strict=True)]
    made = tensor(taken, element)
    return (
        f"    {name}_padded = stablehlo.pad {name}, {start}, low = {low}, high = {high}, "
        f"interior = {list(window.between)} : ({kind}, tensor<{element}>) -> {padded}\n"
        f"    {name}_taken = stablehlo.slice {name}_padded [{ends}] : ({padded}) -> {made}\n"
    ), made


def _numbers(operation: Any, name: str, count: int, default: int) -> list[int]:
    if name not in operation.attributes:
        return [default] * count
    return list(ir.DenseI64ArrayAttr(operation.attributes[name]))


def _edges(operation: Any, count: int) -> list[list[int]]:
    if "padding" not in operation.attributes:
        return [[0, 0]] * count
    edges = np.asarray(ir.DenseElementsAttr(operation.attributes["padding"]))
    return [[int(each) for each in pair] for pair in np.broadcast_to(edges, (count, 2))]


def convolution(operation: Any) -> None:
    """Take what a convolution of one number at a stride takes before it: IREE computes what made
    the image at the taken places alone, though other operations read the rest.
    """
    image, kernel = operation.operands
    numbers = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    axes, rank = list(numbers.input_spatial_dimensions), len(shape_of(image))
    strides = _numbers(operation, "window_strides", len(axes), 1)
    size = prod(
        shape_of(kernel)[axis]
        for axis in (*numbers.kernel_spatial_dimensions, numbers.kernel_input_feature_dimension)
    )
    if size == 1 and {*strides} - {1}:
        element = kind_of(image)[1]
        edges, between = (
            _edges(operation, len(axes)),
            _numbers(operation, "lhs_dilation", len(axes), 1),
        )
        at = {axis: place for place, axis in enumerate(axes)}
        window = _Window(
            [edges[at[axis]] if axis in at else [0, 0] for axis in range(rank)],
            [between[at[axis]] - 1 if axis in at else 0 for axis in range(rank)],
            [strides[at[axis]] if axis in at else 1 for axis in range(rank)],
        )
        body = f"    %none = stablehlo.constant dense<{_nothing(element)}> : tensor<{element}>\n"
        lines, kind = _taken("%a0", shape_of(image), element, window, "%none")
        body += lines + f"    %r = stablehlo.reshape %a0_taken : ({kind}) -> {kind}\n"
        (operation.operands[0],) = put(operation, body, [image], [kind])
        for name in ("window_strides", "padding", "lhs_dilation"):
            if name in operation.attributes:
                del operation.attributes[name]
    product(operation)


def windows(operation: Any) -> None:
    """Repair running sums, and windows of one number at a stride, for which IREE computes what made
    the numbers at the taken places alone, though other operations read the rest.
    """
    rank = len(shape_of(operation.operands[0]))
    strides = _numbers(operation, "window_strides", rank, 1)
    sizes = _numbers(operation, "window_dimensions", rank, 1)
    if {*sizes} != {1} or {*strides} == {1} or within(operation):
        return running_sum(operation)
    block, element = operation.regions[0].blocks[0], kind_of(operation.operands[0])[1]
    first, *others = block.operations
    if len(others) != 1 or [*first.operation.operands] != [*block.arguments]:
        raise UnrepairableError(f"{operation.name} of single numbers at a stride")
    window = _Window(
        _edges(operation, rank),
        [each - 1 for each in _numbers(operation, "base_dilations", rank, 1)],
        strides,
    )
    lines, kind = _taken("%a0", shape_of(operation.operands[0]), element, window, "%a1")
    body = lines + (
        f"    %start = stablehlo.broadcast_in_dim %a1, dims = [] : (tensor<{element}>) -> {kind}\n"
        f"    %r = {first.operation.name} %start, %a0_taken : {kind}\n"
    )
    return replace(operation, body)


def running_sum(operation: Any) -> None:
    """Add what comes before each number of a long axis in blocks: IREE adds all of it to one
    number, for each number again.
    """
    if len(operation.operands) != 2 or within(operation):
        return
    block = operation.regions[0].blocks[0]
    first, *others = block.operations
    value, start = operation.operands
    shape, (kind, element) = shape_of(value), kind_of(value)
    is_sum = len(others) == 1 and first.operation.name == "stablehlo.add"
    is_sum = is_sum and {*first.operation.operands} == {*block.arguments}
    found = _running_axis(operation, shape)
    if not is_sum or element not in FLOATS or found is None or not _is_zero(start):
        return
    axis, is_reverse = found
    if shape[axis] <= long_sums.TERMS_MAX:
        return
    body, name = f"    %zero = stablehlo.constant dense<0.0> : tensor<{element}>\n", "%a0"
    if is_reverse:
        body += f"    %turned = stablehlo.reverse {name}, dims = [{axis}] : {kind}\n"
        name = "%turned"
    lines, made = _running_lines(name, shape, element, axis)
    body += lines
    last = "stablehlo.reverse" if is_reverse else "stablehlo.reshape"
    body += (
        f"    %r = {last} {made}, dims = [{axis}] : {kind}\n"
        if is_reverse
        else f"    %r = {last} {made} : ({kind}) -> {kind}\n"
    )
    (result,) = put(operation, body, [value], [kind])
    operation.results[0].replace_all_uses_with(result)
    operation.erase()


def _running_axis(operation: Any, shape: list[int]) -> tuple[int, bool] | None:
    """The axis whose windows hold all that comes before a number, or, where the second is true,
    all that comes behind it.
    """
    window = _numbers(operation, "window_dimensions", len(shape), 1)
    wide = [axis for axis, size in enumerate(window) if size > 1]
    if len(wide) != 1 or window[wide[0]] != shape[wide[0]]:
        return None
    for name in ("window_strides", "base_dilations", "window_dilations"):
        if name in operation.attributes and {*ir.DenseI64ArrayAttr(operation.attributes[name])} != {
            1
        }:
            return None
    if "padding" not in operation.attributes:
        return None
    (axis,), edges = wide, np.asarray(ir.DenseElementsAttr(operation.attributes["padding"]))
    edges = np.broadcast_to(edges, (len(shape), 2))
    for is_reverse, pair in ((False, [shape[axis] - 1, 0]), (True, [0, shape[axis] - 1])):
        expected = np.zeros((len(shape), 2), np.int64)
        expected[axis] = pair
        if (edges == expected).all():
            return axis, is_reverse
    return None


def _is_zero(value: Any) -> bool:
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name == "stablehlo.broadcast_in_dim":
        owner = owner.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.constant":
        return False
    numbers = ir.DenseElementsAttr(owner.attributes["value"])
    # numpy cannot read those of bfloat16.
    return bool(numbers.is_splat) and ir.FloatAttr(numbers.get_splat_value()).value == 0


def _running_lines(name: str, shape: list[int], element: str, axis: int) -> tuple[str, str]:
    """Lines that add, along an axis, what comes before each number and the number itself, and the
    name of the result.
    """
    kind, rank = tensor(shape, element), len(shape)
    if shape[axis] <= long_sums.TERMS_MAX:
        window = [shape[axis] if each == axis else 1 for each in range(rank)]
        edges = [[shape[axis] - 1 if each == axis else 0, 0] for each in range(rank)]
        body = f"""    {name}_sums = "stablehlo.reduce_window"({name}, %zero) <{{
        window_dimensions = array<i64: {", ".join(map(str, window))}>,
        padding = dense<{edges}> : tensor<{rank}x2xi64>}}> ({{
      ^bb0(%x: tensor<{element}>, %y: tensor<{element}>):
        %z = stablehlo.add %x, %y : tensor<{element}>
        stablehlo.return %z : tensor<{element}>
      }}) : ({kind}, tensor<{element}>) -> {kind}
"""
        return body, f"{name}_sums"
    count, size = long_sums.blocks(shape[axis])
    body, wide = _cut(name, shape, element, axis, (count, size))
    inner = [*shape[:axis], count, size, *shape[axis + 1 :]]
    lines, within_blocks = _running_lines(f"{name}_cut", inner, element, axis + 1)
    body += lines
    ends = ", ".join(
        f"{size - 1}:{size}" if each == axis + 1 else f"0:{length}"
        for each, length in enumerate(inner)
    )
    last = [*shape[:axis], count, 1, *shape[axis + 1 :]]
    totals = [*shape[:axis], count, *shape[axis + 1 :]]
    body += (
        f"    {name}_last = stablehlo.slice {within_blocks} [{ends}] : "
        f"({wide}) -> {tensor(last, element)}\n"
        f"    {name}_totals = stablehlo.reshape {name}_last : "
        f"({tensor(last, element)}) -> {tensor(totals, element)}\n"
    )
    lines, sums = _running_lines(f"{name}_totals", totals, element, axis)
    body += lines
    low = [1 if each == axis else 0 for each in range(rank)]
    high, none = [-each for each in low], [0] * rank
    spread = [each for each in range(rank + 1) if each != axis + 1]
    whole = [*shape[:axis], count * size, *shape[axis + 1 :]]
    ends = ", ".join(f"0:{length}" for length in shape)
    body += (
        f"    {name}_before = stablehlo.pad {sums}, %zero, low = {low}, high = {high}, "
        f"interior = {none} : ({tensor(totals, element)}, tensor<{element}>) -> "
        f"{tensor(totals, element)}\n"
        f"    {name}_spread = stablehlo.broadcast_in_dim {name}_before, dims = {spread} : "
        f"({tensor(totals, element)}) -> {wide}\n"
        f"    {name}_both = stablehlo.add {name}_spread, {within_blocks} : {wide}\n"
        f"    {name}_whole = stablehlo.reshape {name}_both : ({wide}) -> {tensor(whole, element)}\n"
        f"    {name}_kept = stablehlo.slice {name}_whole [{ends}] : "
        f"({tensor(whole, element)}) -> {kind}\n"
    )
    return body, f"{name}_kept"


_REDUCING = (
    "stablehlo.convolution",
    "stablehlo.dot_general",
    "stablehlo.reduce",
    "stablehlo.reduce_window",
)


def keep_known(module: Any) -> None:
    """Put a barrier between a reduction and what is computed of constants alone: IREE takes the
    latter for one number, and then forgets how many of them are reduced.
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
