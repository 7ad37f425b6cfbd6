"""What requests cost, also those that may be split into several calls: the loader's decisions, for
many requests and thousands of sets of profiles.

The loader looks for a split only where no single call serves, and tries the dimensions in order.
Its parts depend on the total and on which sizes there are to choose from, so they are worked out
once for each such choice, by its own `add_up`. A single call is a sum of one part: it needs no
treatment of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aotc.commands.profiles.traffic.call_cost import Costs
from aotc.commands.profiles.traffic.profile_routing import assign
from aotc.commands.profiles.traffic.size_space import Points, Space
from aotc_runtime.serving.routing.router import add_up

KEPT_MAX = 4096
"""Choices of sizes whose sums are remembered."""

type Counted = NDArray[np.float64]


@dataclass(slots=True)
class _Along:
    """Requests by their size in one dimension that is split, and by the others.

    column: of the dimension.  totals: int64[t], distinct sizes.  others: int64[g, d], distinct rows
    with 1 in the column.  total_of, other_of: int64[n].  known: by the sizes to choose from, how
    many of each make each total; nan where none do.
    """

    column: int
    totals: NDArray[np.int64]
    others: Points
    total_of: NDArray[np.int64]
    other_of: NDArray[np.int64]
    known: dict[tuple[int, ...], Counted] = field(default_factory=dict)

    def parts(self, pieces: tuple[int, ...]) -> Counted:
        """float64[t, len(pieces)]."""
        found = self.known.get(pieces)
        if found is None:
            rows = [add_up(total, pieces) for total in self.totals.tolist()]
            found = np.array(
                [
                    [np.nan if row is None else float(row.count(piece)) for piece in pieces]
                    for row in rows
                ]
            )
            if len(self.known) >= KEPT_MAX:
                self.known.clear()
            self.known[pieces] = found
        return found


class Requests:
    """Points of a space, in which dimensions may be split."""

    def __init__(self, space: Space, points: Points) -> None:
        self._space, self._points = space, points
        self._along = [
            _along(points, column) for column, axis in enumerate(space.axes) if axis.splits
        ]

    def costs(self, profiles: Points, costs: Costs) -> Costs:
        """float64[n]: what each request costs; inf where it is refused. costs: of the profiles."""
        if not self._along and len(profiles):
            by = assign(self._space, self._points, profiles, costs)
            return np.where(by >= 0, costs[by], np.inf)
        paid = np.full(len(self._points), np.inf)
        for along in self._along:
            left = np.isinf(paid)
            paid[left] = self._by_parts(along, profiles, costs)[along.other_of, along.total_of][
                left
            ]
        return paid

    def _by_parts(self, along: _Along, profiles: Points, costs: Costs) -> Costs:
        """float64[g, t]."""
        found = np.full((len(along.others), len(along.totals)), np.inf)
        pieces = np.unique(profiles[:, along.column])
        if not len(pieces):
            return found
        asked = np.repeat(along.others, len(pieces), axis=0)
        asked[:, along.column] = np.tile(pieces, len(along.others))
        by = assign(self._space, asked, profiles, costs)
        each = np.where(by >= 0, costs[by], np.inf).reshape(len(along.others), len(pieces))
        is_there = np.isfinite(each)
        alike: dict[bytes, list[int]] = {}
        for row, pattern in enumerate(is_there):
            alike.setdefault(pattern.tobytes(), []).append(row)
        for rows in alike.values():
            pattern = is_there[rows[0]]
            if pattern.any():
                numbers = along.parts(tuple(pieces[pattern].tolist()))
                found[rows] = each[rows][:, pattern] @ numbers.T
        found[np.isnan(found)] = np.inf
        return found


def _along(points: Points, column: int) -> _Along:
    totals, total_of = np.unique(points[:, column], return_inverse=True)
    beside = points.copy()
    beside[:, column] = 1
    others, other_of = np.unique(beside, axis=0, return_inverse=True)
    return _Along(column, totals, others, total_of.ravel(), other_of.ravel())
