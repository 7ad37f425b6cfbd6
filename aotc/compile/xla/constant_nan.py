"""Keeps XLA's `exp` on processors away from arguments that LLVM knows to be NaN.

The kernel converts its argument to an integer. LLVM may replace that conversion of a known NaN by
any value, so the kernel reads a register before it is set (docs/contributing/toolchain-notes.md).
LLVM compiles each fused computation by itself: `known_nan` finds the arguments in optimized HLO,
and `guard` rewrites a module so that no NaN reaches the kernel.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir

from aotc.compile.mlir.mlir_context import operations_named

WORDS = (
    "XLA's code for `exp` is undefined for an argument that is NaN at compile time, such as "
    "-inf - -inf; mask with a large negative number in place of -inf: "
)

_GUARDED = frozenset({"stablehlo.exponential", "stablehlo.logistic"})
_COMPOSITE = "stablehlo.composite"
_COMPOSITES = frozenset({"chlo.cosh", "chlo.erfc", "chlo.sinh"})
"""Operations that XLA writes by `exp`."""

_TYPES = ("f32", "f16", "bf16")

_VALUES_MAX = 64
"""Most constants that a value is followed as."""

_UNROLLED_MAX = 16
"""Longest loop over an iota of which LLVM is assumed to know every number."""

type Constants = frozenset[float]

_NAN: Constants = frozenset({math.nan})
_NONE: Constants = frozenset()


def guard(module: Any) -> None:
    """Rewrite f(x), for `exp` and its relatives, to `where(x != x, x, f(where(x != x, 1, x)))`."""
    found = [
        operation
        for operation in operations_named(module, {*_GUARDED, _COMPOSITE})
        if operation.name in _GUARDED or operation.attributes["name"].value in _COMPOSITES
        if str(ir.ShapedType(operation.operands[0].type).element_type) in _TYPES
    ]
    for operation in found:
        _guard(operation)


def _guard(operation: Any) -> None:
    value, result = operation.operands[0], operation.results[0]
    with operation.context, ir.Location.unknown(), ir.InsertionPoint(operation):
        # A type of the same shape, which may have sizes known only when the program runs.
        booleans = ir.Type.parse(re.sub(r"b?f(16|32)", "i1", str(value.type), count=1))
        direction = ir.Attribute.parse("#stablehlo<comparison_direction NE>")
        is_nan = ir.Operation.create(
            "stablehlo.compare",
            results=[booleans],
            operands=[value, value],
            attributes={"comparison_direction": direction},
        ).results[0]
        one = _create("stablehlo.convert", value.type, is_nan)
        number = _create("stablehlo.select", value.type, is_nan, one, value)
        made = operation.operation.clone()
        made.operands[0] = number
        guarded = _create("stablehlo.select", result.type, is_nan, value, made.results[0])
    result.replace_all_uses_with(guarded)
    operation.erase()


def _create(name: str, result_type: Any, *operands: Any) -> Any:
    return ir.Operation.create(name, results=[result_type], operands=operands).results[0]


class _Instruction(NamedTuple):
    name: str
    element: str
    sizes: tuple[int, ...]
    opcode: str
    operands: tuple[str, ...]
    rest: str


_LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (\w+)\[([\d,]*)\]\S* ([\w\-]+)\((.*)$")
_CONSTANT = re.compile(r"^([^)]*)\)")
_NUMBER = re.compile(r"-?(?:nan|inf|\d[\d.]*(?:e[+-]?\d+)?)")
_OPERAND = re.compile(r"%([\w.\-]+)")


def known_nan(hlo_text: str) -> tuple[str, ...]:
    """Return the instructions of optimized HLO whose `exp` may have an argument known to be NaN."""
    found: list[str] = []
    constants: dict[str, Constants] = {}
    instructions: dict[str, _Instruction] = {}
    for line in hlo_text.splitlines():
        if line.startswith("}"):
            constants, instructions = {}, {}
        if (instruction := _parse_line(line)) is None:
            continue
        instructions[instruction.name] = instruction
        constants[instruction.name] = _constants(instruction, constants, instructions)
        if instruction.opcode == "exponential" and instruction.element in _TYPES:
            (argument,) = instruction.operands
            if _has_nan(constants.get(argument, _NONE)):
                found.append(instruction.name)
    return tuple(found)


def _parse_line(line: str) -> _Instruction | None:
    match = _LINE.match(line)
    if match is None:
        return None
    name, element, sizes, opcode, rest = match.groups()
    operands = tuple(_OPERAND.findall(rest.partition(")")[0]))
    shape = tuple(int(size) for size in sizes.split(",") if size)
    return _Instruction(name, element, shape, opcode, operands, rest)


def _constants(
    instruction: _Instruction,
    known: Mapping[str, Constants],
    instructions: Mapping[str, _Instruction],
) -> Constants:
    """Return the constants that a value may be; it may also be a number known only at run time."""
    opcode = instruction.opcode
    operands = [known.get(name, _NONE) for name in instruction.operands]
    if opcode == "constant":
        return _parse_constants(instruction.rest)
    if opcode == "iota":
        return frozenset(map(float, range(min(max(instruction.sizes, default=1), _UNROLLED_MAX))))
    if opcode == "select":
        return _select_results(instruction, operands, instructions)
    if opcode in _UNCHANGED:
        return _NONE.union(*operands[: _UNCHANGED[opcode]])
    if opcode == "reduce":
        # Sums of few constants are enough to find infinities of both signs, and zero times one.
        every = _NONE.union(*operands)
        return every | _pair_results([every, every], instruction.element, np.add, np.multiply)
    if opcode in _OPERATIONS:
        return _pair_results(operands, instruction.element, _OPERATIONS[opcode])
    is_known = bool(operands) and (all(operands) or any(map(_has_nan, operands)))
    return _NAN if is_known and opcode not in _RUN_TIME else _NONE


def _parse_constants(rest: str) -> Constants:
    match = _CONSTANT.match(rest)
    text = match.group(1) if match else ""
    values = [float(each) for each in _NUMBER.findall(text.replace("true", "1"))]
    return _cap(values)


def _select_results(
    instruction: _Instruction,
    operands: Sequence[Constants],
    instructions: Mapping[str, _Instruction],
) -> Constants:
    """Return both sides, the second without NaN if the condition says that it is one."""
    _, on_true, on_false = operands
    condition, _, value = (_before_conversions(name, instructions) for name in instruction.operands)
    if condition is not None and condition.opcode == "compare" and "direction=NE" in condition.rest:
        sides = {_before_conversions(name, instructions) for name in condition.operands}
        if sides == {value}:
            on_false = frozenset(each for each in on_false if not math.isnan(each))
    return on_true | on_false


def _before_conversions(name: str, instructions: Mapping[str, _Instruction]) -> _Instruction | None:
    found = instructions.get(name)
    while found is not None and found.opcode in ("convert", "copy"):
        found = instructions.get(found.operands[0])
    return found


def _pair_results(
    operands: Sequence[Constants], element: str, *functions: Callable[..., Any]
) -> Constants:
    """Return the results of functions for each choice of constants.

    A known NaN remains one beside a number known only at run time.
    """
    dtype = np.float64 if element == "f64" else np.float32
    grids = np.meshgrid(*(np.array(sorted(each), dtype) for each in operands))
    values = [math.nan] if any(map(_has_nan, operands)) else []
    with np.errstate(all="ignore"):
        for function in functions:
            values += [float(each) for each in np.ravel(function(*grids))]
    return _cap(values)


def _cap(values: Sequence[float]) -> Constants:
    numbers = frozenset(each for each in values if not math.isnan(each))
    if len(numbers) > _VALUES_MAX:
        return _NAN
    return numbers | _NAN if _has_nan(values) else numbers


def _has_nan(values: Iterable[float]) -> bool:
    return any(map(math.isnan, values))


_UNCHANGED = {
    **dict.fromkeys(("bitcast", "broadcast", "copy", "gather", "reshape", "reverse"), 1),
    **dict.fromkeys(("dynamic-slice", "slice", "transpose", "reduce-precision", "real"), 1),
    **dict.fromkeys(("dynamic-update-slice", "pad"), 2),
    **dict.fromkeys(("clamp", "reduce-window"), 3),
    "concatenate": None,
}
"""Operations whose elements are those of their first operands, by the number of these."""

_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{ufunc.__name__: ufunc for ufunc in (np.add, np.divide, np.multiply, np.power, np.subtract)},
    **{ufunc.__name__: ufunc for ufunc in (np.cbrt, np.ceil, np.floor, np.log, np.sign, np.sqrt)},
    **{ufunc.__name__: ufunc for ufunc in (np.maximum, np.minimum, np.tan, np.tanh)},
    "abs": np.abs,
    "atan2": np.arctan2,
    "convert": np.positive,
    "cosine": np.cos,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log-plus-one": np.log1p,
    "negate": np.negative,
    "remainder": np.fmod,
    "round-nearest-even": np.rint,
    "rsqrt": lambda value: 1 / np.sqrt(value),
    "sine": np.sin,
}

_RUN_TIME = frozenset({"compare", "conditional", "custom-call", "dot", "fusion", "is-finite"})
"""Operations whose results are in memory, or are no numbers."""
