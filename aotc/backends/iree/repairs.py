"""What IREE 3.13.0 computes otherwise than StableHLO says, in operations that it computes right.

An index outside of a gathered array is clamped, where IREE would read beside the array; a sort
keeps the order of equals; powers of negative numbers and of zero, angles of zeros and infinities,
the cubic root of infinity, floats that fit into no integer, and sines of large numbers are as XLA
has them. Each operation
becomes a call of a function written in StableHLO, which IREE inlines. tests/engines compares all of
it with plain JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

_SCALAR_BODIES = frozenset(
    f"stablehlo.{name}"
    for name in ("map", "reduce", "reduce_window", "scatter", "select_and_scatter", "sort")
)
"""Operations whose regions work on single numbers, where IREE takes no calls."""

_INTEGER_BITS = {f"{sign}i{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}

type Body = Sequence[str]


class UnrepairableError(Exception):
    """An operation that would have to be repaired where it cannot be."""


def repair(module: Any) -> None:
    """Repair a module in place. Raises UnrepairableError."""
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name in _REPAIRS:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    with module.context, ir.Location.unknown():
        module.operation.walk(visit)
        for operation in found:
            _REPAIRS[operation.name](module, operation)


def _power(module: Any, operation: Any) -> None:
    kind, element = _kind(operation.results[0])
    if not _is_float(element):
        return
    _replace(
        module,
        operation,
        _constants(kind, zero="0.0", one="1.0", two="2.0")
        + f"""
    %size = stablehlo.abs %a0 : {kind}
    %raw = stablehlo.power %size, %a1 : {kind}
    %is_one = stablehlo.compare EQ, %size, %one : {_pair(kind)}
    %power = stablehlo.select %is_one, %one, %raw : {_bools(kind)}, {kind}
    %floor = stablehlo.floor %a1 : {kind}
    %is_whole = stablehlo.compare EQ, %floor, %a1 : {_pair(kind)}
    %rest = stablehlo.remainder %a1, %two : {kind}
    %rest_size = stablehlo.abs %rest : {kind}
    %is_odd = stablehlo.compare EQ, %rest_size, %one : {_pair(kind)}
    %opposite = stablehlo.negate %power : {kind}
    %signed = stablehlo.select %is_odd, %opposite, %power : {_bools(kind)}, {kind}
    %is_zero = stablehlo.compare EQ, %a0, %zero : {_pair(kind)}
    %none = stablehlo.divide %zero, %zero : {kind}
    %odd_case = stablehlo.select %is_zero, %power, %none : {_bools(kind)}, {kind}
    %below = stablehlo.select %is_whole, %signed, %odd_case : {_bools(kind)}, {kind}
{_is_negative("%a0", "%is_negative", kind)}
    %all = stablehlo.select %is_negative, %below, %power : {_bools(kind)}, {kind}
    %to_zero = stablehlo.compare EQ, %a1, %zero : {_pair(kind)}
    %r = stablehlo.select %to_zero, %one, %all : {_bools(kind)}, {kind}
""",
    )


def _atan2(module: Any, operation: Any) -> None:
    kind, element = _kind(operation.results[0])
    if not _is_float(element):
        return
    _replace(
        module,
        operation,
        _constants(kind, zero="0.0", one="1.0")
        + f"""
    %minus = stablehlo.negate %one : {kind}
    %infinity = stablehlo.divide %one, %zero : {kind}
    %y_size = stablehlo.abs %a0 : {kind}
    %x_size = stablehlo.abs %a1 : {kind}
    %y_zero = stablehlo.compare EQ, %a0, %zero : {_pair(kind)}
    %x_zero = stablehlo.compare EQ, %a1, %zero : {_pair(kind)}
    %y_infinite = stablehlo.compare EQ, %y_size, %infinity : {_pair(kind)}
    %x_infinite = stablehlo.compare EQ, %x_size, %infinity : {_pair(kind)}
    %zeros = stablehlo.and %y_zero, %x_zero : {_bools(kind)}
    %infinite = stablehlo.and %y_infinite, %x_infinite : {_bools(kind)}
    %either = stablehlo.or %zeros, %infinite : {_bools(kind)}
{_is_negative("%a0", "%y_negative", kind)}
{_is_negative("%a1", "%x_negative", kind)}
    %y_sign = stablehlo.select %y_negative, %minus, %one : {_bools(kind)}, {kind}
    %x_sign = stablehlo.select %x_negative, %minus, %one : {_bools(kind)}, {kind}
    %x = stablehlo.select %either, %x_sign, %a1 : {_bools(kind)}, {kind}
    %y = stablehlo.select %infinite, %y_sign, %a0 : {_bools(kind)}, {kind}
    %r = stablehlo.atan2 %y, %x : {kind}
