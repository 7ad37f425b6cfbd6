"""Value trials of an executable, by numbers that are the same in every build."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aotc.base.evidence import ControlFlow
from aotc.check.value_inputs import KINDS
from aotc.pipeline.children import value_reference
from aotc.pipeline.children.value_reference import MOST_TELLING, _Trials, endless
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.schema.manifest_labels import ExecutableKey

KEY = ExecutableKey("f")


class _Counted:
    """Plain JAX whose calls have so many operations."""

    def __init__(self, flops: int) -> None:
        self._flops = flops

    def at(self, sizes: Any) -> _Counted:
        return self

    def flops(self) -> int:
        return self._flops


def _skipped(folder: Path, flops: int, size: int = 1, whiles: int = 0) -> set[str]:
    scratch = Scratch(folder)
    with scratch.fixture(KEY).open("wb") as file:
        file.truncate(size)
    profile = cast(Any, SimpleNamespace(sizes={}, control_flow=ControlFlow(whiles=whiles)))
    calls = cast(Any, SimpleNamespace(scratch=scratch))
    trials = _Trials(calls, KEY, profile, cast(Any, _Counted(flops)), cast(Any, None), (), ())
    return {*trials._too_large()}


@pytest.mark.parametrize(
    ("flops", "left"), [(0, 6), (10**9, 6), (3 * 10**10, 3), (10**12, 1), (2 * 10**12, 0)]
)
def test_large_calls_get_fewer_trials(tmp_path: Path, flops: int, left: int) -> None:
    assert {*KINDS} - _skipped(tmp_path, flops) == {*MOST_TELLING[:left]}


def test_programs_with_loops_of_unknown_length_get_two(tmp_path: Path) -> None:
    assert {*KINDS} - _skipped(tmp_path, 1, whiles=1) == {"nan", "magnitudes"}


def test_calls_of_many_bytes_get_none(tmp_path: Path) -> None:
    assert _skipped(tmp_path, 1, value_reference.BYTES_MAX + 1) == {*KINDS}


def test_every_kind_has_its_place_in_the_order() -> None:
    assert sorted(MOST_TELLING) == sorted(KINDS)


def test_singular_values_are_asked_of_no_infinite_matrix() -> None:
    """LAPACK would never answer."""
    assert {*endless(["lapack_sgesdd_ffi"])} == {*endless(["x", "lapack_zgesvd_ffi"])}
    assert {*endless(["lapack_sgesdd_ffi"])} == {"infinite", "extreme"}
    assert endless(["lapack_sgeqrf_ffi", "lapack_ssyevd_ffi"]) == {}
