"""Follows one dimension through a traced program: what mixes its rows, and decides by its size.

What it finds holds for all numbers, also for events too rare for trials. A row is an index along
the dimension. Operations that are not named here are taken to keep rows apart; trials test them.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial, reduce
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Literal

from aotc.capture import jax_private
from aotc.capture.jax_private import Chain, nested_jaxprs

type State = Any
"""Knowledge of a value: None for none, the value of a literal or a constant, or more."""

_DRAWING = ("random_bits", "random_split", "rng_bit_generator")

_ALL = ("reduce_and", "reduce_or")

_ALONG = ("axis", "axes", "dimension", "dimensions")
"""Parameters with the axes that an equation mixes."""

_MANY = 2**10
"""Results with more numbers are not computed from sizes."""


class Coupling(NamedTuple):
    """A reason against a policy: a cause of AOTC-E839, and the equation with those around it."""

    cause: str
    chain: Chain


class _Flow:
    """Follows states through a jaxpr and its nested ones, loops until nothing changes."""

    def transfer(self, chain: Chain, given: Sequence[State]) -> list[State]:
        """Return the states of an equation's results, from those of its operands."""
        raise NotImplementedError

    def join(self, one: State, other: State) -> State:
        """Return the state of a value that is either; `one` itself, if nothing else is known."""
        raise NotImplementedError

    def in_loop(self, chain: Chain, state: State) -> State:
        """Return the state of what each step of a loop changes."""
        raise NotImplementedError

    def run(self, jaxpr: Any, given: Sequence[State], outer: Chain = ()) -> list[State]:
        """Return the states of the results, from those of the inputs, or of constants and these."""
        held = dict(zip((*jaxpr.constvars, *jaxpr.invars)[-len(given) :], given, strict=False))

        def read(atom: Any) -> State:
            return atom.val if isinstance(atom, Literal) else held.get(atom)

        for equation in jaxpr.eqns:
            made = self._results((equation, *outer), [*map(read, equation.invars)])
            held.update(zip(equation.outvars, made, strict=True))
        return [*map(read, jaxpr.outvars)]

    def _results(self, chain: Chain, given: list[State]) -> list[State]:
        equation, inner = chain[0], [*nested_jaxprs(chain[0])]
        match equation.primitive.name:
            case "cond":
                branches = [self.run(each, given[1:], chain) for each in inner]
                return [reduce(self.join, each, given[0]) for each in zip(*branches, strict=True)]
            case "while":
                going, body = (equation.params[f"{each}_jaxpr"].jaxpr for each in ("cond", "body"))
                tests = equation.params["cond_nconsts"]
                made = self._run_loop(chain, body, given[tests:])
                (goes,) = self.run(going, [*given[:tests], *made], chain)
                return [self.join(each, self.in_loop(chain, goes)) for each in made]
            case "scan":
                return self._run_loop(chain, inner[0], given)
        own = (*equation.invars, *equation.outvars)
        called = (*inner[0].invars, *inner[0].outvars) if inner else ()
        if len(called) == len(own) and all(map(_is_alike, own, called)):
            return self.run(inner[0], given, chain)
        return self.transfer(chain, given)

    def _run_loop(self, chain: Chain, body: Any, given: list[State]) -> list[State]:
        """Return the states of what a loop carries, and stacks, after any number of steps."""
        operands = chain[0].invars[-len(given) :]
        carries = sum(map(_is_alike, chain[0].outvars, body.outvars))
        end = sum(map(_is_alike, operands, body.invars))
        carry = [
            state if variable is made else self.in_loop(chain, state)
            for variable, made, state in zip(
                body.invars[end - carries : end],
                body.outvars,
                given[end - carries : end],
                strict=False,
            )
        ]
        while True:
            made = self.run(body, [*given[: end - carries], *carry, *given[end:]], chain)
            after = [*map(self.join, carry, made)]
            if all(one is other for one, other in zip(carry, after, strict=True)):
                return [*carry, *made[carries:]]
            carry = after


def _shape(variable: Any) -> tuple[Any, ...]:
    return getattr(variable.aval, "shape", ())


def _is_alike(outer: Any, inner: Any) -> bool:
    return len(_shape(outer)) == len(_shape(inner))


class _Row(NamedTuple):
    """A value that depends on rows: each element on its own, also on its number, or on others."""

    level: int
    coupling: Coupling | None = None


_OWN, _NUMBERED, _COUPLED = 1, 2, 3


