"""`aotc bench`: what it measures, what it refuses, processes that fail, and the text of figures."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.cli import command_progress
from aotc.commands.bench import bench_processes
from aotc.commands.bench.bench_processes import measure, thread_counts
from aotc_runtime.base.errors import AotcError
from aotc_runtime.engines.xla import xla_engine
from tests.conftest import Bundle, Run
from tests.refusals import error_of


@pytest.fixture(autouse=True)
def few_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_processes, "COLD_STARTS_MIN", 2)
    monkeypatch.setattr(bench_processes, "COLD_STARTS_PER_EXECUTABLE", 1)


@pytest.fixture
def command(digits_bundle: Bundle) -> list[str]:
    """A command line that measures as little as there is."""
    return ["bench", str(digits_bundle[0]), "--trust", str(digits_bundle[1]), "--seconds", "0.01"]


def test_one_document_holds_every_figure(aotc: Run, command: list[str]) -> None:
    done = aotc(*command, "predict", "--profile", "batch=8", "--threads", "3", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    document = done.document
    assert document["ok"] and document["compilations"] == 0
    cold = document["cold_start"]
    assert list(cold["stages"])[:2] == ["interpreter", "import"]
    assert {"verify", "fixtures"} < cold["stages"].keys()
    assert min(cold["stages"].values()) >= 0 and cold["total"] > cold["first_call"] > 0
    (executable,) = document["executables"]
    assert executable["label"] == "predict[batch=8]"
    assert executable["first_call_us"] > 0
    latency = executable["steady_us"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"]
    assert [each["threads"] for each in executable["throughput"]] == [1, 2, 3]
    assert all(each["calls_per_second"] > 0 for each in executable["throughput"])
    memory = document["peak_memory_bytes"]
    assert memory["first_result"] > 0 and memory["measured"] > 0


def test_all_are_measured(aotc: Run, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # A loaded machine takes longer than the ten seconds after which a line says how far it is.
    monkeypatch.setattr(command_progress, "EVERY_SECONDS", 3600.0)
    done = aotc(*command, "--threads", "1")
    assert done.exit_code == 0
    stages = "".join(
        rf"{stage}: 0 of 3\n{stage}: 3 of 3, .* s\n" for stage in ("cold start", "steady")
    )
    assert re.fullmatch(stages, done.stderr)
    for size in (1, 8, 64):
        assert done.stdout.count(f"predict[batch={size}]") == 2
    assert max(map(len, done.stdout.splitlines())) <= 80


REFUSED: dict[str, tuple[list[str], int, str]] = {
    "a profile it does not have": (["--profile", "batch=9"], 2, "AOTC-E014"),
    "an unknown dimension": (["--profile", "rows=8"], 2, "AOTC-E014"),
    "no size": (["--profile", "batch"], 2, "AOTC-E014"),
    "a size that is no number": (["--profile", "batch=x"], 2, "AOTC-E014"),
    "no profile at all": (["--profile="], 2, "AOTC-E001"),
    "the sign for no sizes": (["--profile", "-"], 2, "AOTC-E014"),
    "one size twice": (["--profile", "batch=8,batch=8"], 2, "AOTC-E014"),
    "an unknown entry point": (["nope"], 2, "AOTC-E602"),
    "an unknown target": (["--target", "nope"], 7, "AOTC-E505"),
    "no threads": (["--threads", "0"], 2, "AOTC-E001"),
    "no time": (["--seconds", "0"], 2, "AOTC-E001"),
    "time that is no number": (["--seconds", "nan"], 2, "AOTC-E001"),
}


@pytest.mark.parametrize(
    ("options", "exit_code", "code"), REFUSED.values(), ids=list(REFUSED.keys())
)
def test_what_cannot_be_measured_is_refused(
    refused: Run, command: list[str], options: list[str], exit_code: int, code: str
) -> None:
    refused([*command, *options], exit_code, code)


def test_untrusted_is_not_measured(refused: Run, command: list[str], train_bundle: Bundle) -> None:
    command[3] = str(train_bundle[1])
    refused(command, 5, "AOTC-E302")


def test_a_misspelt_dimension_or_entry_point_is_named(refused: Run, command: list[str]) -> None:
    options = ["--profile", "bach=8"]
    assert "did you mean `batch`?" in refused([*command, *options], 2, "AOTC-E014").stderr
    assert "did you mean `predict`?" in refused([*command, "predit"], 2, "AOTC-E602").stderr


def measured(bundle: Bundle, on_stage: Callable[[str, int, int], None]) -> dict[str, Any]:
    return measure(
        bundle[0],
        "predict",
        bundle[1],
        target=None,
        profile="batch=1",
        threads=1,
        seconds=0.001,
        on_stage=on_stage,
    )


def test_bench_reports_progress(digits_bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    xla_engine.processor()  # reads them once
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such=1")
    stages: list[tuple[str, int, int]] = []
    measured(digits_bundle, lambda *stage: stages.append(stage))
    assert stages == [*(("cold start", n, 2) for n in range(3)), ("steady", 1, 1)]


def test_measuring_refusal_keeps_its_code(digits_bundle: Bundle, tmp_path: Path) -> None:
    bundle = tmp_path / "digits.aotb"
    bundle.write_bytes(digits_bundle[0].read_bytes())

    def remove(*_: object) -> None:
        bundle.unlink(missing_ok=True)

    refused = error_of(AotcError, measured, (bundle, digits_bundle[1]), remove)
    assert (refused.code, refused.exit_code) == ("AOTC-E108", 5)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import os; os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
        ("import sys; sys.exit('no\\tmemory\\tleft at all')", "exit status 1"),
    ],
)
def test_a_measuring_process_that_dies_is_one_finding(
    digits_bundle: Bundle, monkeypatch: pytest.MonkeyPatch, code: str, status: str
) -> None:
    monkeypatch.setattr(bench_processes, "START", code)
    refused = error_of(AotcError, measured, digits_bundle, lambda *_: None)
    (finding,) = refused.findings
    assert (finding.code, refused.exit_code) == ("AOTC-E759", 7)
    assert finding.found.startswith(status)


def test_threads_are_doubled_up_to_the_most() -> None:
    assert [thread_counts(most) for most in (1, 2, 3, 8)] == [[1], [1, 2], [1, 2, 3], [1, 2, 4, 8]]