""",
    )


def _cbrt(module: Any, operation: Any) -> None:
    kind, _ = _kind(operation.results[0])
    _replace(
        module,
        operation,
        _constants(kind, zero="0.0", one="1.0")
        + f"""
    %infinity = stablehlo.divide %one, %zero : {kind}
    %size = stablehlo.abs %a0 : {kind}
    %infinite = stablehlo.compare EQ, %size, %infinity : {_pair(kind)}
    %root = stablehlo.cbrt %a0 : {kind}
    %r = stablehlo.select %infinite, %a0, %root : {_bools(kind)}, {kind}
""",
    )


_TURN = (6.283185005187988, 3.0199157663446385e-07, 2.1561211432632476e-14)
"""2 pi in parts, the first two of 24 bits: their products with whole numbers below 2^28 are
exact."""


def _angle(module: Any, operation: Any) -> None:
    """Take whole turns off a float32, in float64: IREE loses digits from a few hundred on."""
    kind, element = _kind(operation.results[0])
    if element != "f32":
        return
    wide = kind.replace("xf32>", "xf64>").replace("<f32>", "<f64>")
    high, middle, low = map(repr, _TURN)
    name = _add(
        module,
        [kind],
        kind,
        _constants(kind, half="3.0")
        + _constants(wide, share=repr(1 / math.tau), high=high, middle=middle, low=low)
        + f"""
    %wide = stablehlo.convert %a0 : ({kind}) -> {wide}
    %turns = stablehlo.multiply %wide, %share : {wide}
    %whole = stablehlo.round_nearest_even %turns : {wide}
    %first = stablehlo.multiply %whole, %high : {wide}
    %second = stablehlo.multiply %whole, %middle : {wide}
    %third = stablehlo.multiply %whole, %low : {wide}
    %most = stablehlo.subtract %wide, %first : {wide}
    %more = stablehlo.subtract %most, %second : {wide}
    %rest = stablehlo.subtract %more, %third : {wide}
    %reduced = stablehlo.convert %rest : ({wide}) -> {kind}
    %size = stablehlo.abs %a0 : {kind}
    %is_small = stablehlo.compare LT, %size, %half : {_pair(kind)}
    %r = stablehlo.select %is_small, %a0, %reduced : {_bools(kind)}, {kind}
""",
    )
    _require_calls(operation)
    with ir.InsertionPoint(operation):
        reduced = _call(name, [operation.operands[0]], operation.results[0].type)
    operation.operands[0] = reduced


def _convert(module: Any, operation: Any) -> None:
    (kind, element), (given, wanted) = _kind(operation.operands[0]), _kind(operation.results[0])
    if not _is_float(element) or wanted not in _INTEGER_BITS:
        return
    bits, unsigned = _INTEGER_BITS[wanted], wanted.startswith("u")
    lowest = 0 if unsigned else -(2 ** (bits - 1))
    beyond = 2**bits if unsigned else 2 ** (bits - 1)
    # float16 ends at 65504: to it, larger integers are infinite.
    above = f"{beyond:.1f}" if element != "f16" or beyond < 2**16 else "0x7C00"
    below = f"{lowest:.1f}" if element != "f16" or lowest > -(2**16) else "0xFC00"
    _replace(
        module,
        operation,
        _constants(kind, zero="0.0", above=above, below=below)
        + _constants(given, least=str(lowest), most=str(beyond - 1), nothing="0")
        + f"""
    %is_above = stablehlo.compare GE, %a0, %above : {_pair(kind)}
    %is_below = stablehlo.compare LE, %a0, %below : {_pair(kind)}
    %is_none = stablehlo.compare NE, %a0, %a0 : {_pair(kind)}
    %out = stablehlo.or %is_above, %is_below : {_bools(kind)}
    %odd = stablehlo.or %out, %is_none : {_bools(kind)}
    %safe = stablehlo.select %odd, %zero, %a0 : {_bools(kind)}, {kind}
    %made = stablehlo.convert %safe : ({kind}) -> {given}
    %high = stablehlo.select %is_above, %most, %made : {_bools(kind)}, {given}
    %low = stablehlo.select %is_below, %least, %high : {_bools(kind)}, {given}
    %r = stablehlo.select %is_none, %nothing, %low : {_bools(kind)}, {given}
