"""Good profiles where a dimension is split: exchanges and shifts, each judged by the true cost.

Whatever today's profiles serve of the smallest size of a dimension that is split, the chosen ones
serve too, since every other size may be a sum of it, those included that the traffic did not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from aotc.workshops.suggest.traffic.cost import CostModel, Elements
from aotc.workshops.suggest.traffic.parts import Requests
from aotc.workshops.suggest.traffic.serve import serve
from aotc.workshops.suggest.traffic.space import Counts, Points, Space
from aotc.workshops.suggest.traffic.split_candidates import Candidates, candidates, price_table

CELLS_MAX = 1024
"""Candidates of the exchanges."""

TRIED, TRIED_MIN = 192, 8
"""Replacements that are judged by the true cost, of all profiles together and of one at least."""

PASSES = 12
NEIGHBOURS = 6
"""Sizes tried on each side of a padded one."""

ENUMERATED_MAX = 2_000
"""Sets of profiles that are tried one by one."""

type Worth = tuple[float, float, float]
"""Requests refused, then smallest sizes no longer served, then the cost: less is better."""


@dataclass(frozen=True, slots=True)
class Judge:
    """What a set of profiles is worth. points: requests, and behind them the smallest sizes that
    have to stay served.  weights: of the requests.  per_call: added to each call's cost, too little
    for anything but making fewer calls of equals.
    """

    space: Space
    points: Points
    weights: NDArray[np.float64]
    model: CostModel
    per_call: float
    requests: Requests

    def worth(self, profiles: Points) -> Worth:
        paid = self.requests.costs(profiles, self.model.costs(profiles) + self.per_call)
        asked = paid[: len(self.weights)]
        is_served = np.isfinite(asked)
        return (
            float(self.weights[~is_served].sum()),
            float(np.isinf(paid[len(self.weights) :]).sum()),
            float(self.weights[is_served] @ asked[is_served]),
        )


def _judge(
    space: Space,
    points: Points,
    weights: NDArray[np.float64],
    smallest: Points,
    model: CostModel,
) -> Judge:
    every = np.concatenate([points, smallest])
    per_call = 1e-9 * float(model.costs(points).min())
    return Judge(space, every, weights, model, per_call, Requests(space, every))


def smallest_served(space: Space, points: Points) -> Points:
    """These points with the smallest size that today's profiles have in a dimension that is split,
    where those serve them.
    """
    today = space.points(space.profiles)
    found = [points[:0]]
    for column, axis in enumerate(space.axes):
        if axis.splits and len(today):
            lowered = points.copy()
            lowered[:, column] = today[:, column].min()
            found.append(lowered[space.related(lowered)])
    rows = np.unique(np.concatenate(found), axis=0)
    if not len(rows):
        return rows
    kept = serve(space, rows, np.ones(len(rows), dtype=np.int64), today, Elements()).is_covered
    return rows[kept]


def search_split(
    space: Space, points: Points, counts: Counts, model: CostModel, most: int
) -> tuple[Points, bool]:
    """At most so many profiles: as many requests served as can be, then least cost; and whether no
    others are better, all of them having been tried.
    """
    found = candidates(space, points, counts, model, CELLS_MAX, lowers=False)
    kept = space.related(found.profiles)
    found = Candidates(found.profiles[kept], found.largest[kept], found.grid)
    if not kept.any():
        found = Candidates(points, points, found.grid)
    smallest = smallest_served(space, points)
    exact = _judge(space, points, counts.astype(np.float64), smallest, model)
    if _is_every(space, points, found) and comb(len(found.profiles), most) <= ENUMERATED_MAX:
        sets = combinations(range(len(found.profiles)), min(most, len(found.profiles)))
        best = min((exact.worth(found.profiles[list(each)]), each) for each in sets)[1]
        return _shrunk(exact, found.profiles[list(best)]), True
    cells, of_cell = np.unique(_raised(space, points, found), axis=0, return_inverse=True)
    weights = np.bincount(of_cell.ravel(), counts, len(cells))
    small_cells = np.unique(_raised(space, smallest, found), axis=0)
    coarse = _judge(space, cells, weights, small_cells, model)
    table = price_table(space, cells, weights.astype(np.int64), found, model)
    profiles = found.profiles[_exchange(coarse, table, found.profiles, most)]
    return _shift(exact, profiles), False


def _is_every(space: Space, points: Points, found: Candidates) -> bool:
    """Whether some best set is among the candidates."""
    return all(
        (found.largest[:, column] == found.profiles[:, column]).all()
        if axis.splits
        else len(found.grid.levels[column]) == len(np.unique(points[:, column]))
        for column, axis in enumerate(space.axes)
    )


def _raised(space: Space, points: Points, found: Candidates) -> Points:
    """Padded sizes raised to levels."""
    cells = points.copy()
    for column, axis in enumerate(space.axes):
        if axis.pads:
            levels = found.grid.levels[column]
            cells[:, column] = levels[np.searchsorted(levels, points[:, column])]
    return cells


def _exchange(judge: Judge, table: NDArray[np.float64], profiles: Points, most: int) -> list[int]:
    """Numbers of profiles: add the best of some while there may be more, then replace one at a
    time while that helps.
    """
    finite = table[np.isfinite(table)]
    table = np.where(np.isfinite(table), table, finite.max(initial=1.0) * len(table))
    tried = max(TRIED_MIN, TRIED // most)
    chosen: list[int] = []
    worth = judge.worth(profiles[chosen])
    while len(chosen) < most:
        others = _to_add(table, profiles, chosen, tried)
        found = min((judge.worth(profiles[[*chosen, other]]), other) for other in others)
        if found[0] >= worth:
            break
        worth, chosen = found[0], [*chosen, found[1]]
    for _ in range(PASSES):
        before = worth
        for place, replaced in enumerate(chosen):
            rest = chosen[:place] + chosen[place + 1 :]
            for other in _instead(table, profiles, rest, replaced, tried):
                better = judge.worth(profiles[[*rest, other]])
                if better < worth:
                    worth, chosen = better, [*rest[:place], other, *rest[place:]]
        if worth == before:
            break
    return chosen


def _prices(table: NDArray[np.float64], beside: list[int]) -> NDArray[np.float64]:
    """float64[m]: what each profile beside these would cost at best."""
    if not beside:
        return np.asarray(table.sum(axis=0))
    return np.asarray(np.minimum(table, table[:, beside].min(axis=1)[:, None]).sum(axis=0))


def _to_add(
    table: NDArray[np.float64], profiles: Points, chosen: list[int], tried: int
) -> list[int]:
    """Profiles to add: those of the best prices, and some of each part, since what lets everything
    be served is seldom what is cheapest.
    """
    found = np.argsort(_prices(table, chosen), kind="stable")[: 2 * tried].tolist()
    found += range(0, len(profiles), max(1, len(profiles) // TRIED))
    found.append(len(profiles) - 1)
    return [each for each in dict.fromkeys(found) if each not in chosen] or chosen


def _instead(
    table: NDArray[np.float64], profiles: Points, rest: list[int], replaced: int, tried: int
) -> list[int]:
    """Profiles to put in place of one: those of the best prices, of all and of those that differ in
    one dimension only.
    """
    prices = _prices(table, rest)
    line = np.flatnonzero((profiles != profiles[replaced]).sum(axis=1) == 1)
    found = np.argsort(prices, kind="stable")[:tried].tolist()
    found += line[np.argsort(prices[line], kind="stable")[: 2 * tried]].tolist()
    return [each for each in dict.fromkeys(found) if each not in rest and each != replaced]


def _shift(judge: Judge, profiles: Points) -> Points:
    """Move single padded sizes of single profiles among those asked for while that helps."""
    space = judge.space
    profiles = _shrunk(judge, profiles)
    worth = judge.worth(profiles)
    for _ in range(PASSES):
        before = worth
        for column, axis in enumerate(space.axes):
            sizes = np.unique(judge.points[:, column])
            for place in range(len(profiles) if axis.pads else 0):
                at = int(np.searchsorted(sizes, profiles[place, column]))
                for size in sizes[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]:
                    other = profiles.copy()
                    other[place, column] = size
                    if not space.related(other[place : place + 1])[0]:
                        continue
                    found = judge.worth(other)
                    if found < worth:
                        worth, profiles = found, other
        if worth == before:
            break
    return _shrunk(judge, profiles)


def _shrunk(judge: Judge, profiles: Points) -> Points:
    """Each profile no larger than what it serves, those that serve nothing left out, sorted."""
    space, every = judge.space, judge.points
    ones = np.ones(len(every), dtype=np.int64)
    profiles = np.unique(profiles, axis=0)
    served = serve(space, every, ones, profiles, judge.model)
    kept = []
    for index, profile in enumerate(profiles):
        mine = served.calls[served.of_route, index] > 0
        if mine.any():
            smaller = profile.copy()
            for column, axis in enumerate(space.axes):
                if axis.pads:
                    smaller[column] = every[mine, column].max()
            kept.append(smaller if space.related(smaller[None, :])[0] else profile)
    shrunk = np.unique(np.array(kept, dtype=np.int64).reshape(-1, every.shape[1]), axis=0)
    return shrunk if judge.worth(shrunk) <= judge.worth(profiles) else profiles
