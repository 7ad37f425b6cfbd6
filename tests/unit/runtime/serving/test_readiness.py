"""What is run before a bundle is called ready."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aotc_runtime
from aotc_runtime import LoadedEntryPoint
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.bundle_manifest import DType, KeyImpl, TensorSpec
from aotc_runtime.serving import readiness
from aotc_runtime.serving.resident_bundle import ResidentProfile


@pytest.mark.parametrize(("seconds", "is_warmed"), [(0.0, False), (60.0, True)])
def test_only_what_runs_shortly_is_called_again_to_warm_up(
    seconds: float,
    is_warmed: bool,
    digits_bundle: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warmed: list[str] = []
    warm = LoadedEntryPoint.warm

    def noted(self: LoadedEntryPoint, leaves: list[readiness.Array]) -> None:
        warmed.append(self.name)
        warm(self, leaves)

    monkeypatch.setattr(LoadedEntryPoint, "warm", noted)
    monkeypatch.setattr(readiness, "WARM_SECONDS_MAX", seconds)
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        fixtures = bundle.report()["fixtures"]
        assert len(warmed) == (len(fixtures) if is_warmed else 0)
        assert fixtures


Execute = Callable[[ResidentProfile, list[readiness.Array]], list[Any]]


def _keeping_the_first(execute: Execute) -> Execute:
    """Every call computes with the inputs of the first one: what a call left behind."""
    first: dict[str, list[readiness.Array]] = {}
    return lambda profile, inputs: execute(profile, first.setdefault(profile.label, inputs))


def _narrowing(execute: Execute) -> Execute:
    """Every call computes with the smallest of its numbers and those of earlier calls: a constant
    that calls overwrite. A second call with the same inputs shows nothing of it.
    """
    least: dict[str, list[readiness.Array]] = {}

    def called(profile: ResidentProfile, inputs: list[readiness.Array]) -> list[Any]:
        held = least.get(profile.label, inputs)
        least[profile.label] = [*map(np.minimum, held, inputs)]
        return execute(profile, least[profile.label])

    return called


def _wrong_every_third(execute: Execute) -> Execute:
    calls: Counter[str] = Counter()

    def called(profile: ResidentProfile, inputs: list[readiness.Array]) -> list[Any]:
        calls[profile.label] += 1
        wrong = calls[profile.label] % 3 == 0
        return execute(profile, [each * 0 for each in inputs] if wrong else inputs)

    return called


@pytest.mark.parametrize(
    ("doctored", "code"),
    [
        (_keeping_the_first, "AOTC-E701"),
        (_narrowing, "AOTC-E701"),
        (_wrong_every_third, "AOTC-E704"),
    ],
)
def test_results_that_depend_on_earlier_calls_are_refused(
    doctored: Callable[[Execute], Execute],
    code: str,
    digits_bundle: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readiness, "WARM_SECONDS_MAX", 60.0)
    monkeypatch.setattr(readiness, "execute", doctored(readiness.execute))
    with pytest.raises(AotcError) as caught:
        aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1])
    assert {finding.code for finding in caught.value.findings} == {code}
    assert len(caught.value.findings) == 3


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.array([True, False, False])])
def test_other_input_has_the_same_kind_and_other_numbers(array: readiness.Array) -> None:
    spec = TensorSpec(path="x", dtype=DType.FLOAT64, shape=array.shape, weak_type=False)
    other = readiness.other_input(array, spec)
    assert (other.dtype, other.shape) == (array.dtype, array.shape)
    assert (other != array).all()


def test_other_input_of_random_keys_has_other_bits() -> None:
    spec = TensorSpec(
        path="key", dtype=DType.UINT32, shape=(2,), weak_type=False, key_impl=KeyImpl.THREEFRY2X32
    )
    assert readiness.other_input(np.zeros(2, np.uint32), spec).tolist() == [2**32 - 1] * 2