""",
    )


def _gather(module: Any, operation: Any) -> None:
    """Clamp the indices as StableHLO says."""
    numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    sizes = list(ir.DenseI64ArrayAttr(operation.attributes["slice_sizes"]))
    shape = ir.RankedTensorType(operation.operands[0].type).shape
    limits = [shape[axis] - sizes[axis] for axis in numbers.start_index_map]
    indices = ir.RankedTensorType(operation.operands[1].type)
    kind, element = _kind(operation.operands[1])
    row = f"tensor<{len(limits)}x{element}>"
    if numbers.index_vector_dim == len(indices.shape):
        highest = f"%high = stablehlo.constant dense<{limits[0]}> : {kind}"
    else:
        spread = f"dims = [{numbers.index_vector_dim}] : ({row}) -> {kind}"
        highest = f"""%row = stablehlo.constant dense<{limits}> : {row}
    %high = stablehlo.broadcast_in_dim %row, {spread}"""
    name = _add(
        module,
        [kind],
        kind,
        _constants(kind, low="0")
        + f"""
    {highest}
    %r = stablehlo.clamp %low, %a0, %high : {kind}
""",
    )
    _require_calls(operation)
    with ir.InsertionPoint(operation):
        clamped = _call(name, [operation.operands[1]], indices)
    operation.operands[1] = clamped


def _sort(module: Any, operation: Any) -> None:
    """Let the place decide between equals, since IREE keeps no order of them."""
    old = operation.regions[0].blocks[0]
    operands, count = list(operation.operands), len(operation.operands)
    dimension = operation.attributes["dimension"]
    first = ir.RankedTensorType(operands[0].type)
    place = ir.IntegerType.get_signless(32)
    scalar = ir.RankedTensorType.get([], place)
    with ir.InsertionPoint(operation):
        places = ir.Operation.create(
            "stablehlo.iota",
            results=[ir.RankedTensorType.get(first.shape, place)],
            attributes={"iota_dimension": dimension},
        ).result
        sort = ir.Operation.create(
            "stablehlo.sort",
            results=[value.type for value in (*operands, places)],
            operands=[*operands, places],
            attributes={
                name: operation.attributes[name]
                for name in ("dimension", "is_stable")
                if name in operation.attributes
            },
            regions=1,
        )
    types = [each.type for each in old.arguments] + [scalar, scalar]
    block = sort.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
    arguments = list(block.arguments)
    swapped = [arguments[i ^ 1] for i in range(2 * count)]
    with ir.InsertionPoint(block):
        less = _cloned(old, arguments[: 2 * count])
        more = _cloned(old, swapped)
        direction = ir.Attribute.parse("#stablehlo<comparison_direction LT>")
        earlier = ir.Operation.create(
            "stablehlo.compare",
            results=[less.type],
            operands=arguments[2 * count :],
            attributes={"comparison_direction": direction},
        ).result
        tied = _create("stablehlo.not", less.type, more)
        tie = _create("stablehlo.and", less.type, tied, earlier)
        ir.Operation.create(
            "stablehlo.return", operands=[_create("stablehlo.or", less.type, less, tie)]
        )
    for result, new in zip(operation.results, sort.results, strict=False):
        result.replace_all_uses_with(new)
    operation.erase()


def _cloned(block: Any, arguments: Sequence[Any]) -> Any:
    """What a block of single operations returns for other arguments; its copy is put in place."""
    known = list(zip(block.arguments, arguments, strict=True))

    def of(value: Any) -> Any:
        return next((new for old, new in known if old == value), value)

    for operation in block.operations:
        if operation.operation.name == "stablehlo.return":
            return of(operation.operation.operands[0])
        copy = operation.operation.clone()
        for index, operand in enumerate(operation.operation.operands):
            copy.operands[index] = of(operand)
        known += zip(operation.operation.results, copy.results, strict=True)
    raise AssertionError("a comparator returns")


def _create(name: str, type_: Any, *operands: Any) -> Any:
    return ir.Operation.create(name, results=[type_], operands=operands).result


_REPAIRS: dict[str, Callable[[Any, Any], None]] = {
    "stablehlo.atan2": _atan2,
    "stablehlo.cbrt": _cbrt,
    "stablehlo.convert": _convert,
    "stablehlo.cosine": _angle,
    "stablehlo.gather": _gather,
    "stablehlo.power": _power,
    "stablehlo.sine": _angle,
    "stablehlo.sort": _sort,
    "stablehlo.tan": _angle,
}


def _replace(module: Any, operation: Any, body: str) -> None:
    """Put a call of a function with this body, which gives %r, in an operation's place."""
    _require_calls(operation)
    operands = list(operation.operands)
    given = operation.results[0].type
    name = _add(module, [str(value.type) for value in operands], str(given), body)
    with ir.InsertionPoint(operation):
        result = _call(name, operands, given)
    operation.results[0].replace_all_uses_with(result)
    operation.erase()


