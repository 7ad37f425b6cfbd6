"""`aotc bench`: what it measures, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.commands.bench import bench_processes

Run = Callable[..., Any]


@pytest.fixture
def command(digits_bundle: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command line that measures as little as there is."""
    monkeypatch.setattr(bench_processes, "COLD_STARTS_MIN", 1)
    monkeypatch.setattr(bench_processes, "COLD_STARTS_PER_EXECUTABLE", 1)
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
    assert executable["first_to_rested"] > 0 and executable["calls_before_hundredth"] >= 100
    latency = executable["steady_us"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"]
    assert [each["threads"] for each in executable["throughput"]] == [1, 2, 3]
    assert all(each["calls_per_second"] > 0 for each in executable["throughput"])
    memory = document["peak_memory_bytes"]
    assert memory["first_result"] > 0 and memory["measured"] > 0


def test_without_an_entry_point_all_are_measured_and_the_text_fits_80_columns(
    aotc: Run, command: list[str]
) -> None:
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


def test_a_bundle_nobody_trusts_is_not_measured(
    refused: Run, command: list[str], train_bundle: tuple[Path, Path]
) -> None:
    command[3] = str(train_bundle[1])
    refused(command, 5, "AOTC-E302")


def test_a_misspelt_dimension_or_entry_point_is_named(refused: Run, command: list[str]) -> None:
    options = ["--profile", "bach=8"]
    assert "did you mean batch?" in refused([*command, *options], 2, "AOTC-E014").stderr
    assert "did you mean predict?" in refused([*command, "predit"], 2, "AOTC-E602").stderr
