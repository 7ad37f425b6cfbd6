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
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from aotc.capture.jax_private import Chain
from aotc.capture.jaxpr_flow import NESTING, Flow
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

    def joined(self, other: "_Bounds") -> "_Bounds":
        """Return the bounds of both; itself, if they are the other's too."""
        if self.low <= other.low <= other.high <= self.high:
            return self
        return _hull(*self[:2], *other[:2])._replace(cause=self.cause or other.cause)


_UNKNOWN = _Bounds()


def exceeding(
    jaxpr: Any, given: Sequence[tuple[float, float] | np.ndarray[Any, Any] | None]
) -> list[tuple[Chain, float, float]]:
    """Return the equations whose integers may need more than 32 bits, with their bounds.

    `given` are inputs of a jaxpr with 64-bit types: arrays, bounds, or None for unknown ones.
    """
    flow = _Integers()
    known = [_hull(*each) if isinstance(each, tuple) else _of(each) for each in given]
    made = flow.run(jaxpr, [*map(_settled, jaxpr.invars, known)])
    for variable, bounds in zip(jaxpr.outvars, made, strict=True):
        flow.require(variable, bounds)
    return [*flow.found.values()]


class _Integers(Flow):
    """Follows bounds, loops step by step; `found` is by the identities of equations."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, ...], tuple[Chain, float, float]] = {}

    def require(self, variable: Any, bounds: _Bounds) -> None:
        """Note a number whose value counts, if 32 bits may not hold it."""
        if bounds.cause is not None and variable.aval.dtype in NARROWER:
            self.found.setdefault((*map(id, bounds.cause[0]),), bounds.cause)

    def known(self, value: Any) -> _Bounds:
        return _of(value)

    def join(self, one: _Bounds, other: _Bounds) -> _Bounds:
        return one.joined(other)

    def branches(self, index: _Bounds, every: Sequence[Any]) -> Sequence[Any]:
        return [each for i, each in enumerate(every) if index.low <= i <= index.high]

    def after(self, step: int, one: _Bounds, other: _Bounds) -> _Bounds:
        return _UNKNOWN if step >= STEPS_MAX and one[:2] != other[:2] else other

    def ends(self, test: _Bounds) -> tuple[bool, bool]:
        return test.low < 1, test.high >= 1

    def results(self, chain: Chain, given: Sequence[_Bounds]) -> Sequence[_Bounds]:
        equation, free = chain[0], _free(chain[0])
        for place, variable in enumerate(equation.invars):
            if place not in free:
                self.require(variable, given[place])
        if equation.params.get("name") == "remainder" and given[1][:2] in _POWERS:
            made: Sequence[_Bounds] = [_Bounds(0, given[1].low)]  # the lowest bits of any sign
        else:
            made = super().results(chain, given)
        settled = [
            _settled(v, each, given, chain) for v, each in zip(equation.outvars, made, strict=True)
        ]
        for variable, each in zip(equation.outvars, settled, strict=True):
            if not free:
                self.require(variable, each)
        return settled

    def transfer(self, chain: Chain, given: Sequence[_Bounds]) -> Sequence[_Bounds]:
        equation, name = chain[0], chain[0].primitive.name
        if name in ("sort", "optimization_barrier"):
            return given
        return [_result(name, equation, given)] * len(equation.outvars)


def _settled(
    variable: Any, made: _Bounds, operands: Sequence[_Bounds] = (), chain: Chain = ()
) -> _Bounds:
    """Return the bounds of a result as its dtype has them."""
    dtype = variable.aval.dtype
    if dtype == np.bool_ or not np.issubdtype(dtype, np.integer):
        return _Bounds(*made[:2])
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    made = made if made.fits(dtype) else _Bounds(low, high, made.cause)
    if dtype not in NARROWER:
        return _Bounds(max(made.low, low), min(made.high, high))
    if made.fits(NARROWER[dtype]):
        return _Bounds(*made[:2])
    first = next((each.cause for each in (made, *operands) if each.cause), None)
    return made._replace(cause=first or (chain, *made[:2]))


def _of(array: Any) -> _Bounds:
    """Return the bounds of an array's numbers; those of floats with axes are unknown."""
    array = np.asarray(array)
    is_known = array.size and array.dtype.kind in ("iub" if array.ndim else "iubf")
    return _hull(array.min().item(), array.max().item()) if is_known else _UNKNOWN


def _hull(*numbers: float) -> _Bounds:
    return _UNKNOWN if any(map(math.isnan, numbers)) else _Bounds(min(numbers), max(numbers))


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
    return places if name in NESTING else places[_LOWEST.get(name, slice(0))]


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
        return reduce(_Bounds.joined, (*operands[_MOVES[name]], *filled))
    match name:
        case "select_n":
            cases = (n for i, n in enumerate(operands[1:]) if one.low <= i <= one.high)
            return reduce(_Bounds.joined, cases)
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
