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
from .areas import AREAS, Area
from .mutants import Mutant, mutants
from .reaching import Place, files_of, place_of, read
from .trying import (
    NOT_APPLIED,
    SECONDS_MIN,
    TIMES_LONGER,
    Attempts,
    start,
    start_as_it_is,
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


class AsItIs(NamedTuple):
    """What an area's tests do without a mutant. seconds: after which one has been noticed.  tests:
    those that run each function.
    """

    seconds: float
    tests: Mapping[Place, frozenset[str]]

    def reaching(self, mutant: Mutant) -> frozenset[str]:
        """The tests that run the function that is changed; none if that is not known."""
        place = place_of(mutant)
        return self.tests.get(place, frozenset()) if place else frozenset()


def try_all(
    found: Sequence[Mutant], attacks: Attempts, folder: Path, areas: Mapping[Area, AsItIs]
) -> Iterator[Tried]:
    """Each in a process of its own, in the order in which they end. At first against the tests
    that run its function; what these let pass, against all of its area.
    """
    waiting = [(mutant, areas[mutant.area].reaching(mutant)) for mutant in reversed(found)]
    running = dict[int, tuple[Mutant, frozenset[str], float]]()
    while waiting or running:
        while waiting and len(running) < len(os.sched_getaffinity(0)):
            mutant, only = waiting.pop()
            process = start(mutant, only, attacks, folder, areas[mutant.area].seconds)
            running[process] = mutant, only, monotonic()
        process, status = os.wait()
        mutant, only, began = running.pop(process)
        for name in (str(process), f"copy-{process}"):
            shutil.rmtree(folder / name, ignore_errors=True)
        if status == 0 and only:
            waiting.append((mutant, frozenset()))
        else:
            yield Tried(mutant, status, monotonic() - began)


def main(texts: Sequence[str]) -> int:
    """1 if there are survivors that are not accounted for. texts: as of `mutants`."""
    for area in AREAS:
        if lacking := area.lacking():
            print(f"{area.label}: left out without {', '.join(lacking)}")
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
        areas: dict[Area, AsItIs] = {}
        files, reached = files_of(found), folder / "reached.json"
        for area in dict.fromkeys(mutant.area for mutant in found):
            began = monotonic()
            reached.unlink(missing_ok=True)
            if os.waitpid(start_as_it_is(area, attacks, folder, files, reached), 0)[1]:
                sys.stderr.write(f"{', '.join(area.tests)} fail against the code as it is\n")
                return 1
            seconds = max(SECONDS_MIN, TIMES_LONGER * (monotonic() - began))
            areas[area] = AsItIs(seconds, read(reached))
        for each in try_all(found, attacks, folder, areas):
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
