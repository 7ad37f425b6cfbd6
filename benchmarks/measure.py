"""Measuring what users wait for: processes side by side, in turns, as ratios."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "bench"


@dataclass(frozen=True, slots=True)
class Contestant:
    """A fresh Python process. code: prints one line as soon as it has its result."""

    name: str
    code: str
    arguments: tuple[str, ...] = ()


def until_first_line(contestant: Contestant) -> float:
    """Seconds from starting the process until its first line."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("JAX_", "XLA_", "TF_", "PYTHON"))
    }
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", contestant.code, *contestant.arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT / "manifests",
        env=environment,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - started
        process.stdout.read()
    if process.returncode != 0 or not line.strip():
        raise SystemExit(f"{contestant.name} failed with exit status {process.returncode}")
    return seconds


def in_turns(contestants: Sequence[Contestant], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contestant, by name; a warm-up round goes first and does not count."""
    seconds: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for number in range(rounds + 1):
        for contestant in contestants:
            measured = until_first_line(contestant)
            if number:
                seconds[contestant.name].append(measured)
    return seconds


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median over rounds of ours divided by theirs, both of one round."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def verdict(value: float, goal: float) -> str:
    """Return whether a figure is at most its goal. Nothing fails because of it: machines differ."""
    return "met" if value <= goal else "missed"


def machine() -> Mapping[str, str]:
    """Describe this machine, for the reader of the figures."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
    }
