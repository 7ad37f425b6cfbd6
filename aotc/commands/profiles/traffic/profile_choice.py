"""The profiles that serve some traffic best: as many calls as can be, then at the least cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aotc.commands.profiles.traffic.call_cost import CostModel
from aotc.commands.profiles.traffic.cost_bound import lower_bound
from aotc.commands.profiles.traffic.one_dimension import best_runs
from aotc.commands.profiles.traffic.profile_routing import serve
from aotc.commands.profiles.traffic.profile_search import search
from aotc.commands.profiles.traffic.size_space import Counts, Points, Space


@dataclass(frozen=True, slots=True)
class Choice:
    """Profiles, sorted. method: how they were found.  cost: of all covered calls.  bound: no set of
    so many profiles that covers as much costs less; None where nothing is known.
    """

    profiles: Points
    method: str
    cost: float
    bound: float | None

    @property
    def gap(self) -> float | None:
        """The part of the bound by which the cost exceeds it; 0 for the optimum."""
        if self.bound is None:
            return None
        return max(0.0, self.cost / self.bound - 1) if self.bound else 0.0


def choose(space: Space, points: Points, counts: Counts, model: CostModel, most: int) -> Choice:
    """At most `most` profiles for traffic that the space accepts. points: distinct, one or more."""
    splits = any(axis.splits for axis in space.axes)
    if not splits and not any(axis.pads for axis in space.axes):
        profiles, method = _most_frequent(points, counts, most), "exact sizes, most frequent first"
        served = serve(space, points, counts, profiles, model)
        return Choice(profiles, method, served.padded_cost, served.padded_cost)
    if not splits and len(space.axes) == 1 and not space.relations:
        order = np.argsort(points[:, 0])
        runs = best_runs(counts[order].astype(np.float64), model.costs(points[order]), most)
        indices, cost = runs[-1]
        return Choice(points[order][indices], "dynamic programming", cost, cost)
    profiles, is_best = search(space, points, counts, model, most)
    served = serve(space, points, counts, profiles, model)
    cost = served.padded_cost
    if is_best:
        return Choice(profiles, "enumeration", cost, cost)
    bound = None
    if served.covered == served.requests:
        bound = lower_bound(space, points, counts, model, most, cost)
    return Choice(profiles, "greedy, exchange and shift", cost, bound)


def _most_frequent(points: Points, counts: Counts, most: int) -> Points:
    order = np.lexsort((*points.T[::-1], -counts))[:most]
    return np.unique(points[order], axis=0)
