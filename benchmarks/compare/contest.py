"""Runs the contestants in turns, and sums up what they did."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.compare.cases import Case, write_case
from benchmarks.compare.contestants import (
    Contestant,
    LeftOutError,
    prepare,
    python_of,
    serve,
    write_file,
)

OURS, TUNED = "aotc", "aotc --tune"
STAGES = ("interpreter", "import", "load", "first call")

type Runs = dict[str, list[dict[str, Any]]]
type LeftOut = dict[str, str]


def run_case(
    case: Case, contestants: Sequence[Contestant], rounds: int, seconds: float
) -> dict[str, Any]:
    """All contestants on one case: by name, figures or the reason why there are none."""
    write_case(case)
    if case.file:
        try:
            write_file(case)
        except LeftOutError as reason:
            return {each.name: {"left_out": str(reason)} for each in contestants}
    left_out: LeftOut = {}
    prepared: dict[str, dict[str, Any]] = {}
    pythons: dict[str, str] = {}
    for contestant in contestants:
        print(f"{case.name}: preparing {contestant.name}", file=sys.stderr)
        try:
            pythons[contestant.name] = python_of(contestant)
            prepared[contestant.name] = prepare(contestant, pythons[contestant.name], case.folder)
        except LeftOutError as reason:
            left_out[contestant.name] = str(reason)
    runs: Runs = {contestant.name: [] for contestant in contestants}
    for number in range(-1, rounds):
        print(f"{case.name}: round {number + 1} of {rounds}", file=sys.stderr)
        for contestant in contestants:
            if contestant.name in left_out:
                continue
            try:
                # A round that does not count brings files into memory.
                measured = serve(
                    contestant,
                    pythons[contestant.name],
                    case.folder,
                    seconds if number >= 0 else 0.0,
                )
            except LeftOutError as reason:
                left_out[contestant.name] = str(reason)
            else:
                if number >= 0:
                    runs[contestant.name].append(measured)
    return {
        contestant.name: (
            {"left_out": left_out[contestant.name]}
            if contestant.name in left_out
            else _summary(
                contestant.name,
                {name: each for name, each in runs.items() if name not in left_out},
                prepared,
            )
        )
        for contestant in contestants
    }


def _start(run: dict[str, Any]) -> float:
    return float(sum(run["stages"].values()))


def _summary(name: str, runs: Runs, prepared: dict[str, dict[str, Any]]) -> dict[str, Any]:
    theirs = runs[name]
    summary: dict[str, Any] = {
        "version": prepared[name]["version"],
        "artifact_bytes": prepared[name]["artifact_bytes"],
        "prepare_seconds": prepared[name]["seconds"],
        "stages": {s: statistics.median(run["stages"][s] for run in theirs) for s in STAGES},
        "start_seconds": statistics.median(_start(run) for run in theirs),
        "peak_bytes": statistics.median(run["peak_bytes"] or 0 for run in theirs),
        "p50_us": statistics.median(run["p50"] for run in theirs),
        "p90_us": statistics.median(run["p90"] for run in theirs),
        "max_abs_error": max(run["max_abs_error"] for run in theirs),
    }
    if "bandwidth_part" in theirs[0]:
        parts = (run["bandwidth_part"] for run in theirs)
        summary["bandwidth_part"] = statistics.median(parts)
    if ours := runs.get(OURS, []):
        pairs = list(zip(theirs, ours, strict=True))
        summary["to_ours"] = {
            "start": statistics.median(_start(t) / _start(o) for t, o in pairs),
            "p50": statistics.median(t["p50"] / o["p50"] for t, o in pairs),
            "peak": statistics.median(
                (t["peak_bytes"] or 0) / (o["peak_bytes"] or 1) for t, o in pairs
            ),
            "artifact": summary["artifact_bytes"] / prepared[OURS]["artifact_bytes"],
        }
    if tuned := runs.get(TUNED, []):
        ratios = [t["p50"] / o["p50"] for t, o in zip(theirs, tuned, strict=True)]
        summary["to_tuned"] = {"p50": statistics.median(ratios)}
    return summary
