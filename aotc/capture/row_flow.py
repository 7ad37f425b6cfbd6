"""Follows one dimension through a traced program: what mixes its rows, and decides by its size.

What it finds holds for all numbers, also for events too rare for trials. A row is an index along
the dimension. Operations that are not named here, or on each element, are taken to mix them.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial, reduce
from itertools import product
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np

from aotc.capture import jax_private
from aotc.capture.jax_private import Chain
from aotc.capture.jaxpr_flow import Flow, State, shape_of

_DRAWING = ("random_bits", "random_split", "rng_bit_generator")

_FILL_OR_DROP = jax.lax.GatherScatterMode.FILL_OR_DROP

_ALONG = ("axis", "axes", "dimension", "dimensions", "reduction_dimension")
"""Parameters with the axes that an equation mixes."""

_ANY_DOES = frozenset({
    "argmax", "argmin", "cummax", "cummin", "dynamic_slice", "gather", "reduce_and",
    "reduce_max", "reduce_min", "reduce_or", "rev", "slice", "sort", "split", "squeeze",
})  # fmt: skip
"""Operations that pick rows: of those that are alike, any does."""

_LINEAR = frozenset({
    "cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu",
    "ormqr", "qr", "schur", "svd", "symmetric_product", "tridiagonal", "tridiagonal_solve",
})  # fmt: skip
"""Operations on matrices, of which the other axes are batches."""

_FOLLOWED = _ANY_DOES | _LINEAR | {
    "add_any", "approx_top_k", "broadcast_in_dim", "clamp", "concatenate", "conv_general_dilated",
    "convert_element_type", "copy_p", "cumlogsumexp", "cumprod", "cumsum", "device_put",
    "dot_general", "dynamic_update_slice", "fft", "iota", "layout_constraint",
    "lu_pivots_to_permutation", "name", "optimization_barrier", "pad", "random_gamma",
    "random_wrap", "reduce", "reduce_prod", "reduce_sum", "reduce_window", "reduce_window_max",
    "reduce_window_min", "reduce_window_sum", "reduce_xor", "reshape", "rng_bit_generator",
    "scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub",
    "select_and_gather_add", "select_and_scatter_add", "select_n", "sharding_constraint", "stack",
    "stop_gradient", "tile", "top_k", "transpose", "triangular_solve", "unstack",
}  # fmt: skip
"""Operations of which is known what they mix, beside those on each element."""

_MANY = 2**10
"""Results with more numbers are not computed from sizes."""


class Coupling(NamedTuple):
    """A reason against a policy: a cause of AOTC-E839, and the equation with those around it."""

    cause: str
    chain: Chain


class _Row(NamedTuple):
    """A value that depends on rows: each on its own, perhaps, as its number, or on others.

    `column` is where the number is along the last axis; None is everywhere.
    """

    level: int
    coupling: Coupling | None = None
    column: int | None = None


_OWN, _TRIED, _NUMBER, _COUPLED = 1, 2, 3, 4


def _level(state: State) -> int:
    return state.level if isinstance(state, _Row) else 0


class _Rows(Flow):
    """Follows what depends on rows of a dimension; other states are of what is alike in all."""

    def __init__(self, dimension: str) -> None:
        self._of = lru_cache(None)(lambda size: dimension in jax_private.symbols_of(size))

    def axes(self, variable: Any) -> list[int]:
        """Return the axes whose size depends on the dimension."""
        return [axis for axis, size in enumerate(shape_of(variable)) if self._of(size)]

    def join(self, one: State, other: State) -> State:
        if one is other:
            return one
        found = max((one, other), key=_level)
        if _level(found) == _NUMBER:
            return _Row(_COUPLED, found.coupling)
        return found if _level(found) else None

    def in_loop(self, chain: Chain, state: State) -> State:
        return _coupled(chain) if self._of(chain[0].params.get("length")) else state

    def under(self, chain: Chain, given: Sequence[State], made: Sequence[State]) -> Sequence[State]:
        is_loop = chain[0].primitive.name == "while"
        decides = self.goes_on(chain, given, made, 0) if is_loop else given[0]
        return [self.join(each, decides) for each in made]

    def transfer(self, chain: Chain, given: Sequence[State]) -> list[State]:
        equation, name, params = chain[0], chain[0].primitive.name, chain[0].params
        first: State = given[0] if given else None
        second: State = given[1] if given[1:] else None
        found: State = None
        if name == "call_hi_primitive":
            return self.run(jax_private.expanded(equation), given, chain)
        if name in _DRAWING and any(map(self._of, params["shape"])):
            found = _coupled(chain, "one-key-for-all-parts")
        elif name == "dim_as_value" and self._of(params["dim"]):
            found = _coupled(chain)
        elif name == "iota" and self._of(params["shape"][params["dimension"]]):
            found = _coupled(chain)._replace(level=_NUMBER if _counts(equation) else _COUPLED)
        elif name == "select_n" and first is False:
            found = second
        elif (found := self._moved(equation, given)) is None:
            is_own = _level(second) == _NUMBER and self._is_own(equation, second.column)
            found = reduce(self.join, [_Row(_OWN), first, *given[2:]] if is_own else given, None)
            if _level(found) < _COUPLED:
                found = self._combined(chain, found, is_own=is_own)
        return [found] * len(equation.outvars)

    def _moved(self, equation: Any, given: Sequence[State]) -> State:
        """Return the state of a row's number, or a filled array, that an equation moves."""
        name, places = equation.primitive.name, [*map(_level, given)]
        if name == "broadcast_in_dim" and not places[0] and not self.axes(equation.invars[0]):
            return given[0]
        if places.count(_NUMBER) != 1 or max(places) > _NUMBER:
            return None
        place = places.index(_NUMBER)
        number, shapes = given[place], [*map(shape_of, equation.invars)]
        # As jax writes `arange` of a symbolic size, and counts negative indices from the end.
        if number.column is not None:
            return None
        if name == "lt" and place == 0 and np.array_equal(given[1], 0):
            return False
        if name in ("add", "mul") and np.array_equal(given[1 - place], int(name == "mul")):
            return number
        is_moved = name in ("broadcast_in_dim", "reshape", "convert_element_type", "concatenate")
        if not (is_moved and _counts(equation)) or self._mixes(equation, is_same=True):
            return None
        if name != "concatenate":
            return number
        is_last = equation.params["dimension"] == len(shapes[0]) - 1 and shapes[place][-1] == 1
        column = sum(shape[-1] for shape in shapes[:place])
        return number._replace(column=column) if is_last else None

    def _combined(self, chain: Chain, found: State, *, is_own: bool) -> State:
        """Return the state of results of what is alike in all rows, or each row's own."""
        equation, name = chain[0], chain[0].primitive.name
        is_over, makes = (any(map(self.axes, each)) for each in (equation.invars, equation.outvars))
        if not (found or is_over or makes):
            return None
        if name == "call_exported":
            return _coupled(chain, "")._replace(level=_TRIED)
        if name not in _FOLLOWED and not jax_private.is_elementwise(equation.primitive):
            return _coupled(chain, "operation-is-opaque")
        if self._mixes(equation) or (is_over and not is_own and self._picks(equation)):
            is_any = name in _ANY_DOES and equation.params.get("mode") != _FILL_OR_DROP
            return None if is_any and not found else _coupled(chain)
        # Rows that are cut from what has none, as a table, depend on their place.
        is_cut = makes and not is_over and name not in ("broadcast_in_dim", "iota", "tile")
        return _coupled(chain) if is_cut else found

    def _mixes(self, equation: Any, *, is_same: bool = False) -> bool:
        """Return whether an equation computes along rows, or loses which row is which.

        With `is_same`, a row may not become several.
        """
        is_reshape = equation.primitive.name == "reshape"
        for place, operand in enumerate(equation.invars):
            shape, along = shape_of(operand), _along(equation, place)
            rows = self.axes(operand)
            for axis, made in product(rows, equation.outvars):
                sizes, kept = shape_of(made), self.axes(made)
                if axis in along or not len(rows) == len(kept) == 1:
                    return True
                if is_reshape and prod(sizes[: kept[0]]) != prod(shape[:axis]):
                    return True
                if (is_same or not is_reshape) and sizes[kept[0]] != shape[axis]:
                    return True
        return False

    def _picks(self, equation: Any) -> bool:
        """Return whether an equation reads or writes only some rows."""
        shape, reached = shape_of(equation.invars[0]), _reached(equation)
        return any(reached.get(i, shape[i]) != shape[i] for i in self.axes(equation.invars[0]))

    def _is_own(self, equation: Any, column: int | None) -> bool:
        """Return whether an equation reads or writes, in each row, at the row's number."""
        numbers = equation.params.get("dimension_numbers")
        mapped = getattr(numbers, "scatter_dims_to_operand_dims", ())
        mapped = getattr(numbers, "start_index_map", mapped)
        rows = [axis for axis in self.axes(equation.invars[0]) if axis in mapped]
        if len(rows) != 1 or _reached(equation).get(rows[0]) != 1:
            return False
        return column == mapped.index(rows[0]) or (column is None and len(mapped) == 1)


