"""Outcomes of the parity process: passed, beyond tolerance, crashed, refused, not run."""

import math
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from aotc.base.child_processes import Processes
from aotc.base.errors import EngineFailedError, ParityError, finding
from aotc.base.workers.worker_child import ANSWER, FINDINGS
from aotc.bundle.trust.trust_text import policy_text
from aotc.check import parity_process
from aotc.check.trial_records import Call, Outcome, Trial, found_file
from aotc.check.trial_truth import Verdict
from aotc.check.trial_verdict import Repeat
from aotc.pipeline.parity_check import TruthProcess
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.schema.bundle_manifest import ParityNotRun
from aotc_runtime.schema.manifest_labels import ExecutableKey
from aotc_runtime.serving.readiness import Difference
from tests.conftest import ROOT
from tests.refusals import error_of
from tests.running import printed
from tests.unit.runtime.samples import manifest

GOLDEN = ROOT / "tests" / "golden"
FINDING = {
    "code": "AOTC-E503",
    "where": "host",
    "expected": "avx512f",
    "found": "none",
    "hint": "rebuild",
}
KEY = ExecutableKey("predict", (("batch", 8),))
CLOSE = Difference(0.25, 0.5, 7, 80, within=True, excess=0.5, worst="label")
FAR = replace(CLOSE, within=False, excess=2.0)


def fixture(difference: Difference, key: ExecutableKey = KEY) -> Outcome:
    return Outcome(Trial(Call(key)), difference)


def answered(script: str, tmp_path: Path, **options: Any) -> parity_process.Ran:
    """Run a shell script in place of the worker."""
    command = tmp_path / "worker"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return parity_process.run(
        tmp_path / "b.aotb",
        tmp_path / "trust.toml",
        "cpu-x86-64-v3",
        tmp_path,
        Processes(),
        worker=[str(command)],
        **options,
    )


def answer(**parts: Any) -> str:
    """A script that leaves this answer in its last argument, the folder."""
    return leaving(ANSWER, msgspec.msgpack.encode(parity_process.Answer(**parts)))


def leaving(name: str, data: bytes) -> str:
    octal = "".join(f"\\{byte:03o}" for byte in data)
    return f"for folder; do :; done; printf '{octal}' > \"$folder/{name}\""


def refused(script: str, tmp_path: Path) -> ParityError:
    return error_of(ParityError, answered, script, tmp_path)


def test_results_within_tolerance_are_recorded_with_their_errors(tmp_path: Path) -> None:
    outcomes = answered(answer(outcomes=[fixture(CLOSE)]), tmp_path)
    assert outcomes == parity_process.Ran((fixture(CLOSE),))


def test_what_a_caller_gets_otherwise_than_from_plain_jax_is_a_failure(tmp_path: Path) -> None:
    differing = [finding("AOTC-E959", "predict result", "a list", expected="a tuple")]
    error = refused(answer(differing=differing, outcomes=[fixture(CLOSE)]), tmp_path)
    (found,) = error.findings
    assert (found.code, found.where) == ("AOTC-E959", "predict result for cpu-x86-64-v3")
    assert "a tuple" in found.expected and "a list" in found.found


def test_every_result_beyond_its_tolerance_is_reported(tmp_path: Path) -> None:
    outcomes = [
        fixture(CLOSE),
        fixture(FAR, ExecutableKey("predict", (("batch", 64),))),
        fixture(replace(FAR, max_abs=math.inf), ExecutableKey("f")),
    ]
    error = refused(answer(outcomes=outcomes), tmp_path)
    assert type(error) is EngineFailedError
    assert [finding.code for finding in error.findings] == ["AOTC-E951", "AOTC-E951"]
    assert error.exit_code == 8
    assert error.findings[0].where == "predict[batch=64] for cpu-x86-64-v3, output label"
    assert "max abs error inf" in error.findings[1].found


def test_a_wrong_result_of_plain_jax_is_no_failure_of_the_engine(tmp_path: Path) -> None:
    verdicts = [Verdict("label", True, 80, opinion="plain JAX")]
    with pytest.raises(ParityError) as caught:
        answered(answer(outcomes=[fixture(FAR)]), tmp_path, ask_verdicts=lambda _: verdicts)
    assert type(caught.value) is ParityError
    assert "plain JAX is wrong" in caught.value.findings[0].hint


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("kill -SEGV $$", "SIGSEGV"),
        ("kill -KILL $$", "SIGKILL"),
        ("kill -ILL $$", "SIGILL"),
        ("echo 'terminate called' >&2; kill -ABRT $$", "terminate called"),
        ("exit 3", "exit status 3"),
        (leaving(ANSWER, b"{"), "an invalid answer of the process"),
        (leaving(ANSWER, b"\xff"), "an invalid answer of the process"),
        ("exit 0", "an invalid answer of the process"),
    ],
)
def test_a_crash_of_the_process_is_a_failed_build(tmp_path: Path, script: str, found: str) -> None:
    error = refused(script, tmp_path)
    assert (error.code, error.exit_code) == ("AOTC-E952", 8)
    assert found in error.findings[0].found


def test_endless_fixture_fails_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity_process, "SECONDS_MAX", 0.2)
    assert refused("exec sleep 60", tmp_path).code == "AOTC-E952"


