"""The profiles that serve some traffic best: as many calls as can be, then at the least cost.

One padded dimension is solved exactly, by dynamic programming. Several dimensions, or a split one,
are a k-median problem: profiles are added greedily and exchanged (Teitz and Bart, 1968) among
candidates, judged by what the loader would make of all requests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from aotc.commands.profiles.profile_routing import assign, serve
from aotc.commands.profiles.size_space import Costs, Counts, Points, Space, elements
from aotc_runtime.serving.routing.router import add_up

CANDIDATES_MAX, SPLIT_CANDIDATES_MAX = 1024, 128
"""Profiles of a start; where a dimension is split, each costs a trial of its own."""

SIZES_MAX = 1024
"""Sizes of one dimension among which levels are chosen."""

RESTARTS = 30
"""Without any, what is found in several dimensions costs up to a tenth more."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Chosen profiles, sorted.

    `method` is how they were found. With `is_best`, no set of so many profiles with the same
    coverage costs less.
    """

    profiles: Points
    method: str
    is_best: bool


def choose(space: Space, points: Points, counts: Counts, most: int) -> Choice:
    """Choose at most `most` profiles for accepted traffic; `points` are distinct, one or more."""
    splits = any(axis.splits for axis in space.axes)
    if not splits and not any(axis.pads for axis in space.axes):
        order = np.lexsort((*points.T[::-1], -counts))[:most]
        return Choice(
            np.unique(points[order], axis=0), "exact sizes, most frequent first", is_best=True
        )
    if not splits and len(space.axes) == 1 and not space.relations:
        order = np.argsort(points[:, 0])
        ends = best_runs(counts[order].astype(np.float64), elements(points[order]), most)
        return Choice(points[order][ends], "dynamic programming", is_best=True)
    found = _Search(space, points, counts).find(most)
    return Choice(found, "greedy and exchange", is_best=False)


def best_runs(weights: NDArray[np.float64], costs: Costs, most: int) -> list[int]:
    """Return the indices of at most `most` sizes of a padded dimension with the least total cost.

    A best set has its sizes among those requested: a profile can shrink to the largest size it
    serves. The sizes fall into runs, each served by its largest. With W(i, j) the weight of sizes i
    < … <= j and C non-decreasing, the cost W(i, j) * C(j) of a run satisfies the quadrangle
    inequality: the best start of the last run grows with its end, and every row of the table is
    filled by divide and conquer in O(k n log n) (Galil and Park, 1992).

    Args:
        weights: Requests of each size, in increasing order of size.
        costs: Of a call of each size, non-decreasing.
        most: Most sizes to choose.
    """
    number = len(weights)
    before = np.concatenate([[0.0], np.cumsum(weights)])
    row = before[1:] * costs
    table: list[NDArray[np.int64]] = []
    for _ in range(1, min(most, number)):
        row, starts = _next_row(row, before, costs)
        table.append(starts)
    ends = [number - 1]
    for starts in reversed(table):
        if starts[ends[-1]] >= 0:
            ends.append(int(starts[ends[-1]]) - 1)
    return ends[::-1]


def _next_row(
    row: Costs, before: NDArray[np.float64], costs: Costs
) -> tuple[Costs, NDArray[np.int64]]:
    """Add one run to each prefix of sizes.

    `row[j]` is the least cost of sizes 0 … j so far; `starts[j]` is where its last run begins, -1
    where one more run does not help.
    """
    number = len(row)
    after, starts = row.copy(), np.full(number, -1, dtype=np.int64)
    pending = [(1, number - 1, 1, number - 1)]
    while pending:
        low, high, first, last = pending.pop()
        if low > high:
            continue
        middle = (low + high) // 2
        begins = np.arange(first, min(last, middle) + 1)
        totals = row[begins - 1] + (before[middle + 1] - before[begins]) * costs[middle]
        best = int(totals.argmin())
        if totals[best] < row[middle]:
            after[middle] = totals[best]
            starts[middle] = begins[best]
        pending.append((low, middle - 1, first, int(begins[best])))
        pending.append((middle + 1, high, int(begins[best]), last))
    return after, starts


@dataclass(frozen=True, slots=True)
class _Requests:
    """Requests, and the cost of rejecting each: more than of serving all others.

    They are followed by the smallest sizes that are served today; rejecting one costs less, but
    more than anything else. `weights` and `refused` are float64[n]. `per_call` is added to each
    call's cost, and only decides between equals for fewer calls.
    """

    space: Space
    points: Points
    weights: NDArray[np.float64]
    refused: NDArray[np.float64]
    per_call: float

    def at(self, points: Points) -> _Requests:
        """Requests as these, with other sizes; those of equal sizes as one. points: int64[n, d]."""
        distinct, of_point = np.unique(points, axis=0, return_inverse=True)
        weights = np.bincount(of_point.ravel(), self.weights, len(distinct))
        refused = np.bincount(of_point.ravel(), self.refused, len(distinct))
        return replace(self, points=distinct, weights=weights, refused=refused)

    def paid(self, profiles: Points) -> Costs:
        """float64[n]: for all requests of each size, as the loader serves them."""
        costs = elements(profiles) + self.per_call
        by = assign(self.space, self.points, profiles)
        each = np.where(by >= 0, np.append(costs, np.inf)[by], np.inf)
        for column, axis in enumerate(self.space.axes):
            if axis.splits:
                self._split(each, column, profiles, costs)
        is_served = np.isfinite(each)
        return np.where(is_served, self.weights * np.where(is_served, each, 0.0), self.refused)

    def cost(self, profiles: Points) -> float:
        return float(self.paid(profiles).sum())

    def _split(self, each: Costs, column: int, profiles: Points, costs: Costs) -> None:
        """Fill in what is served in parts along a dimension."""
        left = np.flatnonzero(np.isinf(each))
        pieces = np.unique(profiles[:, column])
        asked = np.repeat(self.points[left], len(pieces), axis=0)
        asked[:, column] = np.tile(pieces, len(left))
        by = assign(self.space, asked, profiles).reshape(len(left), len(pieces))
        patterns, pattern_of = np.unique(by >= 0, axis=0, return_inverse=True)
        for number, there in enumerate(patterns):
            rows = pattern_of.ravel() == number
            totals, of_row = np.unique(self.points[left[rows], column], return_inverse=True)
            choices = tuple(pieces[there].tolist())
            parts = np.array([_parts(total, choices) for total in totals.tolist()])[of_row]
            paid = (parts * costs[by[rows][:, there]]).sum(axis=1)
            each[left[rows]] = np.where(np.isnan(paid) | (not choices), np.inf, paid)


@lru_cache(maxsize=2**16)
def _parts(total: int, pieces: tuple[int, ...]) -> tuple[float, ...]:
    """Return how many of each piece the loader splits a total into; nan where it cannot."""
    found = add_up(total, pieces)
    return tuple(np.nan if found is None else float(found.count(piece)) for piece in pieces)


def _requests(space: Space, points: Points, counts: Counts) -> _Requests:
    """Return the requests, with the smallest size served today along each split dimension.

    Every other size may be a sum of it, including those absent from the traffic.
    """
    today = space.points(space.profiles)
    smallest = [points[:0]]
    for column, axis in enumerate(space.axes):
        if axis.splits and len(today):
            lowered = points.copy()
            lowered[:, column] = today[:, column].min()
            lowered = np.unique(lowered[space.are_related(lowered)], axis=0)
            ones = np.ones(len(lowered), dtype=np.int64)
            smallest.append(lowered[serve(space, lowered, ones, today).is_covered])
    kept = np.concatenate(smallest)
    each = elements(points)
    # One that is split is at most so many calls of a profile that costs the most.
    dear = float(counts.sum() * elements(points.max(axis=0)[None, :])[0] * points.max())
    return _Requests(
        space,
        np.concatenate([points, kept]),
        np.concatenate([counts, np.zeros(len(kept))]),
        np.concatenate([counts * dear * (len(kept) + 1), np.full(len(kept), dear)]),
        per_call=1e-9 * float(each.min()),
    )


class _Search:
    """Good profiles in several dimensions, or where one is split."""

    def __init__(self, space: Space, points: Points, counts: Counts) -> None:
        self.space = space
        self.requests = _requests(space, points, counts)
        self.splits = any(axis.splits for axis in space.axes)
        levels = _levels(space, points, counts)
        mesh = np.array(list(product(*levels)), dtype=np.int64)
        mesh = mesh[space.are_related(mesh)]
        self.candidates: Points = mesh if len(mesh) else points
        raised = self.requests.points.copy()
        for column, axis in enumerate(space.axes):
            if axis.pads:
                sizes = levels[column]
                raised[:, column] = sizes[np.searchsorted(sizes, raised[:, column])]
        self.cells = self.requests.at(raised)
        every = [] if self.splits else [self.cells.paid(each[None]) for each in self.candidates]
        self.table = np.array(every).T

    def find(self, most: int) -> Points:
        """Choose up to `most` profiles greedily, exchange them, and repeat from half of them."""
        random = np.random.default_rng(0)
        total, best = self._exchange(self._greedy([], most))
        for _ in range(0 if self.splits or len(best) < 2 else RESTARTS):
            kept = random.choice(best, size=len(best) // 2, replace=False).tolist()
            # One of those taken back is replaced by any other, or greedy steps would find it again.
            kept.append(int(random.integers(len(self.candidates))))
            total, best = min((total, best), self._exchange(self._greedy(kept, most)))
        return self._shrunk(self.candidates[best])

    def _totals(self, beside: list[int]) -> Costs:
        """float64[m]: what all requests cost with each candidate beside these."""
        if self.splits:
            rows = [self.candidates[[*beside, each]] for each in range(len(self.candidates))]
            return np.array([self.cells.cost(each) for each in rows])
        paid = self.table[:, beside].min(axis=1, initial=np.inf)
        return np.asarray(np.minimum(self.table, paid[:, None]).sum(axis=0))

    def _greedy(self, start: list[int], most: int) -> list[int]:
        chosen, total = list(start), np.inf
        while len(chosen) < most:
            totals = self._totals(chosen)
            best = int(totals.argmin())
            if totals[best] >= total:
                break
            chosen.append(best)
            total = float(totals[best])
        return chosen

    def _exchange(self, chosen: list[int]) -> tuple[float, list[int]]:
        """Replace one at a time while that helps; what all requests cost then."""
        total, before = np.inf, np.inf
        while True:
            for place in range(len(chosen)):
                totals = self._totals(chosen[:place] + chosen[place + 1 :])
                best = int(totals.argmin())
                if totals[best] < total * (1 - 1e-12):
                    chosen[place], total = best, float(totals[best])
            if total >= before:
                return total, chosen
            before = total

    def _shrunk(self, profiles: Points) -> Points:
        """Return profiles shrunk to the calls that they serve, sorted, without unused ones."""
        space, points = self.space, self.requests.points
        profiles = np.unique(profiles, axis=0)
        ones = np.ones(len(points), dtype=np.int64)
        served = serve(space, points, ones, profiles)
        kept = [points[:0]]
        for index, profile in enumerate(profiles):
            mine = points[served.calls[served.of_route, index] > 0]
            if len(mine):
                pads = [axis.pads for axis in space.axes]
                smaller = np.where(pads, mine.max(axis=0), profile)[None]
                kept.append(smaller if space.are_related(smaller)[0] else profile[None])
        found = np.unique(np.concatenate(kept), axis=0)
        return found if self.requests.cost(found) <= self.requests.cost(profiles) else profiles


def _levels(space: Space, points: Points, counts: Counts) -> list[NDArray[np.int64]]:
    """Return sorted sizes by dimension, from which about CANDIDATES_MAX profiles can be made.

    They are every size where it has to match, frequent sizes and parts of them where it is split,
    and in the others those to which sizes are raised at the least cost.
    """
    room = float(SPLIT_CANDIDATES_MAX if any(a.splits for a in space.axes) else CANDIDATES_MAX)
    levels = [np.unique(column) for column in points.T]
    loose = []
    for column, axis in enumerate(space.axes):
        if axis.splits:
            first = -(-axis.minimum // axis.multiple_of) * axis.multiple_of
            levels[column] = np.arange(first, levels[column][-1] + 1, axis.multiple_of)
        if axis.splits or axis.pads:
            loose.append(column)
        else:
            room /= len(levels[column])
    # Dimensions with few sizes keep them all, and leave their room to the others.
    for done, column in enumerate(sorted(loose, key=lambda column: len(levels[column]))):
        share = max(2, int(max(1.0, room) ** (1 / (len(loose) - done))))
        sizes = levels[column]
        if len(sizes) > share and space.axes[column].splits:
            asked, of_point = np.unique(points[:, column], return_inverse=True)
            frequent = np.argsort(-np.bincount(of_point.ravel(), counts), kind="stable")
            parts = (asked[frequent[: share // 2]], _thin(sizes, share - share // 2))
            levels[column] = np.unique(np.concatenate(parts))
        elif len(sizes) > share:
            sizes = _thin(sizes, SIZES_MAX)
            weights = np.bincount(np.searchsorted(sizes, points[:, column]), counts, len(sizes))
            levels[column] = sizes[best_runs(weights, sizes.astype(np.float64), share)]
        room /= len(levels[column])
    return levels


def _thin(sizes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return at most this many of the sizes, spread by ratio, with both ends."""
    if len(sizes) <= most:
        return sizes
    wanted = np.geomspace(sizes[0], sizes[-1], most).round().astype(np.int64)
    return np.unique(sizes[np.searchsorted(sizes, wanted).clip(0, len(sizes) - 1)])
