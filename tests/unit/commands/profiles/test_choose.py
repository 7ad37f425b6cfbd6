"""The chosen profiles against every possible set of profiles."""

import numpy as np
import pytest

from aotc.commands.profiles.profile_choice import choose
from aotc.commands.profiles.profile_routing import serve
from aotc.commands.profiles.size_space import Counts, Points, Space, elements
from tests.unit.commands.profiles import spaces
from tests.unit.commands.profiles.spaces import FAIL, random_traffic, space


def best_of_all(within: Space, points: Points, counts: Counts, most: int) -> tuple[int, float]:
    mesh = np.meshgrid(*(np.unique(column) for column in points.T), indexing="ij")
    every = np.stack([axis.ravel() for axis in mesh], axis=1)
    return spaces.best_of_all(within, points, counts, most, every)


@pytest.mark.parametrize("seed", range(20))
def test_in_one_dimension_the_choice_is_the_best_of_all_sets(seed: int) -> None:
    most = 1 + seed % 5
    points, counts = random_traffic(seed, 14, 40)
    within = space(("seq", 40))
    choice = choose(within, points, counts, most)
    served = serve(within, points, counts, choice.profiles)
    assert (served.covered, pytest.approx(served.padded_elements)) == best_of_all(
        within, points, counts, most
    )
    assert choice.is_best


@pytest.mark.parametrize("seed", range(4))
def test_in_two_dimensions_the_choice_is_nearly_the_best_of_all_sets(seed: int) -> None:
    most = 2 + seed % 2
    points, counts = random_traffic(seed, 16, 5, 5)
    within = space(("batch", 5), ("seq", 5))
    _, optimum = best_of_all(within, points, counts, most)
    choice = choose(within, points, counts, most)
    found = serve(within, points, counts, choice.profiles)
    assert found.covered == found.requests
    assert len(choice.profiles) <= most
    assert optimum <= found.padded_elements * (1 + 1e-9) <= optimum * 1.03


@pytest.mark.parametrize("seed", range(8))
def test_few_candidates_give_a_good_choice(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traffic and search are seeded, so that each cost is the same on every machine."""
    points, counts = random_traffic(seed, 25, 6, 6)
    within = space(("batch", 6), ("seq", 6))
    _, optimum = best_of_all(within, points, counts, 2)
    monkeypatch.setattr("aotc.commands.profiles.profile_choice.CANDIDATES_MAX", 9)
    profiles = choose(within, points, counts, 2).profiles
    cost = serve(within, points, counts, profiles).padded_elements
    assert optimum <= cost * (1 + 1e-9) <= optimum * 1.08


@pytest.mark.parametrize("seed", range(6))
def test_a_profile_never_breaks_a_relation(seed: int) -> None:
    points, counts = random_traffic(seed, 30, 12, 12)
    within = space(("batch", 12), ("seq", 12), relations=("batch*seq <= 60",))
    kept = within.are_related(points)
    choice = choose(within, points[kept], counts[kept], 6)
    assert within.are_related(choice.profiles).all()
    served = serve(within, points[kept], counts[kept], choice.profiles)
    assert served.covered == served.requests


def test_a_dimension_that_is_not_padded_gets_exact_sizes() -> None:
    points = np.array([[1, 10], [1, 90], [7, 20], [7, 80]])
    within = space(("batch", 8), ("seq", 100), policies={"batch": FAIL})
    choice = choose(within, points, np.array([5, 5, 5, 5]), 2)
    assert choice.profiles.tolist() == [[1, 90], [7, 80]]


def test_covering_everything_comes_before_a_low_cost() -> None:
    points = np.array([[1], [1000]])
    choice = choose(space(("seq", 1000)), points, np.array([10**9, 1]), 1)
    assert choice.profiles.tolist() == [[1000]]


def test_twenty_thousand_different_sizes_are_within_reach() -> None:
    sizes = np.arange(1, 20_001)[:, None]
    choice = choose(space(("seq", 20_000)), sizes, np.ones(20_000, dtype=np.int64), 4)
    assert choice.profiles.ravel().tolist() == [5000, 10000, 15000, 20000]


def test_more_profiles_than_sizes_are_not_made_up() -> None:
    points, counts = random_traffic(1, 4, 9, 9)
    choice = choose(space(("batch", 9), ("seq", 9)), points, counts, 64)
    assert len(choice.profiles) <= len(points)
    cost = serve(space(("batch", 9), ("seq", 9)), points, counts, choice.profiles)
    assert cost.padded_elements == pytest.approx(float(counts @ elements(points)))
