"""Bounds of the integers that a model file computes with 64 bits, where jax has 32.

Each operation of the file's function, traced with 64-bit types, gives bounds of its results by
those of its operands. An integer of 32 bits has the lowest bits of the file's, after sums, products
and moves too. One that may be larger is an error where its value counts: in a comparison, a
quotient, an index, a float or a result. Infinite ends are unknown, as those of most floats, and no
error.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import count, product
from typing import Any, NamedTuple

import numpy as np

from aotc.capture.jax_private import Chain
from aotc.capture.model_files.frontend_protocol import NARROWER

STEPS_MAX = 512
"""Steps of a loop that are followed; what still changes then is unknown."""


class _Bounds(NamedTuple):
    """The smallest and the largest number; `cause` are those that first left 32 bits, and where."""

    low: float = -math.inf
    high: float = math.inf
    cause: tuple[Chain, float, float] | None = None

    def fits(self, dtype: Any) -> bool:
        """Return whether the known ends are integers of a dtype."""
        info = np.iinfo(dtype)
        return all(math.isinf(end) or info.min <= end <= info.max for end in self[:2])

    @property
    def size(self) -> float:
        """The largest absolute number."""
        return max(-self.low, self.high)


_UNKNOWN = _Bounds()
_rank = operator.attrgetter("aval.ndim")


def exceeding(
    jaxpr: Any, given: Sequence[tuple[float, float] | np.ndarray[Any, Any] | None]
) -> list[tuple[Chain, float, float]]:
    """Return the equations whose integers may need more than 32 bits, with their bounds.

    `given` are inputs of a jaxpr with 64-bit types: arrays, bounds, or None for unknown ones.
    """
    walk = _Walk()
    known = [_hull(*each) if isinstance(each, tuple) else _of(each) for each in given]
    pairs = zip(jaxpr.invars, known, strict=True)
    inputs = [walk.settled(variable.aval.dtype, bounds, ()) for variable, bounds in pairs]
    for variable, bounds in zip(jaxpr.outvars, walk.run(jaxpr, inputs), strict=True):
        walk.require(variable, bounds)
    return [*walk.found.values()]


class _Walk:
    """Goes through a jaxpr and those within it; `found` is by the identities of equations."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, ...], tuple[Chain, float, float]] = {}
        self._outer: Chain = ()

    def require(self, variable: Any, bounds: _Bounds) -> None:
        """Note a number whose value counts, if 32 bits may not hold it."""
        if bounds.cause is not None and variable.aval.dtype in NARROWER:
            self.found.setdefault((*map(id, bounds.cause[0]),), bounds.cause)

    def run(self, jaxpr: Any, given: Sequence[_Bounds]) -> list[_Bounds]:
        """Return the bounds of a jaxpr's results."""
        values = (*map(_of, jaxpr.consts), *given)
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), values, strict=True))

        def read(atom: Any) -> _Bounds:
            return _of(atom.val) if hasattr(atom, "val") else known[atom]

        for equation in jaxpr.eqns:
            before, self._outer = self._outer, (equation, *self._outer)
            operands, free = [*map(read, equation.invars)], _free(equation)
            for place, variable in enumerate(equation.invars):
                if place not in free:
                    self.require(variable, operands[place])
            results = self._results(equation, operands)
            for variable, made in zip(equation.outvars, results, strict=True):
                known[variable] = self.settled(variable.aval.dtype, made, operands)
                if not free:
                    self.require(variable, known[variable])
            self._outer = before
        return [*map(read, jaxpr.outvars)]

    def settled(self, dtype: Any, made: _Bounds, operands: Sequence[_Bounds]) -> _Bounds:
        """Return the bounds of a result as its dtype has them."""
        if dtype == np.bool_ or not np.issubdtype(dtype, np.integer):
            return _Bounds(*made[:2])
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        made = made if made.fits(dtype) else _Bounds(low, high, made.cause)
        if dtype not in NARROWER:
            return _Bounds(max(made.low, low), min(made.high, high))
        if made.fits(NARROWER[dtype]):
            return _Bounds(*made[:2])
        first = next((each.cause for each in (made, *operands) if each.cause), None)
        return made._replace(cause=first or (self._outer, *made[:2]))

    def _results(self, equation: Any, operands: Sequence[_Bounds]) -> Sequence[_Bounds]:
        name, parameters = equation.primitive.name, equation.params
        if name == "while":
            first, inside = parameters["cond_nconsts"], parameters["body_nconsts"]
            tests, rest = operands[:first], operands[first:]
            test, body = parameters["cond_jaxpr"], parameters["body_jaxpr"]
            parts = [rest[:inside], rest[inside:], []]
            return self._loop(body, parts, lambda _, carry: self.run(test, [*tests, *carry])[0])
        if name == "scan":
            body, length = parameters["jaxpr"], parameters["length"]
            sliced = map(operator.ne, map(_rank, equation.invars), map(_rank, body.invars))
            carried = map(operator.eq, map(_rank, equation.outvars), map(_rank, body.outvars))
            last = len(operands) - sum(sliced)
            first = last - sum(carried)
            parts = [operands[:first], operands[first:last], operands[last:]]
            return self._loop(body, parts, lambda step, _: _Bounds(*[step < length] * 2))
        if name == "cond":
            index, *rest = operands
            branches = enumerate(parameters["branches"])
            taken = (each for i, each in branches if index.low <= i <= index.high)
            return _joined(*(self.run(each, rest) for each in taken))
        if parameters.get("name") == "remainder" and operands[1][:2] in _POWERS:
            return [_Bounds(0, operands[1].low)]  # the lowest bits, whatever the sign
        if name in _NESTING:
            return self.run(parameters.get("jaxpr") or parameters["call_jaxpr"], operands)
        if name in ("sort", "optimization_barrier"):
            return operands
        return [_result(name, equation, operands)] * len(equation.outvars)

    def _loop(
        self,
        body: Any,
        parts: Sequence[Sequence[_Bounds]],
        goes_on: Callable[[int, Sequence[_Bounds]], _Bounds],
    ) -> list[_Bounds]:
        """Return the bounds after a loop, followed step by step.

        `parts` are constants, what a step takes of the one before, and of arrays.
        """
        constants, carry, taken = parts
        ended, stacked = list[_Bounds](), list[_Bounds]()
        for step in count():
            more = goes_on(step, carry)
            ended = _joined(ended, carry) if more.low < 1 else ended
            if more.high < 1:
                break
            made = self.run(body, [*constants, *carry, *taken])
            stacked = _joined(stacked, made[len(carry) :])
            pairs = [*zip(carry, made, strict=False)]
            if all(old.low <= new.low <= new.high <= old.high for old, new in pairs):
                ended = _joined(ended, carry)
                break
            is_long = step >= STEPS_MAX
            carry = [_UNKNOWN if is_long and old[:2] != new[:2] else new for old, new in pairs]
        return [*ended, *stacked]


