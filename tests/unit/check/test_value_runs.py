"""Value trials on executables: what a call leaves behind, and what fails."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.check import value_runs, value_trials
from aotc.check.value_trials import PlannedValues, ValuesRan
from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.serving.resident_bundle import ResidentBundle, ResidentProfile, make_resident
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import verify
from aotc_runtime.verification.policy_reader import read_policy

TARGET = "cpu-x86-64-v3"

type Array = np.ndarray[Any, Any]
type Execute = Callable[[ResidentProfile, list[Array]], list[Any]]


@pytest.fixture(scope="module")
def resident(digits_bundle: tuple[Path, Path]) -> ResidentBundle:
    source, policy = open_bundle(digits_bundle[0]), read_policy(digits_bundle[1])
    return make_resident(verify(source, policy, detect(), time.time()))


@pytest.fixture
def folder(resident: ResidentBundle, tmp_path: Path) -> Path:
    """A trial for each executable: the fixture's own inputs and results."""
    plans = {}
    for profile in resident.entry_points["predict"].profiles:
        views = tensor_views(resident.verified.blob(profile.record.fixture).data, "fixture")
        data = write_tensors({name: view for name, (view, _) in views.items()}, where="")
        value_trials.value_file(tmp_path, profile.key, "other").write_bytes(data)
        plans[profile.key.label] = PlannedValues(("other",))
    value_trials.plan_file(tmp_path).write(plans)
    return tmp_path


def _run(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch, execute: Execute
) -> tuple[list[ValuesRan], list[Any]]:
    monkeypatch.setattr(value_runs, "execute", execute)
    return value_runs.run_values(resident, TARGET, folder)


def test_trials_that_agree_leave_nothing_behind(resident: ResidentBundle, folder: Path) -> None:
    found, differing = value_runs.run_values(resident, TARGET, folder)
    assert not differing
    assert [each.key.label for each in found] == [f"predict[batch={size}]" for size in (1, 8, 64)]
    for each in found:
        assert (each.state, each.changed) == ("identical", None)
        assert [(trial.kind, trial.difference.within) for trial in each.trials] == [("other", True)]
    assert not [*folder.glob("found.*")]


def test_results_that_differ_are_left_for_the_judge(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = value_runs.execute
    found, differing = _run(
        resident, folder, monkeypatch, lambda p, inputs: execute(p, [inputs[0] + 1])
    )
    assert not differing
    assert not any(trial.difference.within for each in found for trial in each.trials)
    left = value_trials.found_file(folder, TARGET, found[0].key, "other")
    assert len(value_trials.read_found(left)) == 2


def test_a_result_that_changes_when_the_fixture_is_repeated_is_told(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute, calls = value_runs.execute, 0

    def drifting(profile: ResidentProfile, inputs: list[Array]) -> list[Any]:
        nonlocal calls
        calls += 1
        return execute(profile, [inputs[0] * (1 + calls * 1e-3)])

    found, _ = _run(resident, folder, monkeypatch, drifting)
    assert [each.changed for each in found] == ["probabilities"] * 3


def test_inputs_that_a_call_changes_are_told(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = value_runs.execute

    def writing(profile: ResidentProfile, inputs: list[Array]) -> list[Any]:
        results = execute(profile, inputs)
        inputs[0][0, 0] += 1
        return results

    _, differing = _run(resident, folder, monkeypatch, writing)
    assert {each.expected for each in differing} == {"an input that stays as it is"}


def test_a_call_that_fails_is_told(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(profile: ResidentProfile, inputs: list[Array]) -> list[Any]:
        raise profile.device.error("out of order")

    found, differing = _run(resident, folder, monkeypatch, failing)
    assert not any(each.trials for each in found)
    assert {each.found for each in differing} == {"out of order"}


def test_weights_that_a_call_changes_are_told(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are mapped and cannot be written to here: their digest is taken to be another."""
    monkeypatch.setattr(value_runs, "sha256", lambda data: f"sha256:{0:064}")
    _, differing = value_runs.run_values(resident, TARGET, folder)
    assert {each.where for each in differing} >= {"weights params"}
    assert {each.found for each in differing if each.where == "weights params"} == {"other ones"}
