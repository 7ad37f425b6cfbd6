"""Profiles where a dimension is split: counted as the loader does, chosen for what that costs."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from aotc.commands.profiles.profile_choice import _requests, choose
from aotc.commands.profiles.profile_routing import by_model, calls_of, serve
from aotc.commands.profiles.size_space import elements
from aotc.commands.profiles.traffic_check import Calls, check_traffic
from aotc.commands.profiles.traffic_log import Traffic
from aotc_runtime.serving.routing.router import Router
from tests.unit.commands.profiles import spaces

WORK = spaces.polynomial([[0, 0], [1, 1], [1, 2]], [300.0, 40.0, 3.0])
POLICIES = [
    {"batch": spaces.SPLIT, "seq": spaces.PAD},
    {"batch": spaces.SPLIT, "seq": spaces.FAIL},
    {"batch": spaces.SPLIT, "seq": spaces.SPLIT},
    {"batch": spaces.PAD, "seq": spaces.PAD},
]


@pytest.mark.parametrize("policies", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_requests_are_counted_as_the_loader_routes(seed: int, policies: dict[str, str]) -> None:
    within = spaces.space(("batch", 14), ("seq", 12), policies=policies)
    points, counts = spaces.random_traffic(seed, 60, 14, 12)
    profiles, _ = spaces.random_traffic(seed + 100, 5, 6, 12)
    costs = WORK.costs(profiles)
    router = Router(
        [within.sizes(row) for row in profiles], by_model(profiles, costs).tolist(), within.policies
    )
    served = serve(within, points, counts, profiles, WORK)
    expected = np.zeros((len(points), len(profiles)), dtype=np.int64)
    for index, point in enumerate(points):
        for call in calls_of(router.choose(within.sizes(point))):
            expected[index, call.profile] += 1
    assert (served.calls[served.of_route] == expected).all()
    assert served.padded_cost == pytest.approx(float(counts @ expected @ costs))
    assert served.calls_by_profile.tolist() == (counts @ expected).tolist()
    assert served.split == counts[expected.sum(axis=1) > 1].sum()


@pytest.mark.parametrize("policies", POLICIES[:3])
@pytest.mark.parametrize("seed", range(6))
def test_the_search_pays_what_the_loader_would(seed: int, policies: dict[str, str]) -> None:
    within = spaces.space(("batch", 14), ("seq", 12), policies=policies)
    points, counts = spaces.random_traffic(seed, 60, 14, 12)
    profiles, _ = spaces.random_traffic(seed + 100, 6, 6, 12)
    requests = _requests(within, points, counts, WORK)
    served = serve(within, points, counts, profiles, WORK)
    loader = counts * (served.calls @ WORK.costs(profiles))[served.of_route]
    expected = np.where(served.is_covered, loader, requests.refused)
    assert requests.paid(profiles) == pytest.approx(expected)


@pytest.mark.parametrize("policies", POLICIES[:3])
@pytest.mark.parametrize("seed", range(4))
def test_the_choice_is_nearly_the_best_of_all_sets(seed: int, policies: dict[str, str]) -> None:
    within = spaces.space(("batch", 5), ("seq", 4), policies=policies)
    points, counts = spaces.random_traffic(seed, 12, 5, 4)
    most = 2 + seed % 2
    # All that could serve parts of these points.
    every = np.array(list(product(range(1, 6), range(1, 5))), dtype=np.int64)
    every = every[(every <= points.max(axis=0)).all(axis=1)]
    covered, optimum = spaces.best_of_all(within, points, counts, WORK, most, every)
    choice = choose(within, points, counts, WORK, most)
    served = serve(within, points, counts, choice.profiles, WORK)
    assert served.covered == covered
    assert len(choice.profiles) <= most
    assert optimum <= served.padded_cost * (1 + 1e-9) <= optimum * 1.05


def test_sizes_that_no_call_has_are_chosen_where_they_add_up_to_those_it_has() -> None:
    within = spaces.space(("batch", 10), policy=spaces.SPLIT)
    model = spaces.polynomial([[0], [1]], [5.0, 1.0])
    choice = choose(within, np.array([[6], [10]]), np.array([3, 1]), model, 1)
    assert choice.profiles.tolist() == [[2]]


def test_of_equal_costs_the_one_with_fewer_calls_is_chosen() -> None:
    within = spaces.space(("batch", 40), policy=spaces.SPLIT)
    choice = choose(within, np.array([[1], [9], [40]]), np.array([9, 5, 1]), elements(1), 3)
    assert choice.profiles.ravel().tolist() == [1, 9, 40]


def test_the_smallest_size_that_is_served_today_stays_served() -> None:
    points, counts = np.array([[8, 16], [16, 16], [24, 32]]), np.array([90, 5, 5])
    within = spaces.space(("batch", 64), ("seq", 64), policies={"batch": spaces.SPLIT})
    assert choose(within, points, counts, WORK, 3).profiles[:, 0].min() == 8
    today = replace(within, profiles=({"batch": 1, "seq": 32}, {"batch": 8, "seq": 64}))
    choice = choose(today, points, counts, WORK, 3)
    every = np.array([[size, 32] for size in range(1, 65)])
    served = serve(today, every, np.ones(64, dtype=np.int64), choice.profiles, WORK)
    assert served.covered == 64


def test_a_bundle_that_splits_covers_what_its_profiles_add_up_to() -> None:
    within = replace(
        spaces.space(("batch", 64), ("seq", 100), policies={"batch": spaces.SPLIT}),
        profiles=({"batch": 1, "seq": 50}, {"batch": 8, "seq": 50}),
    )
    calls = Traffic(np.array([[19, 50], [9, 25], [8, 50], [3, 60]]), np.array([2, 3, 5, 1]))
    checked = check_traffic(within, calls, "cpu")
    served = checked.served
    counted = checked.requests, served.covered, served.split, served.calls_by_profile.sum()
    assert counted == (11, 10, 5, 21)
    (offender,) = checked.padded
    assert offender.served_by == (
        Calls({"batch": 1, "seq": 50}, 1),
        Calls({"batch": 8, "seq": 50}, 1),
    )
    assert offender.overhead == pytest.approx(1.0)
    assert checked.uncovered[0].reason == "no profile fits, nor do any add up to it"
