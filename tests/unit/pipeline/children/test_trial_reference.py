"""Value trials of an executable, by numbers that are the same in every build."""

import pytest

from aotc.check.trial_inputs import KINDS
from aotc.pipeline.children.trial_reference import BYTES_MAX, MOST_TELLING, too_large, without_end


def _skipped(flops: int, size: int = 1, *, has_loops: bool = False) -> set[str]:
    return {*too_large(size, lambda: flops, has_loops=has_loops)}


@pytest.mark.parametrize(
    ("flops", "left"), [(0, 6), (10**9, 6), (3 * 10**10, 3), (10**12, 1), (2 * 10**12, 0)]
)
def test_large_calls_get_fewer_trials(flops: int, left: int) -> None:
    assert {*KINDS} - _skipped(flops) == {*MOST_TELLING[:left]}


def test_programs_with_loops_of_unknown_length_get_two() -> None:
    assert {*KINDS} - _skipped(1, has_loops=True) == {"nan", "magnitudes"}


def test_calls_of_many_bytes_get_none() -> None:
    assert _skipped(1, BYTES_MAX + 1) == {*KINDS}


def test_every_kind_has_its_place_in_the_order() -> None:
    assert sorted(MOST_TELLING) == sorted(KINDS)


def test_singular_values_are_asked_of_no_infinite_matrix() -> None:
    """LAPACK would never answer."""
    assert {*without_end(["lapack_sgesdd_ffi"])} == {*without_end(["x", "lapack_zgesvd_ffi"])}
    assert {*without_end(["lapack_sgesdd_ffi"])} == {"infinite", "extreme"}
    assert without_end(["lapack_sgeqrf_ffi", "lapack_ssyevd_ffi"]) == {}
