"""The profiles that serve some traffic best: as many calls as can be, then at the least cost."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from aotc.workshops.suggest.traffic.bound import lower_bound
from aotc.workshops.suggest.traffic.cost import CostModel
from aotc.workshops.suggest.traffic.one_dimension import best_runs
from aotc.workshops.suggest.traffic.search import search, shrink
from aotc.workshops.suggest.traffic.serve import serve
from aotc.workshops.suggest.traffic.space import Counts, Points, Space
from aotc.workshops.suggest.traffic.split_search import search_split

ENUMERATED_MAX = 20_000
"""Sets of profiles that are tried one by one."""


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
    if any(axis.splits for axis in space.axes):
        return _split(space, points, counts, model, most)
    if not any(axis.pads for axis in space.axes):
        profiles, method = _most_frequent(points, counts, most), "exact sizes, most frequent first"
        served = serve(space, points, counts, profiles, model)
        return Choice(profiles, method, served.padded_cost, served.padded_cost)
    if len(space.axes) == 1 and not space.relations:
        order = np.argsort(points[:, 0])
        runs = best_runs(counts[order].astype(np.float64), model.costs(points[order]), most)
        indices, cost = runs[-1]
        return Choice(points[order][indices], "dynamic programming", cost, cost)
    if (small := _enumerated(space, points, counts, model, most)) is not None:
        cost = serve(space, points, counts, small, model).padded_cost
        return Choice(small, "enumeration", cost, cost)
    profiles = search(space, points, counts, model, most)
    served = serve(space, points, counts, profiles, model)
    bound = None
    if served.covered == served.requests:
        found = served.padded_cost
        bound = lower_bound(space, points, counts, model, most, found)
    return Choice(profiles, "greedy, exchange and shift", served.padded_cost, bound)


def _split(space: Space, points: Points, counts: Counts, model: CostModel, most: int) -> Choice:
    profiles, is_best = search_split(space, points, counts, model, most)
    served = serve(space, points, counts, profiles, model)
    cost = served.padded_cost
    if is_best:
        return Choice(profiles, "enumeration", cost, cost)
    bound = None
    if served.covered == served.requests:
        bound = lower_bound(space, points, counts, model, most, cost)
    return Choice(profiles, "exchange and shift of sums", cost, bound)


def _most_frequent(points: Points, counts: Counts, most: int) -> Points:
    order = np.lexsort((*points.T[::-1], -counts))[:most]
    return np.unique(points[order], axis=0)


def _enumerated(
    space: Space, points: Points, counts: Counts, model: CostModel, most: int
) -> Points | None:
    """The best of all sets of profiles; None if there are too many."""
    levels = [np.unique(column) for column in points.T]
    number = int(np.prod([float(len(each)) for each in levels]))
    if number > ENUMERATED_MAX or comb(number, min(most, number)) > ENUMERATED_MAX:
        return None
    mesh = np.stack([axis.ravel() for axis in np.meshgrid(*levels, indexing="ij")], axis=1)
    candidates = mesh[space.related(mesh)]
    best: tuple[int, float] | None = None
    found = candidates[:0]
    for chosen in combinations(range(len(candidates)), min(most, len(candidates))):
        profiles = candidates[list(chosen)]
        served = serve(space, points, counts, profiles, model)
        if best is None or (-served.covered, served.padded_cost) < best:
            best, found = (-served.covered, served.padded_cost), profiles
    return shrink(space, points, found, model)
