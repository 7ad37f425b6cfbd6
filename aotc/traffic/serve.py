"""Which profile serves which call, and what padding that takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aotc.traffic.cost import CostModel, Costs
from aotc.traffic.space import Counts, Points, Space

CELLS_MAX = 2**22
"""Of a table of points by profiles that is in memory at a time."""


@dataclass(frozen=True, slots=True)
class Served:
    """How a set of profiles serves some traffic.

    by: int64[n], the profile of each point, -1 for none.  requests, covered: counts.  elements,
    padded_elements: of the covered requests as asked for, and as served.  cost, padded_cost:
    likewise, in the model's unit.
    """

    by: NDArray[np.int64]
    requests: int
    covered: int
    elements: float
    padded_elements: float
    cost: float
    padded_cost: float

    @property
    def coverage(self) -> float:
        return self.covered / self.requests if self.requests else 1.0

    @property
    def padding(self) -> float:
        """Elements that are padding, per element asked for."""
        return self.padded_elements / self.elements - 1 if self.elements else 0.0

    @property
    def extra_cost(self) -> float:
        """Cost of the padding, per cost of exact shapes."""
        return self.padded_cost / self.cost - 1 if self.cost else 0.0


def can_serve(space: Space, points: Points, profiles: Points) -> NDArray[np.bool_]:
    """bool[n, k]: a profile serves a point that is equal in every dimension, or smaller in one
    that is padded.
    """
    fits = np.ones((len(points), len(profiles)), dtype=bool)
    for column, axis in enumerate(space.axes):
        sizes, limits = points[:, column, None], profiles[None, :, column]
        fits &= sizes <= limits if axis.pads else sizes == limits
    return fits


def assign(space: Space, points: Points, profiles: Points, costs: Costs) -> NDArray[np.int64]:
    """int64[n]: the cheapest profile that serves each point, the smallest of equals; -1 for none.

    costs: of the profiles.
    """
    by = np.full(len(points), -1, dtype=np.int64)
    if not len(profiles):
        return by
    order = np.lexsort((*profiles.T[::-1], costs))
    step = max(1, CELLS_MAX // len(profiles))
    for start in range(0, len(points), step):
        fits = can_serve(space, points[start : start + step], profiles[order])
        first = fits.argmax(axis=1)
        by[start : start + step] = np.where(fits.any(axis=1), order[first], -1)
    return by


def serve(
    space: Space, points: Points, counts: Counts, profiles: Points, model: CostModel
) -> Served:
    """How these profiles serve this traffic, all of which is within what the space accepts."""
    costs = model.of(profiles)
    by = assign(space, points, profiles, costs)
    covered = by >= 0
    weights = counts[covered].astype(np.float64)
    elements = np.prod(points[covered].astype(np.float64), axis=1)
    filled = np.prod(profiles[by[covered]].astype(np.float64), axis=1)
    return Served(
        by=by,
        requests=int(counts.sum()),
        covered=int(counts[covered].sum()),
        elements=float(weights @ elements),
        padded_elements=float(weights @ filled),
        cost=float(weights @ model.of(points[covered])),
        padded_cost=float(weights @ costs[by[covered]]),
    )
