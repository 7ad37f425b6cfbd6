"""Routes of a call: exactly, padded to the cheapest profile, or in parts that add up."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc_runtime.schema.bundle_manifest import OutOfProfilePolicy, ProfileRecord
from aotc_runtime.serving.routing.router import (
    PARTS_MAX,
    SUMS_MAX,
    Direct,
    Parts,
    add_up,
    router_of,
)

from ...samples import PROFILE

PAD, SPLIT = OutOfProfilePolicy.PAD, OutOfProfilePolicy.SPLIT


def profile(flops: int | None = None, bytes_accessed: int = 0, **sizes: int) -> ProfileRecord:
    batch, seq = sizes.get("batch", 1), sizes.get("seq", 1)
    cost = {
        "flops": batch * seq if flops is None else flops,
        "transcendentals": 0,
        "bytes_accessed": bytes_accessed,
    }
    change: dict[str, Any] = {"sizes": sizes, "input_shapes": [[batch, seq]], "cost": cost}
    return msgspec.convert({**json.loads(json.dumps(PROFILE)), **change}, ProfileRecord)


def test_the_profile_of_the_very_sizes_is_taken_even_if_another_is_cheaper() -> None:
    router = router_of([profile(flops=1, batch=8), profile(flops=9, batch=4)], {"batch": PAD})
    assert router.choose({"batch": 4}) == Direct(1, {"batch": 4})


def test_the_cheapest_profile_that_covers_the_call_is_padded_to() -> None:
    profiles = [profile(batch=8, seq=16), profile(batch=2, seq=65), profile(batch=16, seq=64)]
    router = router_of(profiles, {"batch": PAD, "seq": PAD})
    assert router.choose({"batch": 1, "seq": 10}) == Direct(0, {"batch": 1, "seq": 10})
    assert router.choose({"batch": 2, "seq": 17}) == Direct(1, {"batch": 2, "seq": 17})
    assert router.choose({"batch": 3, "seq": 17}) == Direct(2, {"batch": 3, "seq": 17})
    assert router.choose({"batch": 17, "seq": 17}) is None


def test_equal_flops_are_decided_by_bytes_then_elements_then_sizes() -> None:
    policies = {"batch": PAD, "seq": PAD}
    for better, worse in (
        (profile(flops=5, bytes_accessed=1, batch=9), profile(flops=5, bytes_accessed=2, batch=8)),
        (profile(flops=5, batch=8), profile(flops=5, batch=9)),
        (profile(flops=5, batch=8, seq=9), profile(flops=5, batch=9, seq=8)),
    ):
        sizes = dict.fromkeys(better.sizes, 3)
        assert router_of([worse, better], policies).choose(sizes) == Direct(1, sizes)
        assert router_of([better, worse], policies).choose(sizes) == Direct(0, sizes)


def test_a_dimension_is_padded_or_split_by_its_own_policy_alone() -> None:
    padded = router_of([profile(batch=8)], {"batch": PAD})
    assert padded.split == [] and padded.choose({"batch": 16}) is None
    split = router_of([profile(batch=8)], {"batch": SPLIT})
    assert split.split == ["batch"] and split.choose({"batch": 7}) is None
    assert split.choose({"batch": 16}) is not None


def test_a_dimension_that_fails_is_never_padded() -> None:
    router = router_of([profile(batch=8, seq=16)], {"seq": PAD})
    assert router.choose({"batch": 8, "seq": 3}) == Direct(0, {"batch": 8, "seq": 3})
    assert router.choose({"batch": 7, "seq": 16}) is None


def test_a_split_takes_the_largest_parts_first_each_padded_where_it_may_be() -> None:
    profiles = [profile(batch=b, seq=s) for b in (1, 4) for s in (8, 16)]
    router = router_of(profiles, {"batch": SPLIT, "seq": PAD})
    route = router.choose({"batch": 9, "seq": 10})
    assert isinstance(route, Parts) and route.dimension == "batch"
    assert [(call.profile, call.sizes["batch"]) for call in route.calls] == [(3, 4), (3, 4), (1, 1)]
    assert all(call.sizes["seq"] == 10 for call in route.calls)
    assert router.choose({"batch": 9, "seq": 17}) is None
    assert router.pieces({"batch": 9, "seq": 10}, "batch") == {1: 1, 4: 3}


@given(st.integers(1, 200), st.sets(st.integers(1, 40), min_size=1, max_size=4))
def test_parts_add_up_with_as_many_large_ones_as_possible(total: int, pieces: set[int]) -> None:
    def best(rest: int, sizes: list[int]) -> list[int] | None:
        if not sizes:
            return [] if rest == 0 else None
        for count in range(rest // sizes[0], -1, -1):
            tail = best(rest - count * sizes[0], sizes[1:])
            if tail is not None:
                return [sizes[0]] * count + tail
        return None

    assert add_up(total, pieces) == best(total, sorted(pieces, reverse=True))


@pytest.mark.parametrize("total", [10**18, 8 * PARTS_MAX + 8])
def test_a_call_is_not_split_into_thousands(total: int) -> None:
    assert add_up(total, {8}) is None
    assert add_up(8 * PARTS_MAX, {8}) == [8] * PARTS_MAX


def test_parts_are_counted_whatever_they_add_up_to() -> None:
    """Within so many of the largest; but an odd rest takes as many of the smallest again."""
    pieces = {3 * PARTS_MAX, 3}
    assert add_up(3 * PARTS_MAX * 3 - 3, pieces) is None
    assert add_up(3 * PARTS_MAX * 3 + 3, pieces) == [3 * PARTS_MAX] * 3 + [3]


def test_large_profiles_are_added_up_at_once() -> None:
    assert add_up(4096 * 100 + 17, {1, 4096}) == [4096] * 100 + [1] * 17
    assert add_up(10**9 + 1, {10**9, 10**9 - 1}) is None
    assert add_up(SUMS_MAX, {SUMS_MAX - 1, 1}) == [SUMS_MAX - 1, 1]
    assert add_up(SUMS_MAX + 1, {SUMS_MAX, 1}) is None, "although these two add up to it"
    assert add_up(7, set()) is None