def _counts(equation: Any) -> bool:
    """Return whether results hold the number of any row."""
    dtype = equation.outvars[0].aval.dtype
    return bool(np.issubdtype(dtype, np.integer) and dtype.itemsize >= 4)


def _along(equation: Any, place: int) -> set[int]:
    """Return the axes of an operand that an equation mixes."""
    name, params = equation.primitive.name, equation.params
    rank = max(len(shape_of(each)) for each in equation.invars)
    match name:
        case "dot_general":
            return {*params["dimension_numbers"][0][place]}
        case "conv_general_dilated":
            is_one = params["feature_group_count"] == params["batch_group_count"] == 1
            return {*params["dimension_numbers"][place][is_one or not place :]}
        case "triangular_solve" if place:
            return {rank - 1 - params["left_side"]}
        case "fft" | "lu_pivots_to_permutation":
            return {*range(rank)[-len(params.get("fft_lengths", "1")) :]}
        case "stack":
            return set()
        case _ if name in _LINEAR or name == "triangular_solve":
            return {rank - 2, rank - 1}
    named = [params[each] for each in _ALONG if params.get(each) is not None]
    along = {int(axis) % rank for each in named for axis in np.ravel(each)}
    along |= {i for i, size in enumerate(params.get("window_dimensions", ())) if size != 1}
    return along | {i for i, each in enumerate(params.get("padding_config", ())) if any(each)}


