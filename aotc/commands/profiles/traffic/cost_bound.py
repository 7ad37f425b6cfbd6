"""How cheap any set of so many profiles could be at best: a lower bound.

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

from aotc.commands.profiles.traffic.call_cost import CostModel
from aotc.commands.profiles.traffic.candidate_profiles import Table, candidates, price_table
from aotc.commands.profiles.traffic.size_space import Counts, Points, Space

CELLS_MAX = 2048
"""Cells of the lattice; tables have the square of that many numbers."""

ROUNDS = 200
PATIENCE = 8
STEP_MIN = 0.02


def lower_bound(
    space: Space, points: Points, counts: Counts, model: CostModel, most: int, known: float
) -> float:
    """A cost below which no `most` profiles serve these calls. known: what some serve them for."""
    found = candidates(space, points, counts, model, CELLS_MAX, lowers=True)
    table, _ = price_table(space, points, counts, found, model)
    least = float(table.min(axis=1).sum())
    if not any(axis.splits for axis in space.axes):
        least = max(least, float(counts @ model.costs(points)))
    return min(known, max(least, _raise(table, most, known)))


def _raise(table: Table, most: int, known: float) -> float:
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
