"""Trials on executables: what a call leaves behind, and what fails."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.check import parity_trials, trial_records
from aotc.check.parity_process import Answer
from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.schema.manifest_labels import ExecutableKey
from aotc_runtime.serving.readiness import Difference
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
    trials = []
    for profile in resident.entry_points["predict"].profiles:
        views = tensor_views(resident.verified.blob(profile.record.fixture).data, "fixture")
        data = write_tensors({name: view for name, (view, _) in views.items()}, where="")
        trials.append(trial_records.Trial(trial_records.Call(profile.key, "other")))
        trial_records.call_file(tmp_path, trials[-1].call).write_bytes(data)
    entry = trial_records.EntryTrials("predict", 0.0, 0.0, trials=tuple(trials))
    trial_records.tried_file(tmp_path).write(
        {TARGET: [trial_records.TriedEntry(entry, (trial_records.PlainOutcome(),) * len(trials))]}
    )
    return tmp_path


def _run(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch, execute: Execute
) -> Answer:
    monkeypatch.setattr(parity_trials, "execute", execute)
    return parity_trials.run_trials(resident, TARGET, folder, _ready(resident))


def _ready(resident: ResidentBundle, *, within: bool = True) -> dict[ExecutableKey, Difference]:
    """The findings of readiness, by fixture."""
    found = Difference(0.0, 0.0, 0, 1, within, 0.0)
    return {each.key: found for each in resident.entry_points["predict"].profiles}


def test_fixtures_that_differ_after_another_call_differ(
    resident: ResidentBundle, folder: Path
) -> None:
    ready = _ready(resident, within=False)
    outcomes = parity_trials.run_trials(resident, TARGET, folder, ready).outcomes
    assert [each.difference.within for each in outcomes] == [False, True] * 3


def test_trials_that_agree_leave_nothing_behind(resident: ResidentBundle, folder: Path) -> None:
    answer = parity_trials.run_trials(resident, TARGET, folder, _ready(resident))
    assert not answer.differing
    labels = [f"predict[batch={size}]" for size in (1, 8, 64)]
    assert [each.key.label for each in answer.repeats] == labels
    assert all(each.is_identical and each.changed is None for each in answer.repeats)
    assert [str(each.trial.call) for each in answer.outcomes] == [
        f"{label} with the inputs {kind}" for label in labels for kind in ("fixture", "other")
    ]
    assert all(each.difference.within for each in answer.outcomes)
    assert not [*folder.glob("found.*")]


def test_results_that_differ_are_left_for_the_judge(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = parity_trials.execute
    answer = _run(resident, folder, monkeypatch, lambda p, inputs: execute(p, [inputs[0] + 1]))
    assert not answer.differing
    assert not any(each.difference.within for each in answer.outcomes)
    for each in answer.outcomes:
        assert len(trial_records.found_file(folder, TARGET, each.trial.call).read()) == 2


def test_a_result_that_changes_when_the_fixture_is_repeated_is_told(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute, calls = parity_trials.execute, 0

    def drifting(profile: ResidentProfile, inputs: list[Array]) -> list[Any]:
        nonlocal calls
        calls += 1
        return execute(profile, [inputs[0] * (1 + calls * 1e-3)])

    repeats = _run(resident, folder, monkeypatch, drifting).repeats
    assert [each.changed for each in repeats] == ["probabilities"] * 3


def test_inputs_that_a_call_changes_are_told(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = parity_trials.execute

    def writing(profile: ResidentProfile, inputs: list[Array]) -> list[Any]:
        results = execute(profile, inputs)
        inputs[0][0, 0] += 1
        return results

    differing = _run(resident, folder, monkeypatch, writing).differing
    assert {each.expected for each in differing} == {"an input that stays as it is"}


def test_a_call_that_fails_is_told(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(profile: ResidentProfile, inputs: list[Array]) -> list[Any]:
        raise profile.device.error("out of order")

    answer = _run(resident, folder, monkeypatch, failing)
    assert not answer.outcomes
    assert {(each.code, each.found) for each in answer.differing} == {("AOTC-E953", "out of order")}


def test_weights_that_a_call_changes_are_told(
    resident: ResidentBundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are mapped and cannot be written to here: their digest is taken to be another."""
    monkeypatch.setattr(parity_trials, "sha256", lambda data: f"sha256:{0:064}")
    differing = parity_trials.run_trials(resident, TARGET, folder, _ready(resident)).differing
    assert {each.where for each in differing} >= {"weights params"}
    assert {each.found for each in differing if each.where == "weights params"} == {"other ones"}
