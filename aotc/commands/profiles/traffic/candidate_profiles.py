"""Profiles that are worth trying, and what each request would pay for each of them at best.

A request of size b in a dimension that is split, served by parts p_1 + ... + p_m = b, pays at least
b / p * c(p) for the p of them with the least c(p) / p, since sum c(p_i) = sum p_i * (c(p_i) / p_i).
So with b / p * c(p) as the price of serving the request by p alone, choosing profiles is a k-median
problem whose least cost is never above that of the true one; where nothing is split, it is that.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from aotc.commands.profiles.traffic.call_cost import CostModel
from aotc.commands.profiles.traffic.size_lattice import Sizes, lattice
from aotc.commands.profiles.traffic.size_space import Axis, Counts, Points, Space, thinned

SIZES_MAX = 128
"""Sizes of one dimension that is split, among which parts are chosen."""

BINS_MAX = 64
"""Groups of requests by their size in a dimension that is split, for a bound."""

type Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """profiles: int64[m, d].  largest: of a part that each stands for in a dimension that is split,
    int64[m, d]; where every accepted size is a candidate, its own.  levels: sorted sizes by
    dimension, of which padded ones are candidates.
    """

    profiles: Points
    largest: Points
    levels: tuple[Sizes, ...]

    def kept(self, where: NDArray[np.bool_]) -> Candidates:
        """Only some of them. where: bool[m]."""
        return Candidates(self.profiles[where], self.largest[where], self.levels)

    def is_every(self, space: Space, points: Points) -> bool:
        """Whether some best set is among the candidates."""
        return all(
            (self.largest[:, column] == self.profiles[:, column]).all()
            if axis.splits
            else len(self.levels[column]) == len(np.unique(points[:, column]))
            for column, axis in enumerate(space.axes)
        )

    def raised(self, space: Space, points: Points) -> Points:
        """Padded sizes raised to levels."""
        cells = points.copy()
        for column, axis in enumerate(space.axes):
            if axis.pads:
                levels = self.levels[column]
                cells[:, column] = levels[np.searchsorted(levels, points[:, column])]
        return cells


def candidates(
    space: Space, points: Points, counts: Counts, model: CostModel, most: int, *, lowers: bool
) -> Candidates:
    """About `most` profiles: every combination of parts, and of levels of the padded dimensions.

    lowers: whether they stand for what is larger (for a bound) or smaller (for a search).
    """
    parts = {
        index: _parts(axis, points[:, index])
        for index, axis in enumerate(space.axes)
        if axis.splits
    }
    room = float(most)
    for index, (sizes, _) in parts.items():
        room *= len(np.unique(points[:, index])) / len(sizes)
    levels = lattice(space, points, counts, model, max(1, int(room)), lowers=lowers)
    profiles = [parts[i][0] if i in parts else each for i, each in enumerate(levels)]
    largest = [parts[i][1] if i in parts else each for i, each in enumerate(levels)]
    return Candidates(_combined(profiles), _combined(largest), levels)


def _combined(sizes: list[Sizes]) -> Points:
    """Every combination, int64[m, d]."""
    return np.array(list(product(*sizes)), dtype=np.int64).reshape(-1, len(sizes))


def _parts(axis: Axis, asked: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Accepted sizes up to the largest asked for, and up to where each stands for others."""
    step = axis.multiple_of
    first = -(-axis.minimum // step)
    last = int(asked.max()) // step
    if last - first < SIZES_MAX:
        sizes = np.arange(first, last + 1, dtype=np.int64)
    else:
        spread = np.geomspace(first, last, SIZES_MAX).round().astype(np.int64)
        powers = 2 ** np.arange(int(np.log2(last)) + 1, dtype=np.int64)
        sizes = np.unique(np.concatenate([spread, powers[powers >= first]]))
    return sizes * step, np.append(sizes[1:] - 1, last) * step


def price_table(
    space: Space, points: Points, counts: Counts, found: Candidates, model: CostModel
) -> tuple[Table, NDArray[np.int64]]:
    """float64[cells, profiles]: at most what the requests of a cell pay together if, of all that
    serve parts of them, this profile does so for the least; inf where it serves no part. And
    int64[cells]: how many requests those are.
    """
    keys, split = points.copy(), []
    for column, axis in enumerate(space.axes):
        levels = found.levels[column]
        if axis.splits:
            split.append(column)
            levels = thinned(np.unique(points[:, column]), BINS_MAX)
        keys[:, column] = levels[np.searchsorted(levels, points[:, column], "right") - 1]
    _, of_cell = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(of_cell.ravel(), kind="stable")
    starts = np.flatnonzero(np.diff(of_cell.ravel()[order], prepend=-1))
    smallest = np.minimum.reduceat(points[order], starts, axis=0)
    largest = np.maximum.reduceat(points[order], starts, axis=0)
    units = counts * np.prod(points[:, split].astype(np.float64), axis=1)
    weights = np.add.reduceat(units[order], starts)
    table = np.empty((len(starts), len(found.profiles)))
    for cell in range(len(starts)):
        low, high, profiles = smallest[cell], largest[cell], found.profiles.copy()
        fits = np.ones(len(profiles), dtype=bool)
        parts = np.ones(len(profiles))
        for column, axis in enumerate(space.axes):
            sizes = profiles[:, column]
            if axis.pads:
                # Both are lowered to levels; what the profile stands for covers the request itself.
                fits &= keys[order[starts[cell]], column] <= sizes
                profiles[:, column] = np.maximum(sizes, low[column])
            elif axis.splits:
                fits &= sizes <= high[column]
                parts *= np.minimum(found.largest[:, column], high[column])
            else:
                fits &= sizes == low[column]
        table[cell] = np.where(fits, weights[cell] / parts * model.costs(profiles), np.inf)
    return table, np.add.reduceat(counts[order], starts)