def test_a_crash_of_the_float64_process_is_no_wrong_result(tmp_path: Path) -> None:
    truth = TruthProcess(Scratch(tmp_path), Processes(), manifest())
    found_file(tmp_path, truth.target, Call(KEY, "extreme")).write([])
    (found,) = error_of(ParityError, truth, [Call(KEY, "extreme")]).findings
    assert (found.code, found.title) == ("AOTC-E952", "float64 process failed")
    assert found.where == "predict[batch=8] with the inputs extreme for cpu-x86-64-v3"
    assert found.found.startswith("exit status 1") and "FileNotFoundError" in found.found
    assert truth([Call(KEY), Call(KEY, "nan")]) == [Verdict("", False, 0)] * 2


def test_a_bundle_that_the_runtime_refuses_is_a_failed_build_with_its_code(tmp_path: Path) -> None:
    failed = FINDING | {"code": "AOTC-E201", "found": "another digest"}
    script = leaving(FINDINGS, msgspec.json.encode([failed])) + "; exit 5"
    error = refused(script, tmp_path)
    assert (error.code, error.exit_code) == ("AOTC-E953", 8)
    assert error.findings[0].found == "AOTC-E201: another digest"


@pytest.mark.parametrize(
    ("code", "title"),
    [("AOTC-E753", "engine cannot load its executable"), ("AOTC-E755", "engine fails at a call")],
)
def test_an_engine_that_fails_is_named_as_such(tmp_path: Path, code: str, title: str) -> None:
    failed = FINDING | {"code": code, "found": "no buffer"}
    script = leaving(FINDINGS, msgspec.json.encode([failed])) + "; exit 5"
    error = refused(script, tmp_path)
    assert type(error) is EngineFailedError
    assert (error.code, error.exit_code) == ("AOTC-E953", 8)
    assert (error.findings[0].title, error.findings[0].found) == (title, "no buffer")


def test_an_engine_that_fails_at_a_trial_fails_at_a_call(tmp_path: Path) -> None:
    cause = parity_process.AT_A_CALL
    failed = finding("AOTC-E953", "f with the inputs nan", "no buffer", cause=cause)
    other = finding("AOTC-E959", "f result", "a list", expected="a tuple")
    caught = error_of(EngineFailedError, answered, answer(differing=[failed]), tmp_path)
    assert caught.findings[0].title == "engine fails at a call"
    both = error_of(ParityError, answered, answer(differing=[failed, other]), tmp_path)
    assert type(both) is ParityError
    assert [each.code for each in both.findings] == ["AOTC-E953", "AOTC-E959"]


def test_a_host_that_is_not_suited_is_recorded_as_not_run_with_the_reasons(tmp_path: Path) -> None:
    unsuited = [FINDING, FINDING | {"expected": "8 devices"}]
    outcome = answered(answer(unsuited=unsuited), tmp_path)
    why = ParityNotRun(reason="expected avx512f; expected 8 devices")
    assert outcome == parity_process.Ran(not_run=why, lasting=True)
    unsuited[1]["code"] = "AOTC-E551"  # it has no memory left now, and may have it later
    assert answered(answer(unsuited=unsuited), tmp_path) == parity_process.Ran(
        not_run=why, lasting=False
    )


def test_environment_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    monkeypatch.setenv("TF_CPP_MAX_VLOG_LEVEL", "9")
    environment = tmp_path / "environment"
    answered(f"env > {environment}; {answer(outcomes=[fixture(CLOSE)])}", tmp_path)
    names = {line.partition("=")[0] for line in environment.read_text().splitlines()}
    assert not names & {"XLA_FLAGS", "TF_CPP_MAX_VLOG_LEVEL"}
    assert "PATH" in names or "PATH" not in os.environ


TRIED = """
import socket, sys

def tried(work):
    try:
        work()
    except PermissionError:
        return "refused"
    return "done"

def begin(*_):
    key = sys.argv[-1]
    works = (lambda: open(key).read()), socket.socket, (lambda: open(key + ".more", "w"))
    print(*map(tried, works))
    sys.exit()

secrets = (sys.argv[-1],)
"""
"""Permissions of a process that runs executables, when it starts its engine."""

PARITY = """
from aotc.check import parity_worker
from aotc.check.parity_process import Job

parity_worker.detect_all = begin
parity_worker.outcome(Job(*sys.argv[1:-1], secrets), None)
"""

TRUTH = """
from msgspec.msgpack import encode
from aotc.pipeline.children.program_worker import Job, Scratch, run
from aotc.pipeline.parity_check import TRUTH_WORKER, TruthJob

Scratch.program = property(begin)
run(Job(TRUTH_WORKER, sys.argv[-2], encode(TruthJob("", (), {}, ())), secrets=secrets), None)
"""


@pytest.mark.parametrize("worker", [PARITY, TRUTH], ids=["parity", "truth"])
def test_executables_for_processors_run_confined(worker: str, tmp_path: Path) -> None:
    key, policy, folder = (tmp_path / name for name in ("release.key", "trust.toml", "folder"))
    key.write_text("secret")
    folder.mkdir()
    public = (GOLDEN / "golden.pub").read_text()
    policy.write_text(policy_text("digits", [public]))
    arguments = [GOLDEN / "digits.aotb", policy, "cpu-x86-64-v3", folder, key]
    assert printed(TRIED + worker, *arguments).split() == ["refused"] * 3


def test_results_that_vary_between_calls_fail_the_build(tmp_path: Path) -> None:
    varying = Repeat(KEY, is_identical=False, changed="probabilities")
    (finding,) = refused(answer(repeats=[varying]), tmp_path).findings
    assert finding.code == "AOTC-E959"
    assert finding.where == "predict[batch=8] for cpu-x86-64-v3, output probabilities"