def _level(state: State) -> int:
    return state.level if isinstance(state, _Row) else 0


class _Rows(_Flow):
    """Follows what depends on rows of a dimension."""

    def __init__(self, dimension: str) -> None:
        self._of = lru_cache(None)(lambda size: dimension in jax_private.symbols_of(size))

    def axes(self, shape: Sequence[Any]) -> list[int]:
        """Return the axes whose size depends on the dimension."""
        return [axis for axis, size in enumerate(shape) if self._of(size)]

    def join(self, one: State, other: State) -> State:
        return max((one, other), key=_level)

    def in_loop(self, chain: Chain, state: State) -> State:
        if chain[0].primitive.name == "scan":
            is_over_rows = self._of(chain[0].params["length"])
            return _coupled(chain) if is_over_rows else state
        # Loops until all rows are done, which may each wait for the others, are left to trials.
        coupling = state.coupling if _level(state) else None
        return None if coupling and coupling.chain[0].primitive.name in _ALL else state

    def transfer(self, chain: Chain, given: Sequence[State]) -> list[State]:
        equation = chain[0]
        name, params = equation.primitive.name, equation.params
        found: Any = max(given, key=_level, default=None)
        if name in _DRAWING and self.axes(params["shape"]):
            found = _coupled(chain, "one-key-for-all-parts")
        elif name == "dim_as_value" and self._of(params["dim"]):
            found = _coupled(chain)
        elif name == "iota" and params["dimension"] in self.axes(params["shape"]):
            found = _coupled(chain)._replace(level=_NUMBERED)
        # How jax counts negative indices from the end, of which a row's own number is none.
        elif name == "lt" and _level(given[0]) == _NUMBERED and np.array_equal(given[1], 0):
            found = False
        elif name == "select_n" and given[0] is False:
            found = given[1]
        elif _level(found) in (_OWN, _NUMBERED):
            if self._chooses(equation):
                # By a number that comes from the row's own, trials show which.
                others = reduce(self.join, (given[0], *given[2:]), _Row(_OWN))
                found = others if _level(given[1]) == _NUMBERED else _coupled(chain)
            elif self._mixes(equation, given):
                found = _coupled(chain)
        elif not _level(found):
            # A sum over what is alike in all rows is as large as there are rows.
            own = {axis for each in equation.invars for axis in self.axes(_shape(each))}
            is_size = not own.isdisjoint(params.get("axes", ()))
            found = _coupled(chain) if is_size else None
        return [found] * len(equation.outvars)

    def _chooses(self, equation: Any) -> bool:
        """Return whether a gather or a scatter chooses rows by their number."""
        if not equation.primitive.name.startswith(("gather", "scatter")):
            return False
        shape, numbers = equation.invars[0].aval.shape, equation.params["dimension_numbers"]
        if equation.primitive.name == "gather":
            sizes = equation.params["slice_sizes"]
            return any(
                axis in numbers.start_index_map and sizes[axis] != shape[axis]
                for axis in self.axes(shape)
            )
        return any(axis in numbers.scatter_dims_to_operand_dims for axis in self.axes(shape))

    def _mixes(self, equation: Any, given: Sequence[State]) -> bool:
        """Return whether an equation computes a row from others, or loses which row it is."""
        name, params = equation.primitive.name, equation.params
        named = [params[each] for each in _ALONG if params.get(each) is not None]
        along = {int(axis) for each in named for axis in np.ravel(each)}
        along |= {i for i, size in enumerate(params.get("window_dimensions", ())) if size != 1}
        along |= {i for i, each in enumerate(params.get("padding_config", ())) if any(each)}
        is_any = name == "reshape" or name.startswith(("gather", "scatter"))
        for operand, state in zip(equation.invars, given, strict=True):
            shape = _shape(operand)
            for axis in self.axes(shape) if _level(state) else ():
                if name == "conv_general_dilated" and operand is equation.invars[0]:
                    along = {*params["dimension_numbers"].lhs_spec[1:]}
                if axis in along:
                    return True
                for made in map(_shape, equation.outvars):
                    kept = self.axes(made)
                    is_same = len(kept) == 1 and made[kept[0]] == shape[axis]
                    if len(kept) != 1 or not (is_same or is_any):
                        return True
                    if (
                        name == "reshape"
                        and is_same
                        and prod(made[: kept[0]]) != prod(shape[:axis])
                    ):
                        return True
        if name == "dynamic_update_slice":
            whole, part = (each.aval.shape for each in equation.invars[:2])
            return any(whole[axis] != part[axis] for axis in self.axes(whole))
        return False


