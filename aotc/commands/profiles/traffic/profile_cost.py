"""What a set of profiles is worth: the true cost of all requests, as the loader would serve them.

Whatever today's profiles serve of the smallest size of a dimension that is split, the chosen ones
serve too, since every other size may be a sum of it, those included that the traffic did not have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aotc.commands.profiles.traffic.call_cost import CostModel, Elements
from aotc.commands.profiles.traffic.profile_routing import serve
from aotc.commands.profiles.traffic.size_space import Counts, Points, Space
from aotc.commands.profiles.traffic.split_costs import Requests

type Worth = tuple[float, float, float]
"""Requests refused, then smallest sizes no longer served, then the cost: less is better."""


@dataclass(frozen=True, slots=True)
class Judge:
    """points: requests, and behind them the smallest sizes that have to stay served.  weights: of
    the requests.  per_call: added to each call's cost, too little for anything but making fewer
    calls of equals.
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

    def shrunk(self, profiles: Points) -> Points:
        """Each profile no larger than what it serves, those that serve nothing left out, sorted."""
        space, every = self.space, self.points
        ones = np.ones(len(every), dtype=np.int64)
        profiles = np.unique(profiles, axis=0)
        served = serve(space, every, ones, profiles, self.model)
        kept = []
        for index, profile in enumerate(profiles):
            mine = served.calls[served.of_route, index] > 0
            if mine.any():
                smaller = profile.copy()
                for column, axis in enumerate(space.axes):
                    if axis.pads:
                        smaller[column] = every[mine, column].max()
                kept.append(smaller if space.related(smaller[None, :])[0] else profile)
        found = np.unique(np.array(kept, dtype=np.int64).reshape(-1, every.shape[1]), axis=0)
        return found if self.worth(found) <= self.worth(profiles) else profiles


def judge(
    space: Space, points: Points, counts: Counts, smallest: Points, model: CostModel
) -> Judge:
    """A judge of these requests. smallest: what has to stay served beside them."""
    every = np.concatenate([points, smallest])
    per_call = 1e-9 * float(model.costs(points).min())
    weights = counts.astype(np.float64)
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