def _reached(equation: Any) -> dict[int, Any]:
    """Return how far an index of a gather, a scatter or an update reaches along axes.

    Axes of batches are left out.
    """
    name, params = equation.primitive.name, equation.params
    shapes = [*map(shape_of, equation.invars)]
    if name == "dynamic_update_slice":
        return dict(enumerate(shapes[1]))
    if not name.startswith(("gather", "scatter")):
        return {}
    numbers = params["dimension_numbers"]
    reached = dict(enumerate(params.get("slice_sizes", [1] * len(shapes[0]))))
    if name != "gather":
        fixed = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        window = [axis for axis in reached if axis not in fixed]
        taken = zip(window, numbers.update_window_dims, strict=True)
        reached |= {axis: shapes[2][place] for axis, place in taken}
    return {a: size for a, size in reached.items() if a not in numbers.operand_batching_dims}


def _coupled(chain: Chain, cause: str = "rows-depend-on-each-other") -> _Row:
    return _Row(_COUPLED, Coupling(cause, chain))


class _AtSizes(NamedTuple):
    """A value that depends on the size alone, at every size; None where that is not computed."""

    values: Any


class _Sizes(Flow):
    """Follows what is computed from one size alone, and keeps the first that decides by it.

    The state of an array of symbolic shape is that of the number that fills it.
    """

    def __init__(self, dimension: str, sizes: range, others: Mapping[str, int]) -> None:
        self._dimension, self._at = dimension, {**others, dimension: np.asarray(sizes)}
        self.found: Coupling | None = None

    def in_loop(self, chain: Chain, state: State) -> State:
        return None

    def transfer(self, chain: Chain, given: Sequence[State]) -> Sequence[State]:
        equation = chain[0]
        made: Sequence[State] | None = None
        if any(each is None for each in given):
            return [None] * len(equation.outvars)
        with suppress(Exception):  # what jax cannot compute at known sizes alone
            made = self._computed(equation, given)
        if made is None:
            every = (*equation.invars, *equation.outvars)
            is_over = any(map(self._has, every)) or any(isinstance(x, _AtSizes) for x in given)
            made = [_AtSizes(None) if is_over else None] * len(equation.outvars)
        pairs = zip(equation.outvars, made, strict=True)
        if self.found is None and any(self._decides(each, state) for each, state in pairs):
            self.found = Coupling("program-decides-by-the-size", chain)
        return made

    def _has(self, variable: Any) -> bool:
        return any(self._dimension in jax_private.symbols_of(n) for n in shape_of(variable))

    def _decides(self, variable: Any, state: State) -> bool:
        if not isinstance(state, _AtSizes):
            return False
        if state.values is None:
            return bool(variable.aval.dtype == np.bool_) and not self._has(variable)
        # Numbers that differ at some sizes only; the smallest size is always tried.
        rows = np.asarray(state.values)[1:].reshape(len(state.values) - 1, -1)
        counts = np.unique(rows, axis=0, return_counts=True)[1]
        return len(counts) > 1 and bool(rows.dtype == np.bool_ or 2 * counts.max() > len(rows))

    def _computed(self, equation: Any, given: Sequence[State]) -> Sequence[State] | None:
        name, params = equation.primitive.name, equation.params
        if name == "dim_as_value":
            size = np.asarray(jax_private.size_at(params["dim"], self._at), np.int32)
            return [_AtSizes(size) if size.ndim else None]
        axes = [0 if isinstance(each, _AtSizes) else None for each in given]
        values = [each.values if isinstance(each, _AtSizes) else each for each in given]
        sizes = [size for each in equation.outvars for size in shape_of(each)]
        known = [size for size in sizes if isinstance(size, int)]
        shape = shape_of(equation.invars[0]) if given else ()
        if any(each is None for each in values) or prod(known) > _MANY:
            return None
        if name == "broadcast_in_dim" and not shape and (axes == [0] or known != sizes):
            return given
        if name == "reduce_sum" and not all(isinstance(size, int) for size in shape):
            count = jax_private.size_at(prod(shape[axis] for axis in params["axes"]), self._at)
            total = np.asarray(values[0] * count, equation.outvars[0].aval.dtype)
            return [_AtSizes(total) if total.ndim else total]
        if 0 not in axes and known != sizes:
            return None
        call = partial(equation.primitive.bind, **params)
        made = jax.vmap(call, tuple(axes))(*values) if 0 in axes else call(*values)
        results = list(made) if equation.primitive.multiple_results else [made]
        return [*map(_AtSizes, results)] if 0 in axes else results