def _of(array: Any) -> _Bounds:
    """Return the bounds of an array's numbers; those of floats with axes are unknown."""
    array = np.asarray(array)
    is_known = array.size and array.dtype.kind in ("iub" if array.ndim else "iubf")
    return _hull(array.min().item(), array.max().item()) if is_known else _UNKNOWN


def _hull(*numbers: float) -> _Bounds:
    return _UNKNOWN if any(map(math.isnan, numbers)) else _Bounds(min(numbers), max(numbers))


def _joined(*several: Sequence[_Bounds]) -> list[_Bounds]:
    """Join bounds of the same place; sequences without any are left out."""
    places = [*zip(*filter(None, several), strict=True)]
    causes = [next((each.cause for each in place if each.cause), None) for place in places]
    hulls = [_hull(*(end for each in place for end in each[:2])) for place in places]
    return [each._replace(cause=cause) for each, cause in zip(hulls, causes, strict=True)]


_NESTING = ("while", "scan", "cond", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call")
_POWERS = {(2**place, 2**place) for place in range(31)}
_FIRST, _ALL = slice(1), slice(None)
_MOVES: Mapping[str, slice] = {
    **dict.fromkeys(("broadcast_in_dim", "reshape", "transpose", "squeeze", "slice"), _FIRST),
    **dict.fromkeys(("rev", "copy", "copy_p", "dynamic_slice", "split", "tile"), _FIRST),
    **dict.fromkeys(("expand_dims", "gather", "device_put", "sharding_constraint"), _FIRST),
    **dict.fromkeys(("concatenate", "pad", "optimization_barrier"), _ALL),
    "dynamic_update_slice": slice(2),
    "scatter": slice(0, 3, 2),
}
"""Operations whose results are numbers of these operands."""

_LOWEST: Mapping[str, slice] = {
    **_MOVES,
    **dict.fromkeys(("add", "sub", "mul", "neg", "and", "or", "xor", "not", "square"), _ALL),
    **dict.fromkeys(("integer_pow", "convert_element_type", "dot_general"), _ALL),
    **dict.fromkeys(("reduce_sum", "cumsum", "reduce_prod", "cumprod"), _ALL),
    "select_n": slice(1, None),
    "shift_left": _FIRST,
    "scatter-add": slice(0, 3, 2),
}
"""Operations whose lowest bits depend on the lowest ones of these operands alone."""


def _free(equation: Any) -> range:
    """Return the places of operands of which only the lowest bits count."""
    name, places = equation.primitive.name, range(len(equation.invars))
    ends = (each.aval.dtype for each in (*equation.invars[:1], *equation.outvars[:1]))
    if name == "convert_element_type" and not all(np.issubdtype(end, np.integer) for end in ends):
        return range(0)
    return places if name in _NESTING else places[_LOWEST.get(name, slice(0))]


def _times(x: float, y: float) -> float:
    return x * y if x and y else 0  # zero times an unknown number


def _over(x: float, y: float) -> float:
    if isinstance(x, int) and isinstance(y, int):
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return x / y if math.isfinite(y) else 0


def _known(function: Callable[[Any], float]) -> Callable[[float], float]:
    return lambda x: function(x) if math.isfinite(x) else x


def _shift(function: Callable[[Any, int], int]) -> Callable[[float, float], float]:
    return lambda x, by: function(x, int(min(max(by, 0), 64))) if math.isfinite(x) else x


_MONOTONE: Mapping[str, Callable[..., float]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "neg", "lt", "le", "gt", "ge")},
    "mul": _times,
    "max": max,
    "min": min,
    "clamp": lambda low, x, high: min(max(x, low), high),
    "sign": lambda x: (x > 0) - (x < 0),
    "floor": _known(math.floor),
    "ceil": _known(math.ceil),
    "round": _known(round),
    "shift_left": _shift(operator.lshift),
    "shift_right_arithmetic": _shift(operator.rshift),
}
"""Functions that never fall, or never rise, in any operand: their ends are at its ends."""


