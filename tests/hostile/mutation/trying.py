"""Runs attacks and tests against a mutant, in a process of its own."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from .areas import ROOT, Area
from .mutants import Mutant, apply
from .reaching import Following, Only, write

SECONDS_MIN, TIMES_LONGER = 120, 5
"""A reader that never ends has been noticed: after so many times what the code as it is takes."""

SECONDS_AT_FIRST = 3600
"""For the code as it is, for which bundles are built."""

NOT_APPLIED = 99
"""Exit status where the mutant could not be made: then nothing has noticed anything."""

COPIED = ("aotc", "docs", "manifests", "runtime", "targets", "tests")
"""What tests need of the checkout; beside these, its files."""

type Attempts = Callable[[], int]
"""What is tried against the code as it is; 0 if all of it ends as it should."""


def suite(tests: Sequence[str], folder: Path, *plugins: object) -> int:
    """Run tests in this process; 0 if all pass. folder: where bundles lie already."""
    os.environ.update(_shared())
    return pytest.main([*tests, *_options(folder)], plugins=plugins)


def start_as_it_is(
    area: Area, attacks: Attempts, folder: Path, files: frozenset[str], reached: Path
) -> int:
    """The process that runs attacks and tests against the code as it is.

    files, reached: where it leaves which tests run which functions of these.
    """
    process = os.fork()
    if process:
        return process
    outcome = 1
    try:
        signal.alarm(SECONDS_AT_FIRST)
        if area.in_file:
            _run_in_copy(area, None, folder)
        outcome = area.attacks and attacks()
        if not outcome:
            with Following(files) as followed:
                outcome = suite(area.tests, folder, followed)
            write(followed, reached)
    finally:
        os._exit(outcome)


def start(
    mutant: Mutant,
    only: frozenset[str],
    attacks: Attempts,
    folder: Path,
    seconds: float,
) -> int:
    """The process that runs attacks and tests against the mutant.

    only: those of the area's tests; none for all.  folder: for bundles, and what is temporary.
    seconds: after which it is ended.
    """
    area = mutant.area
    process = os.fork()
    if process:
        return process
    outcome = NOT_APPLIED
    try:
        for descriptor in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        if not area.in_file:
            apply(mutant)
        signal.alarm(math.ceil(seconds))
        if area.in_file:
            _run_in_copy(area, mutant, folder)
        outcome = 1
        outcome = (area.attacks and attacks()) or (
            suite(sorted({test.partition("::")[0] for test in only}), folder, Only(only))
            if only
            else suite(area.tests, folder)
        )
    finally:
        os._exit(outcome)


def _run_in_copy(area: Area, mutant: Mutant | None, folder: Path) -> NoReturn:
    """Become the process that runs the tests in a copy of the checkout, mutant included."""
    copy = folder / f"copy-{os.getpid()}"
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy2(file, copy)
    if mutant is not None:
        place = copy / mutant.file.relative_to(ROOT)
        place.write_text(mutant.source, "utf-8")
        # Compiled before within the same second, it may have as many characters.
        os.utime(place, (0, 0))
    os.chdir(copy)
    # Those of children, too: before what is installed.
    here = {"PYTHONPATH": os.pathsep.join((f"{copy}/runtime", str(copy)))}
    command = [sys.executable, "-P", "-m", "pytest", *area.tests, *_options(folder)]
    os.execve(sys.executable, command, {**os.environ, **_shared(), **here})


def _shared() -> dict[str, str]:
    # Workers of one test run share their bundles (tests/conftest.py).
    return {"PYTEST_XDIST_WORKER": f"mutant-{os.getpid()}"}


def _options(folder: Path) -> list[str]:
    return [f"--basetemp={folder}/{os.getpid()}", "-q", "-x", "-p", "no:cacheprovider"]