def split_coupling(closed: Any, dimension: str, alike: Sequence[bool]) -> Coupling | None:
    """Return what keeps a dimension of a closed jaxpr from being split, if anything does.

    Exported functions, whose operations are not seen, may: for them the cause is empty.
    `alike` is whether each input has the same in every row, as masks of the loader do.
    """
    flow = _Rows(dimension)
    given = [
        _Row(_OWN) if flow.axes(variable) and not is_alike else None
        for variable, is_alike in zip(closed.invars, alike, strict=True)
    ]
    found: State = reduce(flow.join, flow.run(closed, given), None)
    return found.coupling if _level(found) > _OWN else None


def pad_coupling(
    closed: Any, dimension: str, sizes: range, others: Mapping[str, int]
) -> Coupling | None:
    """Return what keeps a dimension of a closed jaxpr from being padded, if anything does.

    `sizes` are those that are accepted; other dimensions have the sizes of `others`.
    """
    for chain in jax_private.equations_within(closed):
        is_drawing = chain[0].primitive.name in _DRAWING
        shape = chain[0].params["shape"] if is_drawing else ()
        axes = [
            axis for axis, size in enumerate(shape) if dimension in jax_private.symbols_of(size)
        ]
        # Numbers of threefry depend on their place alone; those along the first axis keep it.
        if axes and (axes != [0] or not jax_private.draws_by_place(chain[0])):
            return Coupling("padding-changes-random-numbers", chain)
    flow = _Sizes(dimension, sizes, others)
    flow.run(closed, [None] * len(closed.invars))
    return flow.found
