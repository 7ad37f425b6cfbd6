"""Good profiles in several dimensions: greedy, then exchanges, then shifts of single sizes.

Greedy addition and exchange are the classical heuristics of the k-median problem (Teitz and Bart,
1968); `aotc.workshops.suggest.traffic.bound` says how far from the best their result can be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aotc.workshops.suggest.traffic.cost import CostModel, Costs
from aotc.workshops.suggest.traffic.lattice import lattice
from aotc.workshops.suggest.traffic.serve import assign, can_serve
from aotc.workshops.suggest.traffic.space import Counts, Points, Space

CELLS_MAX = 1024
"""Candidates of the greedy steps and the exchanges."""

RESTARTS = (2, 30)
WORK = 3e7
"""Numbers of the table that restarts look at, beyond the fewest there are."""

PASSES = 12
NEIGHBOURS = 12
"""Sizes tried on each side of a profile's."""


def search(
    space: Space,
    points: Points,
    counts: Counts,
    model: CostModel,
    most: int,
) -> Points:
    """At most so many profiles for these calls: as many calls served as can be, then least cost."""
    grid = lattice(space, points, counts, model, CELLS_MAX, lowers=False)
    candidates = grid.points()
    candidates = candidates[space.related(candidates)]
    if not len(candidates):
        candidates = points
    cells, of_cell = np.unique(grid.ceiling(points), axis=0, return_inverse=True)
    weights = np.bincount(of_cell.ravel(), counts, len(cells))
    costs = model.costs(candidates)
    # Leaving a call out costs more than serving all of them by the most expensive profile.
    penalty = float(costs.max()) * (1 + float(weights.sum() / weights.min()))
    table = np.where(can_serve(space, cells, candidates), costs[None, :], penalty)
    table *= weights[:, None]
    chosen = _descend(table, min(most, len(candidates)))
    return _shift(space, points, counts, model, candidates[chosen], penalty)


def _descend(table: NDArray[np.float64], most: int) -> list[int]:
    """Greedy and exchanges, then the same from what is left after taking half of it back."""
    random = np.random.default_rng(0)
    best = _exchange(table, _greedy(table, [], most))
    total = float(table[:, best].min(axis=1).sum())
    restarts = int(np.clip(WORK / (table.size * most), *RESTARTS))
    for _ in range(restarts if len(best) > 1 else 0):
        kept = random.choice(best, size=len(best) // 2, replace=False).tolist()
        # One of those taken back is replaced by any other, or greedy steps would find it again.
        kept.append(int(random.integers(table.shape[1])))
        chosen = _exchange(table, _greedy(table, kept, most))
        if (found := float(table[:, chosen].min(axis=1).sum())) < total:
            best, total = chosen, found
    return best


def _greedy(table: NDArray[np.float64], start: list[int], most: int) -> list[int]:
    chosen = list(start)
    paid = table[:, chosen].min(axis=1) if chosen else np.full(len(table), np.inf)
    while len(chosen) < most:
        totals = np.minimum(table, paid[:, None]).sum(axis=0)
        best = int(totals.argmin())
        if chosen and totals[best] >= paid.sum():
            break
        chosen.append(best)
        paid = np.minimum(paid, table[:, best])
    return chosen


def _exchange(table: NDArray[np.float64], chosen: list[int]) -> list[int]:
    """Replace one at a time while that helps."""
    total = float(table[:, chosen].min(axis=1).sum())
    for _ in range(PASSES):
        before = total
        for place in range(len(chosen)):
            others = chosen[:place] + chosen[place + 1 :]
            paid = table[:, others].min(axis=1) if others else np.full(len(table), np.inf)
            totals = np.minimum(table, paid[:, None]).sum(axis=0)
            best = int(totals.argmin())
            if totals[best] < total * (1 - 1e-12):
                chosen[place], total = best, float(totals[best])
        if total >= before:
            break
    return chosen


def _shift(
    space: Space,
    points: Points,
    counts: Counts,
    model: CostModel,
    profiles: Points,
    penalty: float,
) -> Points:
    """Move single sizes of single profiles among all that were asked for while that helps."""
    distinct = [np.unique(column) for column in points.T]
    weights = counts.astype(np.float64)
    profiles = shrink(space, points, profiles, model)
    for _ in range(PASSES):
        before = profiles.copy()
        for place in range(len(profiles)):
            rest = np.delete(profiles, place, axis=0)
            paid = _paid(space, points, rest, model.costs(rest), penalty)
            profiles[place] = _moved(space, points, weights, model, profiles[place], paid, distinct)
        profiles = shrink(space, points, profiles, model)
        if profiles.shape == before.shape and (profiles == before).all():
            break
    return profiles


def _moved(
    space: Space,
    points: Points,
    weights: NDArray[np.float64],
    model: CostModel,
    profile: NDArray[np.int64],
    paid: Costs,
    distinct: list[NDArray[np.int64]],
) -> NDArray[np.int64]:
    tried = [profile]
    for column, sizes in enumerate(distinct):
        at = int(np.searchsorted(sizes, profile[column]))
        for size in sizes[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]:
            other = profile.copy()
            other[column] = size
            tried.append(other)
    candidates = np.array(tried)
    candidates = candidates[space.related(candidates)]
    if not len(candidates):
        return profile
    costs = model.costs(candidates)
    fits = can_serve(space, points, candidates)
    totals = [
        float(weights @ np.where(fits[:, index], np.minimum(paid, cost), paid))
        for index, cost in enumerate(costs)
    ]
    best: NDArray[np.int64] = candidates[int(np.argmin(totals))]
    return best


def _paid(space: Space, points: Points, profiles: Points, costs: Costs, penalty: float) -> Costs:
    by = assign(space, points, profiles, costs)
    paid = np.full(len(points), penalty)
    paid[by >= 0] = costs[by[by >= 0]]
    return paid


def shrink(space: Space, points: Points, profiles: Points, model: CostModel) -> Points:
    """Each profile no larger than what it serves, those that serve nothing left out, sorted."""
    by = assign(space, points, profiles, model.costs(profiles))
    kept = []
    for index, profile in enumerate(profiles):
        if (mine := by == index).any():
            smaller = points[mine].max(axis=0)
            kept.append(smaller if space.related(smaller[None, :])[0] else profile)
    return np.unique(np.array(kept, dtype=np.int64).reshape(-1, points.shape[1]), axis=0)
