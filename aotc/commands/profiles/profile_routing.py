"""Choice of a call's profile and its padding, by the rules of the loader's router."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aotc.commands.profiles.size_space import Counts, Points, Space, elements
from aotc_runtime.serving.routing.router import Direct, Route, Router

CELLS_MAX = 2**22
"""Cells of a table of points by profiles that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Served:
    """The service of some traffic by a set of profiles.

    of_route: int64[n], the route of each point; requests that are alike to the loader share one.
    calls: int64[routes, k], how many calls of each profile a request of a route is.
    requests, covered, split: counts.  elements, padded_elements: of the covered requests as asked
    for, and as served.  calls_by_profile: int64[k].
    """

    of_route: NDArray[np.int64]
    calls: NDArray[np.int64]
    requests: int
    covered: int
    split: int
    elements: float
    padded_elements: float
    calls_by_profile: NDArray[np.int64]

    @property
    def is_covered(self) -> NDArray[np.bool_]:
        """bool[n]."""
        found: NDArray[np.bool_] = self.calls.any(axis=1)[self.of_route]
        return found

    @property
    def padding(self) -> float:
        """Return the number of padding elements per requested element."""
        return self.padded_elements / self.elements - 1 if self.elements else 0.0


def can_serve(space: Space, points: Points, profiles: Points) -> NDArray[np.bool_]:
    """Return bool[n, k]: whether one call of a profile serves a point.

    Sizes are equal in every dimension, or smaller in a padded one.
    """
    fits = np.ones((len(points), len(profiles)), dtype=bool)
    for column, axis in enumerate(space.axes):
        sizes, limits = points[:, column, None], profiles[None, :, column]
        fits &= sizes <= limits if axis.pads else sizes == limits
    return fits


def assign(space: Space, points: Points, profiles: Points) -> NDArray[np.int64]:
    """Return int64[n]: the cheapest profile that serves each point in one call, -1 for none.

    The smallest of equals is taken. Searches call it thousands of times; `serve` uses the loader's
    own router.
    """
    by = np.full(len(points), -1, dtype=np.int64)
    if not len(profiles):
        return by
    order = by_cost(profiles)
    step = max(1, CELLS_MAX // len(profiles))
    for start in range(0, len(points), step):
        fits = can_serve(space, points[start : start + step], profiles[order])
        first = fits.argmax(axis=1)
        by[start : start + step] = np.where(fits.any(axis=1), order[first], -1)
    return by


def by_cost(profiles: Points) -> NDArray[np.int64]:
    """Return the numbers of these profiles, the cheapest first, the smallest of equals."""
    order: NDArray[np.int64] = np.lexsort((*profiles.T[::-1], elements(profiles)))
    return order


def serve(
    space: Space,
    points: Points,
    counts: Counts,
    profiles: Points,
    order: Sequence[int] | None = None,
) -> Served:
    """Return how these profiles serve this traffic, which the space accepts.

    order: of the profiles' numbers as the loader tries them; the cheapest first if not given.
    """
    tried = by_cost(profiles).tolist() if order is None else order
    router = Router([space.sizes(row) for row in profiles], tried, space.policies)
    first, of_route = _alike(space, points, profiles)
    calls = np.zeros((len(first), len(profiles)), dtype=np.int64)
    for number, index in enumerate(first):
        for call in calls_of(router.choose(space.sizes(points[index]))):
            calls[number, call.profile] += 1
    times = np.zeros(len(first), dtype=np.int64)
    np.add.at(times, of_route, counts)
    each = calls.sum(axis=1)
    covered = (each > 0)[of_route]
    weights = counts[covered].astype(np.float64)
    return Served(
        of_route=of_route,
        calls=calls,
        requests=int(counts.sum()),
        covered=int(times[each > 0].sum()),
        split=int(times[each > 1].sum()),
        elements=float(weights @ elements(points[covered])),
        padded_elements=float(times @ (calls @ elements(profiles))),
        calls_by_profile=times @ calls,
    )


def calls_of(route: Route | None) -> tuple[Direct, ...]:
    """Return the calls that a request is served by; none if it is refused."""
    if route is None:
        return ()
    return (route,) if isinstance(route, Direct) else route.calls


def _alike(
    space: Space, points: Points, profiles: Points
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return one of each group of points that the router cannot distinguish, and int64[n] groups.

    No profile's size lies between theirs in a padded dimension, and other sizes are equal.
    """
    keys = []
    for column, axis in enumerate(space.axes):
        sizes = points[:, column]
        if axis.pads:
            limits = np.unique(profiles[:, column])
            # Between two limits an odd number of either, and at a limit both.
            sizes = np.searchsorted(limits, sizes, "left") + np.searchsorted(limits, sizes, "right")
        keys.append(sizes)
    rows = np.stack(keys, axis=1)
    _, first, of_route = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, of_route.ravel()