def _coupled(chain: Chain, cause: str = "rows-depend-on-each-other") -> _Row:
    return _Row(_COUPLED, Coupling(cause, chain))


class _AtSizes(NamedTuple):
    """A value that depends on the size alone, at every size."""

    values: Any


class _Sizes(_Flow):
    """Follows what is computed from one size alone, and keeps the first that decides by it."""

    def __init__(self, dimension: str, sizes: range, others: Mapping[str, int]) -> None:
        self._dimension, self._at = dimension, {**others, dimension: np.asarray(sizes)}
        self.found: Coupling | None = None

    def join(self, one: State, other: State) -> State:
        return one if one is other else None

    def in_loop(self, chain: Chain, state: State) -> State:
        return None

    def transfer(self, chain: Chain, given: Sequence[State]) -> list[State]:
        equation, name = chain[0], chain[0].primitive.name
        nothing: list[State] = [None] * len(equation.outvars)
        if name == "dim_as_value":
            size = equation.params["dim"]
            if self._dimension not in jax_private.symbols_of(size):
                return nothing
            return [_AtSizes(np.asarray(jax_private.size_at(size, self._at), np.int32))]
        if name == "broadcast_in_dim" and isinstance(given[0], _AtSizes):
            return [given[0]] if not _shape(equation.invars[0]) else nothing
        shapes = [size for variable in equation.outvars for size in _shape(variable)]
        sizes = [size for size in shapes if isinstance(size, int)]
        is_sized = any(isinstance(each, _AtSizes) for each in given)
        is_known = all(each is not None for each in given) and (is_sized or sizes == shapes)
        if not is_known or prod(sizes) > _MANY:
            return nothing
        axes = [0 if isinstance(each, _AtSizes) else None for each in given]
        values = [each.values if isinstance(each, _AtSizes) else each for each in given]
        call = partial(equation.primitive.bind, **equation.params)
        with suppress(Exception):  # what jax cannot compute at known sizes depends on more
            made = jax.vmap(call, tuple(axes))(*values) if is_sized else call(*values)
            results = list(made) if equation.primitive.multiple_results else [made]
            if not is_sized:
                return results
            if self.found is None and any(map(_is_decision, results)):
                self.found = Coupling("program-decides-by-the-size", chain)
            return [*map(_AtSizes, results)]
        return nothing


def _is_decision(values: Any) -> bool:
    """Return whether numbers differ at some sizes only; the smallest size is always tried."""
    rows = np.asarray(values)[1:].reshape(len(values) - 1, -1)
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    return len(counts) > 1 and bool(rows.dtype == np.bool_ or 2 * counts.max() > len(rows))


def split_coupling(jaxpr: Any, dimension: str, alike: Sequence[bool]) -> Coupling | None:
    """Return what keeps a dimension of a jaxpr from being split, if anything does.

    `alike` is whether each input has the same in every row, as masks of the loader do.
    """
    flow = _Rows(dimension)
    given = [
        _Row(_OWN) if flow.axes(_shape(variable)) and not is_alike else None
        for variable, is_alike in zip(jaxpr.invars, alike, strict=True)
    ]
    found: State = reduce(flow.join, flow.run(jaxpr, given), None)
    return found.coupling if _level(found) > _OWN else None


def pad_coupling(
    closed: Any, dimension: str, sizes: range, others: Mapping[str, int]
) -> Coupling | None:
    """Return what keeps a dimension of a closed jaxpr from being padded, if anything does.

    `sizes` are those that are accepted; other dimensions have the sizes of `others`.
    """
    flow, names = _Rows(dimension), set[str]()
    for chain in jax_private.equations_within(closed.jaxpr):
        is_drawing = chain[0].primitive.name in _DRAWING
        axes = flow.axes(chain[0].params["shape"]) if is_drawing else []
        # Numbers of threefry depend on their place alone; those along the first axis keep it.
        if axes and (axes != [0] or not jax_private.draws_by_place(chain[0])):
            return Coupling("padding-changes-random-numbers", chain)
        names.update(jax_private.symbols_of(chain[0].params.get("dim")))
    found = _Sizes(dimension, sizes, others)
    if dimension in names:
        found.run(closed.jaxpr, [*closed.consts, *[None] * len(closed.jaxpr.invars)])
    return found.found
