"""Measuring processes may crash: what did it is left out with the reason, the others go on."""

import os
import sys
from pathlib import Path

import pytest

from aotc.base.child_processes import Processes
from aotc.base.errors import CompileError
from aotc.commands.tune import startup_measurement, tuning_search
from aotc.commands.tune.tuning_messages import Job
from aotc.pipeline.parity_check import TemporaryBundle
from aotc_runtime.schema.manifest_labels import ExecutableKey

JOB = Job(
    bundle="b",
    policy="p",
    targets=("default", "eigen", "wide"),
    executables=tuple((target, ExecutableKey("f")) for target in ("default", "eigen", "wide")),
)

WORKER = """
import os, sys
from aotc.base.workers.worker_child import answer
from aotc.commands.tune.tuning_messages import Answer, Job, Times

def measure(job, progress):
    for target in job.targets:
        progress.started(target)
        if target == "{hanging}":
            __import__("time").sleep(60)
        if target == "{crashing}":
            print("the reason", file=sys.stderr, flush=True)
            os.abort()
    progress.finished("f")
    times = [Times(key, {{target: [1.0]}}) for target, key in job.executables]
    return Answer("cpu", 2, "1", times=times)

answer(Job, measure)
"""


def outcome(folder: Path, crashing: str, hanging: str = "") -> tuple[tuning_search.Outcome, int]:
    steps: list[None] = []
    done = tuning_search.measure_job(
        JOB,
        folder,
        dict(os.environ),
        Processes(),
        lambda: steps.append(None),
        worker=[sys.executable, "-c", WORKER.format(crashing=crashing, hanging=hanging)],
        seconds_max=3 if hanging else 60,
    )
    return done, len(steps)


def test_without_a_crash_everything_is_measured_once(tmp_path: Path) -> None:
    done, steps = outcome(tmp_path, "nothing")
    assert (len(done.answer.times), done.crashed, steps) == (3, {}, 1)


def test_a_candidate_that_crashes_is_left_out_and_named(tmp_path: Path) -> None:
    done, _ = outcome(tmp_path, "eigen")
    assert done.crashed == {"eigen": "killed by SIGABRT"}
    assert [set(times.rounds) for times in done.answer.times] == [{"default"}, {"wide"}]


def test_a_candidate_that_hangs_is_left_out_too(tmp_path: Path) -> None:
    done, _ = outcome(tmp_path, "", hanging="wide")
    assert done.crashed == {"wide": "killed by SIGKILL"}
    assert [set(times.rounds) for times in done.answer.times] == [{"default"}, {"eigen"}]


def test_if_the_default_crashes_so_does_the_build_with_what_was_said(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        outcome(tmp_path, "default")
    assert caught.value.code == "AOTC-E912"
    assert caught.value.findings[0].found == "killed by SIGABRT while default\n| the reason"


STARTING = """
import sys
from aotc.base.workers.worker_child import answer

spawned, bundle, policy = sys.argv[1:4]
if bundle == "crashing":
    __import__("os").abort()
answer(type(None), lambda job, progress: (float(len(bundle)), 7))
"""


def measured(
    folder: Path, *bundles: str
) -> tuple[dict[str, list[tuple[float, int]]], dict[str, str]]:
    made = {name: TemporaryBundle(Path(name), folder / "trust.toml") for name in bundles}
    return startup_measurement.measure(made, folder, dict(os.environ), Processes(), 2)


def test_a_bundle_that_does_not_load_is_told_by_its_code(tmp_path: Path) -> None:
    started, failed = measured(tmp_path, "gone.aotb")
    assert started == {}
    assert failed["gone.aotb"].startswith("AOTC-E")


def test_crashed_process_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup_measurement, "COMMAND", (sys.executable, "-c", STARTING))
    started, failed = measured(tmp_path, "xla", "crashing")
    assert started == {"xla": [(3.0, 7)] * 2}
    assert failed == {"crashing": "its process was killed by SIGABRT"}