def _result(name: str, equation: Any, operands: Sequence[_Bounds]) -> _Bounds:
    """Return the bounds of an operation's results, whose dtype they may exceed."""
    parameters, (one, other, *_) = equation.params, (*operands, _UNKNOWN, _UNKNOWN)
    dtype = equation.outvars[0].aval.dtype
    is_integer = np.issubdtype(dtype, np.integer)
    is_divided = other.low > 0 or other.high < 0
    if name in _MONOTONE:
        corners = product(*(each[:2] for each in operands))
        return _hull(*(_MONOTONE[name](*corner) for corner in corners))
    if name in _MOVES:
        # What jax fills with by itself, an end of the dtype, no index of a file reads.
        info, fill = np.iinfo(dtype if is_integer else int), parameters.get("fill_value")
        filled = [] if fill in (None, info.min, info.max) else [_of(fill)]
        return _joined(*([each] for each in (*operands[_MOVES[name]], *filled)))[0]
    match name:
        case "select_n":
            cases = ([n] for i, n in enumerate(operands[1:]) if one.low <= i <= one.high)
            return _joined(*cases)[0]
        case "eq" | "ne":
            below, above = (_result(each, equation, operands) for each in ("le", "ge"))
            low, high = min(below.low, above.low), min(below.high, above.high)
            return _Bounds(low, high) if name == "eq" else _Bounds(1 - high, 1 - low)
        case "convert_element_type" if parameters["new_dtype"] == np.bool_:
            return _result("ne", equation, [one, _Bounds(0, 0)])
        case "convert_element_type" if is_integer:
            return _hull(*map(_known(int), one[:2]))
        case "convert_element_type" | "reduce_max" | "reduce_min" | "cummax" | "cummin":
            return one
        case "iota":
            return _Bounds(0, max(parameters["shape"][parameters["dimension"]] - 1, 0))
        case "argmax" | "argmin":
            return _Bounds(0, equation.invars[0].aval.size)
        case "dot_general":
            axes = parameters["dimension_numbers"][0][0]
            made = _result("mul", equation, operands)
            return _result("reduce_sum", equation.replace(params={"axes": axes}), [made])
        case "cumsum":
            summed = equation.replace(params={"axes": (parameters["axis"],)})
            return _hull(*one[:2], *_result("reduce_sum", summed, operands)[:2])
        case "reduce_sum":
            times = math.prod(equation.invars[0].aval.shape[axis] for axis in parameters["axes"])
            return _hull(*(_times(end, times) for end in one[:2]))
        case "scatter-add":
            ends = [_times(end, equation.invars[2].aval.size) for end in operands[2][:2]]
            return _result("add", equation, [one, _hull(0, *ends)])
        case "reduce_prod" | "cumprod":
            most = max(one.size, 1) ** min(equation.invars[0].aval.size, 64)
            return _Bounds(0 if one.low >= 0 else -most, most)
        case "integer_pow" | "square" if (exponent := parameters.get("y", 2)) > 0:
            ends = [reduce(_times, [end] * exponent) for end in one[:2]]
            return _hull(*ends, 0) if one.low < 0 < one.high else _hull(*ends)
        case "abs":
            return _Bounds(max(one.low, -one.high, 0), one.size)
        case "not":
            ends = [-one.high, -one.low] if is_integer else [2 - one.high, 2 - one.low]
            return _hull(*(end - 1 for end in ends))
        case "div" if is_divided:
            return _hull(*(_over(x, y) for x, y in product(one[:2], other[:2])))
        case "div" if is_integer:
            return _hull(-one.size, one.size, -1)
        case "rem" if is_integer:
            size = min(one.size, other.size - 1) if is_divided else one.size
            return _Bounds(-size if one.low < 0 else 0, size if one.high > 0 else 0)
        case "and" if max(one.low, other.low) >= 0:
            return _Bounds(0, min(each.high for each in (one, other) if each.low >= 0))
        case "and" | "or" | "xor":
            top = _known(lambda size: 2 ** int(size).bit_length())(max(one.size, other.size))
            return _Bounds(0 if min(one.low, other.low) >= 0 else -top, top - 1)
    return _UNKNOWN
