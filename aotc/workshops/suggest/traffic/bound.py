"""How cheap any set of so many profiles could be at best: a lower bound, for several dimensions.

Choosing k profiles is the k-median problem with the calls as clients. Its Lagrangian relaxation
(Cornuejols, Fisher and Nemhauser, 1977) drops "every call is served once" and pays a price for each
call instead; whatever the prices, the result is no more than the least cost. A subgradient method
raises it.

Where the lattice is coarser than the traffic, sizes of profiles are lowered to its levels, which
only makes them cheaper and lets them serve more; a call still pays at least what its own sizes
cost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aotc.workshops.suggest.traffic.cost import CostModel
from aotc.workshops.suggest.traffic.lattice import lattice
from aotc.workshops.suggest.traffic.serve import can_serve
from aotc.workshops.suggest.traffic.space import Counts, Points, Space
from aotc.workshops.suggest.traffic.split_candidates import candidates, price_table

CELLS_MAX = 2048
"""Cells of the lattice; tables have the square of that many numbers."""

ROUNDS = 200
PATIENCE = 8
STEP_MIN = 0.02


def lower_bound(
    space: Space, points: Points, counts: Counts, model: CostModel, most: int, known: float
) -> float:
    """A cost below which no `most` profiles serve these calls. known: what some serve them for."""
    if any(axis.splits for axis in space.axes):
        found = candidates(space, points, counts, model, CELLS_MAX, lowers=True)
        prices = price_table(space, points, counts, found, model)
        return min(known, max(float(prices.min(axis=1).sum()), _raise(prices, most, known)))
    grid = lattice(space, points, counts, model, CELLS_MAX, lowers=True)
    profiles, lowered = grid.points(), grid.floor(points)
    cells, of_cell = np.unique(lowered, axis=0, return_inverse=True)
    table = _table(space, points, counts, model, cells, of_cell.ravel(), profiles)
    exact = float(counts @ model.costs(points))
    return min(known, max(exact, _raise(table, most, known)))


def _table(
    space: Space,
    points: Points,
    counts: Counts,
    model: CostModel,
    cells: Points,
    of_cell: NDArray[np.intp],
    profiles: Points,
) -> NDArray[np.float64]:
    """float64[cells, profiles]: the calls of a cell, each paying its own cost or the profile's;
    inf where the profile serves none of them.
    """
    own, costs = model.costs(points), model.costs(profiles)
    fits = can_serve(space, cells, profiles)
    table = np.empty((len(cells), len(profiles)))
    order = np.lexsort((own, of_cell))
    ends = np.searchsorted(of_cell[order], np.arange(len(cells) + 1))
    for cell in range(len(cells)):
        inside = order[ends[cell] : ends[cell + 1]]
        weights = counts[inside].astype(np.float64)
        paid = np.concatenate([[0.0], np.cumsum(weights * own[inside])])
        weight = np.concatenate([[0.0], np.cumsum(weights)])
        below = np.searchsorted(own[inside], costs)
        table[cell] = costs * weight[below] + (paid[-1] - paid[below])
        # A profile that shares a level with the cell is at least as large as the calls there.
        beside = np.flatnonzero((profiles == cells[cell]).any(axis=1) & fits[cell])
        both = np.maximum(points[inside, None, :], profiles[None, beside, :])
        table[cell, beside] = weights @ model.costs(both.reshape(-1, points.shape[1])).reshape(
            len(inside), len(beside)
        )
    table[~fits] = np.inf
    return table


def _raise(table: NDArray[np.float64], most: int, known: float) -> float:
    """The best bound found. table: inf where a profile does not serve a cell."""
    prices = table.min(axis=1) * 1.1
    best, step, waited = 0.0, 1.0, 0
    count = min(most, table.shape[1])
    for _ in range(ROUNDS):
        gains = np.minimum(table - prices[:, None], 0.0)
        by_profile = gains.sum(axis=0)
        opened = np.argpartition(by_profile, count - 1)[:count]
        value = float(prices.sum() + by_profile[opened].sum())
        waited = 0 if value > best * 1.0005 else waited + 1
        best = max(best, value)
        if waited >= PATIENCE:
            step, waited = step / 2, 0
        slope = 1.0 - (gains[:, opened] < 0).sum(axis=1)
        length = float(slope @ slope)
        if length == 0 or best >= known * (1 - 1e-9) or step < STEP_MIN:
            break
        prices = np.maximum(prices + step * (known * 1.02 - value) / length * slope, 0.0)
    return best
