"""Every mutant against its attacks and tests, one for each processor at a time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from ..attacks import Attacks
from .areas import Area
from .mutants import Mutant, mutants
from .trying import (
    NOT_APPLIED,
    SECONDS_AT_FIRST,
    SECONDS_MIN,
    TIMES_LONGER,
    Attempts,
    start,
)
from .unreachable import UNREACHABLE


class Tried(NamedTuple):
    """A mutant, whether something noticed, and after how many seconds."""

    mutant: Mutant
    status: int
    seconds: float

    @property
    def excuse(self) -> str:
        name, text = self.mutant.file.name, self.mutant.text
        alone = f"{text} -> {self.mutant.by}"
        return UNREACHABLE.get((name, text)) or UNREACHABLE.get((name, alone), "")

    @property
    def verdict(self) -> str:
        """Why it counts as no survivor, or that it does; "" if it was noticed."""
        if os.waitstatus_to_exitcode(self.status) == NOT_APPLIED:
            return "COULD NOT BE MADE"
        return "" if self.status else self.excuse or "SURVIVED"


def try_all(
    found: Sequence[Mutant], attacks: Attempts, folder: Path, limits: Mapping[Area, float]
) -> Iterator[Tried]:
    """Each in a process of its own, in the order in which they end. limits: seconds, by area."""
    waiting, running = list(reversed(found)), dict[int, tuple[Mutant, float]]()
    while waiting or running:
        while waiting and len(running) < len(os.sched_getaffinity(0)):
            mutant = waiting.pop()
            process = start(mutant.area, mutant, attacks, folder, limits[mutant.area])
            running[process] = mutant, monotonic()
        process, status = os.wait()
        mutant, began = running.pop(process)
        for name in (str(process), f"copy-{process}"):
            shutil.rmtree(folder / name, ignore_errors=True)
        yield Tried(mutant, status, monotonic() - began)


def main(texts: Sequence[str]) -> int:
    """1 if there are survivors that are not accounted for. texts: as of `mutants`."""
    found = list(mutants(texts))
    tried: list[Tried] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = folder / "bundles" / "digits"
        place.mkdir(parents=True)
        bundle, policy = place / "digits.aotb", place / "trust.toml"
        # In a process of its own: a build starts threads, and this one forks.
        command = [sys.executable, "-m", "tests.hostile.attacks", bundle, policy]
        subprocess.run(command, check=True)
        (place / "filled").touch()
        attacks = Attacks(str(bundle), str(policy), folder).run
        limits: dict[Area, float] = {}
        for area in dict.fromkeys(mutant.area for mutant in found):
            began = monotonic()
            if os.waitpid(start(area, None, attacks, folder, SECONDS_AT_FIRST), 0)[1]:
                sys.stderr.write(f"{', '.join(area.tests)} fail against the code as it is\n")
                return 1
            limits[area] = max(SECONDS_MIN, TIMES_LONGER * (monotonic() - began))
        for each in try_all(found, attacks, folder, limits):
            tried.append(each)
            if each.verdict:
                print(f"{each.mutant.label}: {each.verdict}", flush=True)
    for line in _times(tried):
        print(line)
    alive = [each for each in tried if each.verdict]
    left = sum(each.verdict != each.excuse for each in alive)
    excused = len(alive) - left
    endless = sum(os.waitstatus_to_exitcode(each.status) == -signal.SIGALRM for each in tried)
    print(
        f"{len(found)} checks removed, {excused} excused, {left} survivors"
        f" ({endless} of those noticed did not end in time)"
    )
    return min(left, 1)


def _times(tried: Sequence[Tried]) -> Iterator[str]:
    """How long each area took, as if nothing else ran beside it."""
    by_area: dict[Area, list[float]] = {}
    for each in tried:
        by_area.setdefault(each.mutant.area, []).append(each.seconds)
    for area, seconds in by_area.items():
        each = sum(seconds) / len(seconds)
        yield f"{sum(seconds):7.0f} s {len(seconds):5} x {each:4.1f} s  {area.label}"
