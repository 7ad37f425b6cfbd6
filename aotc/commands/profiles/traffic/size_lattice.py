"""A few sizes that stand for many, in several dimensions: what a search can enumerate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aotc.commands.profiles.traffic.call_cost import CostModel, Costs
from aotc.commands.profiles.traffic.one_dimension import best_runs
from aotc.commands.profiles.traffic.size_space import Counts, Points, Space, thinned

SIZES_MAX = 1024
"""Sizes of one dimension among which levels are chosen."""


type Sizes = NDArray[np.int64]


def lattice(
    space: Space, points: Points, counts: Counts, model: CostModel, most: int, *, lowers: bool
) -> tuple[Sizes, ...]:
    """Sorted levels by dimension: every size where it has to be met exactly, in the others as many
    as give at most `most` combinations, such that lowering or raising the sizes to them changes the
    costs least. lowers: which of the two.
    """
    distinct = [np.unique(column) for column in points.T]
    room = float(most)
    padded = [index for index, axis in enumerate(space.axes) if axis.pads]
    for index, sizes in enumerate(distinct):
        if index not in padded:
            room /= len(sizes)
    levels = list(distinct)
    # Dimensions with few sizes keep them all, and leave their room to the others.
    for done, index in enumerate(sorted(padded, key=lambda index: len(distinct[index]))):
        share = max(2, int(room ** (1 / (len(padded) - done))))
        if len(distinct[index]) > share:
            sizes = thinned(distinct[index], SIZES_MAX)
            where = np.searchsorted(sizes, points[:, index], side="right") - 1
            weights = np.bincount(where, counts, len(sizes))
            costs = _costs(points, counts, model, index, sizes)
            levels[index] = _levels(sizes, weights, costs, share, lowers=lowers)
        room /= len(levels[index])
    return tuple(levels)


def _costs(
    points: Points, counts: Counts, model: CostModel, index: int, sizes: NDArray[np.int64]
) -> Costs:
    """The costs of these sizes in one dimension, beside average ones in the others."""
    means = np.maximum(1, np.average(points, axis=0, weights=counts).round().astype(np.int64))
    beside = np.repeat(means[None, :], len(sizes), axis=0)
    beside[:, index] = sizes
    return model.costs(beside)


def _levels(
    sizes: NDArray[np.int64],
    weights: NDArray[np.float64],
    costs: Costs,
    number: int,
    *,
    lowers: bool,
) -> NDArray[np.int64]:
    """Both ends are always among them."""
    if lowers:
        # Read backwards, with what is saved as a cost, runs end with their smallest size.
        indices, _ = best_runs(weights[::-1], (costs[-1] - costs)[::-1], number - 1)[-1]
        indices = [len(sizes) - 1 - index for index in indices]
    else:
        indices, _ = best_runs(weights, costs, number - 1)[-1]
    return sizes[sorted({0, *indices, len(sizes) - 1})]
