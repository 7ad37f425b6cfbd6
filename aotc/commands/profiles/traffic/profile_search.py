"""Good profiles in several dimensions, or where one is split: a start, then shifts of single sizes.

With the least price of each request for each profile in a table, choosing profiles is the k-median
problem. Greedy addition and exchange are its classical heuristics (Teitz and Bart, 1968); here they
make a start, beside one that adds profiles by the true cost. Shifts are judged by the true cost
alone. `aotc.commands.profiles.traffic.cost_bound` says how far from the best the result can be.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from aotc.commands.profiles.traffic.call_cost import CostModel
from aotc.commands.profiles.traffic.candidate_profiles import (
    Candidates,
    Table,
    candidates,
    price_table,
)
from aotc.commands.profiles.traffic.profile_cost import Judge, judge, smallest_served
from aotc.commands.profiles.traffic.size_lattice import Sizes
from aotc.commands.profiles.traffic.size_space import Counts, Points, Space

CELLS_MAX = 1024
"""Candidates of a start."""

ENUMERATED_MAX = 2_000
"""Sets of profiles that are tried one by one."""

RESTARTS = 30
"""Without any, what is found in several dimensions costs up to a tenth more."""

TRIED = 48
"""Profiles of the best prices, and as many others, that are judged before one is added."""

PASSES = 12
NEIGHBOURS = 6
"""Sizes tried on each side of a padded one."""


def search(
    space: Space, points: Points, counts: Counts, model: CostModel, most: int
) -> tuple[Points, bool]:
    """At most so many profiles: as many requests served as can be, then least cost; and whether no
    others are better, all of them having been tried.
    """
    found = candidates(space, points, counts, model, CELLS_MAX, lowers=False)
    found = found.kept(space.related(found.profiles))
    if not len(found.profiles):
        found = Candidates(points, points, found.levels)
    smallest = smallest_served(space, points)
    exact = judge(space, points, counts, smallest, model)
    number = min(most, len(found.profiles))
    if found.is_every(space, points) and comb(len(found.profiles), number) <= ENUMERATED_MAX:
        sets = combinations(range(len(found.profiles)), number)
        best = min((exact.worth(found.profiles[list(each)]), each) for each in sets)[1]
        return exact.shrunk(found.profiles[list(best)]), True
    cells, of_cell = np.unique(found.raised(space, points), axis=0, return_inverse=True)
    weights = np.bincount(of_cell.ravel(), counts, len(cells)).astype(np.int64)
    coarse = judge(space, cells, weights, np.unique(found.raised(space, smallest), axis=0), model)
    prices, requests = price_table(space, cells, weights, found, model)
    # Leaving a request out costs more than serving all of them.
    penalty = prices[np.isfinite(prices)].max(initial=1.0) * len(prices)
    table = np.where(np.isfinite(prices), prices, penalty * requests[:, None])
    starts = (_exchanged(table, number), _added(coarse, table, found.profiles, number))
    chosen = min(starts, key=lambda each: coarse.worth(found.profiles[each]))
    return exact.shrunk(_shifted(exact, found.profiles[chosen], found.profiles)), False


def _exchanged(table: Table, most: int) -> list[int]:
    """Greedy and exchanges, then the same from what is left after taking half of it back."""
    random = np.random.default_rng(0)
    best = _exchange(table, _greedy(table, [], most))
    total = float(table[:, best].min(axis=1).sum())
    for _ in range(RESTARTS if len(best) > 1 else 0):
        kept = random.choice(best, size=len(best) // 2, replace=False).tolist()
        # One of those taken back is replaced by any other, or greedy steps would find it again.
        kept.append(int(random.integers(table.shape[1])))
        chosen = _exchange(table, _greedy(table, kept, most))
        if (found := float(table[:, chosen].min(axis=1).sum())) < total:
            best, total = chosen, found
    return best


def _totals(table: Table, beside: list[int]) -> NDArray[np.float64]:
    """float64[m]: what all pay with each profile beside these."""
    paid = table[:, beside].min(axis=1, initial=np.inf)
    return np.asarray(np.minimum(table, paid[:, None]).sum(axis=0))


def _greedy(table: Table, start: list[int], most: int) -> list[int]:
    chosen, total = list(start), np.inf
    while len(chosen) < most:
        totals = _totals(table, chosen)
        best = int(totals.argmin())
        if totals[best] >= total:
            break
        chosen.append(best)
        total = float(totals[best])
    return chosen


def _exchange(table: Table, chosen: list[int]) -> list[int]:
    """Replace one at a time while that helps."""
    total = float(table[:, chosen].min(axis=1).sum())
    for _ in range(PASSES):
        before = total
        for place in range(len(chosen)):
            totals = _totals(table, chosen[:place] + chosen[place + 1 :])
            best = int(totals.argmin())
            if totals[best] < total * (1 - 1e-12):
                chosen[place], total = best, float(totals[best])
        if total >= before:
            break
    return chosen


def _added(judge: Judge, table: Table, profiles: Points, most: int) -> list[int]:
    """Add the best of some, by the true cost, while there may be more: those of the best prices,
    and some of each part.
    """
    apart = _apart(np.arange(len(profiles))).tolist()
    chosen: list[int] = []
    worth = judge.worth(profiles[chosen])
    while len(chosen) < most:
        cheapest = np.argsort(_totals(table, chosen), kind="stable")[:TRIED].tolist()
        tried = {*cheapest, *apart, len(profiles) - 1}
        found, best = min((judge.worth(profiles[[*chosen, each]]), each) for each in tried)
        if found >= worth:
            break
        worth, chosen = found, [*chosen, best]
    return chosen


def _shifted(judge: Judge, profiles: Points, among: Points) -> Points:
    """Replace single profiles by others, most of which differ in one size, while that helps."""
    worth = judge.worth(profiles)
    for _ in range(PASSES):
        before = worth
        for place in range(len(profiles)):
            for instead in _instead(judge, profiles[place], among):
                other = profiles.copy()
                other[place] = instead
                if (found := judge.worth(other)) < worth:
                    worth, profiles = found, other
        if worth == before:
            break
    return profiles


def _instead(judge: Judge, profile: Sizes, among: Points) -> Points:
    """What may take a profile's place: one that differs in one size, next to its own where that is
    padded; any other where that is split, since it may complete a sum, and some of all candidates.
    """
    found = []
    for column, axis in enumerate(judge.space.axes):
        sizes = np.unique((among if axis.splits else judge.points)[:, column])
        if axis.splits:
            found.append(_apart(among))
        else:
            at = int(np.searchsorted(sizes, profile[column]))
            sizes = sizes[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]
        tried = np.repeat(profile[None, :], len(sizes), axis=0)
        tried[:, column] = sizes
        found.append(tried)
    every: Points = np.unique(np.concatenate(found), axis=0)
    return every[judge.space.related(every)]


def _apart(among: NDArray[np.int64]) -> NDArray[np.int64]:
    """Some of each part, since what lets everything be served is seldom what is cheapest."""
    return among[:: max(1, len(among) // TRIED)]
