"""Finds what further steps of a loop leave alone, of a loop that goes on until all rows are done.

The values of a step are numbered, alike where they are the same; some are known. In rows that are
done, those that the loop's test takes all of are known too.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from aotc.capture.jax_private import Chain
from aotc.capture.jaxpr_flow import Flow, State

FILL_OR_DROP = jax.lax.GatherScatterMode.FILL_OR_DROP


def left_alone(chain: Chain, given: Sequence[State], test: Any) -> set[int]:
    """Return the places of what a `while` carries that it leaves alone in rows that are done.

    `given` are the operands' states, numbers for what is filled with one. `test` is the equation
    that takes all, or any, of the rows, on which nothing else of the loop's condition depends.
    """
    equation, params, terms = chain[0], chain[0].params, _Terms(test)
    goes_on, body = (params[f"{each}_jaxpr"].jaxpr for each in ("cond", "body"))
    first, inside = params["cond_nconsts"], params["body_nconsts"]
    every = [
        terms.known(x.val) if isinstance(x, Literal) else terms.term("input", (), x)
        for x in equation.invars
    ]
    carry = [terms.term("carry", (), place) for place, _ in enumerate(every[first + inside :])]
    starts = [
        None if start is None or isinstance(start, tuple) else terms.known(start)
        for start in given[first + inside :]
    ]

    def step(taken: Sequence[State]) -> list[State]:
        return terms.run(body, [*every[first:][:inside], *taken])

    def is_over(taken: Sequence[State]) -> bool:
        return terms.run(goes_on, [*every[:first], *taken]) == [_Known([False])]

    is_over(carry)
    for one, made, start in zip(carry, step(carry), starts, strict=True):
        name, operands = terms.operation(made)
        by = [each[0] for each in operands if isinstance(each, _Known)] if name == "add" else []
        if one in operands and isinstance(start, _Known) and start[0] >= 0 and by and by[0] >= 1:
            terms.counters.add(one)
    for one, made, start in zip(carry, step(carry), starts, strict=True):
        name, operands = terms.operation(made)
        if name == "scatter" and operands[0] == one:
            terms.filled[one] = operands[1], start
    if len(terms.tested) != 1:
        return set()
    terms.assumed[terms.tested.pop()] = _Known([test.primitive.name == "reduce_and"])
    carry = [terms.assumed.get(each, each) for each in carry]
    made = step(carry)
    if not (is_over(carry) and is_over(made)):
        return set()
    return {place for place, one in enumerate(carry) if made[place] == one}


class _Known(tuple[Any]):
    """A tuple of a truth, or a number, with which a value is filled."""

    __slots__ = ()


_PASSING = ("broadcast_in_dim", "reshape", "squeeze", "reduce_and", "reduce_or", "copy")
"""Operations whose results are filled as their operand is."""


class _Terms(Flow):
    """Numbers the values of a loop.

    Attributes:
        keys: What each number is of.
        tested: What the test takes all of.
        assumed: What values are in rows that are done.
        counters: Those that each step adds to, from 0 or more.
        filled: What each step writes to, at a place, and with what it is filled elsewhere.
    """

    def __init__(self, test: Any) -> None:
        self._test, self._numbers = test, dict[Any, int]()
        self.keys = list[Any]()
        self.tested, self.counters = set[State](), set[State]()
        self.assumed, self.filled = dict[State, State](), dict[State, State]()

    def term(self, *key: Any) -> State:
        """Return the number of a value by what determines it, or what it is assumed to be."""
        number = self._numbers.setdefault(key, len(self.keys))
        self.keys += [key] if number == len(self.keys) else []
        return self.assumed.get(number, number)

    def operation(self, value: State) -> tuple[str, tuple[State, ...]]:
        """Return what makes a value, and of which ones."""
        return self.keys[value][:2] if isinstance(value, int) else ("", ())

    def known(self, value: Any) -> State:
        with suppress(TypeError):  # of random keys
            if np.ndim(value) == 0:
                return _Known([np.asarray(value).item()])
        return self.term("array", (), id(value))

    def join(self, one: State, other: State) -> State:
        return one if one == other else self.term("either", (), object())

    def branches(self, index: State, every: Sequence[Any]) -> Sequence[Any]:
        return [every[int(index[0])]] if isinstance(index, _Known) else every

    def results(self, chain: Chain, given: Sequence[State]) -> Sequence[State]:
        if chain[0].primitive.name in ("while", "scan"):
            return self._made(chain[0], given, id(chain[0]))
        return super().results(chain, given)

    def transfer(self, chain: Chain, given: Sequence[State]) -> list[State]:
        equation, (x, y, z, *_) = chain[0], (*given, None, None, None)
        params, dtype = equation.params, getattr(equation.outvars[0].aval, "dtype", None)
        if equation is self._test:
            self.tested.add(x)
        filled = [each[0] if isinstance(each, _Known) else None for each in given]
        match equation.primitive.name, *filled:
            case (name, bool() | int() | float()) if name in _PASSING:
                return [x]
            case ("convert_element_type", _) if dtype == equation.invars[0].aval.dtype:
                return [x]
            case ("convert_element_type", int(value)) if np.asarray(value).astype(dtype) == value:
                return [x]
            case ("not", bool(value)):
                return [_Known([not value])]
            case ("and" | "or" as name, bool(value), _):
                return [y if value is (name == "and") else x]
            case ("and" | "or" as name, _, bool(value)):
                return [x if value is (name == "and") else y]
            case ("add", 0, _) if jax.numpy.issubdtype(dtype, np.integer):
                return [y]
            case ("add", _, 0) if jax.numpy.issubdtype(dtype, np.integer):
                return [x]
            case ("select_n", int(value), *_):
                return [given[1 + value]]
            case ("lt", _, 0) if x in self.counters:
                return [_Known([False])]
            case ("scatter", *_) if self.filled.get(x) == (y, z) and self._is_new(equation, y):
                return [x]
        return self._made(equation, given, str(params))

    def _is_new(self, equation: Any, index: State) -> bool:
        """Return whether a scatter writes to one index of an axis, which no step before has."""
        numbers, mode = equation.params["dimension_numbers"], equation.params["mode"]
        axes, (name, operands) = numbers.scatter_dims_to_operand_dims, self.operation(index)
        is_one = len(axes) == 1 and axes == numbers.inserted_window_dims
        is_counter = name == "broadcast_in_dim" and operands[0] in self.counters
        return is_one and is_counter and mode == FILL_OR_DROP

    def _made(self, equation: Any, given: Sequence[State], key: Any) -> list[State]:
        name, avals = equation.primitive.name, [str(each.aval) for each in equation.outvars]
        return [self.term(name, (*given,), place, key, aval) for place, aval in enumerate(avals)]
