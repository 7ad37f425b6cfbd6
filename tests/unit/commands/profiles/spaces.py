"""Spaces and traffic for the tests of this folder."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from aotc.commands.profiles.profile_routing import serve
from aotc.commands.profiles.size_space import Axis, Counts, Points, Space
from aotc_runtime.schema.bundle_manifest import OutOfProfilePolicy

PAD, FAIL = OutOfProfilePolicy.PAD, OutOfProfilePolicy.FAIL
SPLIT = OutOfProfilePolicy.SPLIT


def space(
    *axes: tuple[str, int],
    relations: tuple[str, ...] = (),
    policy: OutOfProfilePolicy = PAD,
    policies: Mapping[str, OutOfProfilePolicy] | None = None,
    multiple_of: int = 1,
) -> Space:
    """Dimensions from 1 up to a size each, all with one policy but those in `policies`."""
    policies = policies or {}
    made = tuple(Axis(n, 1, most, multiple_of, policies.get(n, policy)) for n, most in sorted(axes))
    return Space("encode", made, relations, ())


def random_traffic(seed: int, number: int, *most: int) -> tuple[Points, Counts]:
    """Distinct points with uneven counts."""
    random = np.random.default_rng(seed)
    columns = [random.integers(1, limit + 1, number) for limit in most]
    points = np.unique(np.stack(columns, axis=1), axis=0)
    return points, random.integers(1, 50, len(points)) ** 2


def best_of_all(
    within: Space, points: Points, counts: Counts, most: int, profiles: Points
) -> tuple[int, float]:
    """Requests covered and cost of the best set, by trying all sets of these profiles."""
    profiles = profiles[within.are_related(profiles)]
    found = []
    for chosen in combinations(range(len(profiles)), min(most, len(profiles))):
        served = serve(within, points, counts, profiles[list(chosen)])
        found.append((-served.covered, served.padded_elements))
    covered, cost = min(found)
    return -covered, cost