def _call(name: str, operands: Sequence[Any], given: Any) -> Any:
    callee = {"callee": ir.FlatSymbolRefAttr.get(name)}
    return ir.Operation.create(
        "func.call", results=[given], operands=operands, attributes=callee
    ).result


def _add(module: Any, taken: Sequence[str], given: str, body: str) -> str:
    """Add a function to the module; its name. The arguments are %a0, %a1 and so on."""
    name = f"repaired{len(module.body.operations)}"
    arguments = ", ".join(f"%a{index}: {kind}" for index, kind in enumerate(taken))
    text = f"func.func private @{name}({arguments}) -> {given} {{{body}    return %r : {given}\n}}"
    parsed = ir.Module.parse(text)  # must outlive its operations
    added = parsed.body.operations[0].operation
    added.detach_from_parent()
    module.body.append(added)
    return name


def _require_calls(operation: Any) -> None:
    parent = operation.parent
    while parent is not None:
        if parent.name in _SCALAR_BODIES:
            raise UnrepairableError(f"{operation.name} within {parent.name}")
        parent = parent.parent


def _kind(value: Any) -> tuple[str, str]:
    """A value's type, and that of its elements."""
    return str(value.type), str(ir.RankedTensorType(value.type).element_type)


def _is_float(element: str) -> bool:
    return element in ("f16", "bf16", "f32", "f64")


def _bools(kind: str) -> str:
    """The type of booleans of the same shape."""
    shape, _, _ = kind.removeprefix("tensor<").removesuffix(">").rpartition("x")
    return f"tensor<{shape}xi1>" if shape else "tensor<i1>"


def _pair(kind: str) -> str:
    return f"({kind}, {kind}) -> {_bools(kind)}"


def _constants(kind: str, **values: str) -> str:
    lines = (
        f"    %{name} = stablehlo.constant dense<{value}> : {kind}\n"
        for name, value in values.items()
    )
    return "\n" + "".join(lines)


def _is_negative(value: str, name: str, kind: str) -> str:
    """Lines that say whether a number has a sign; %zero and %one are there."""
    one = name.replace("%", "%for_")
    return f"""    {one}_inverse = stablehlo.divide %one, {value} : {kind}
    {one}_below = stablehlo.compare LT, {one}_inverse, %zero : {_pair(kind)}
    {one}_less = stablehlo.compare LT, {value}, %zero : {_pair(kind)}
    {one}_zero = stablehlo.compare EQ, {value}, %zero : {_pair(kind)}
    {one}_minus = stablehlo.and {one}_below, {one}_zero : {_bools(kind)}
    {name} = stablehlo.or {one}_less, {one}_minus : {_bools(kind)}"""
