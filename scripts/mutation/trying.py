"""Runs the tests of a mutated line, in a process of its own."""

import math
import os
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from .checkout import environment
from .mutants import Mutant
from .recording import BUNDLES, Executed

FEW, FEW_FILES = 20, 2
"""Tests that run first: most mutants fail one, and importing all files of tests takes longer."""

NAMED, SECONDS_AROUND, SECONDS_NEW = 10, 0.2, 1.0

TIMES_LONGER, PROCESSOR_SECONDS, CLOCK_SECONDS = 10, 30, 60
"""A reader that never ends has been noticed: after so many times what the code as it is takes, and
so much of a processor for one test, or so long for all."""

NAP = 0.05
TIMED_OUT = "its time"

NOT_TRIED = {pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.USAGE_ERROR}


class Only:
    """A plugin that runs these tests alone, in this order, and writes which one fails.

    seconds: that each takes against the code as it is.
    """

    def __init__(self, tests: Sequence[str], seconds: Mapping[str, float], failed: int) -> None:
        self.order = {name: number for number, name in enumerate(tests)}
        self.functions = {_function_of(name): number for number, name in enumerate(tests)}
        self.seconds, self.failed = seconds, failed

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep tests of the list, and rows of its functions that nobody has recorded."""
        places = [(self._place(item.nodeid), item) for item in items]
        chosen = [(place, item) for place, item in places if place >= 0]
        items[:] = [item for _, item in sorted(chosen, key=lambda each: each[0])]

    def _place(self, test: str) -> int:
        is_new = test not in self.seconds
        return self.order.get(test, self.functions.get(_function_of(test), -1) if is_new else -1)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """End this process, or one that it starts, once a test has computed for too long."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        allowed = used.ru_utime + used.ru_stime + PROCESSOR_SECONDS
        allowed += TIMES_LONGER * self.seconds.get(nodeid, 0)
        limits = math.ceil(allowed), resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, limits)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name what fails."""
        if report.failed:
            os.write(self.failed, report.nodeid.encode())


class Trial(NamedTuple):
    """Tests, run against a mutant. status: of their process.  failed: the test that did."""

    status: int
    failed: str


def verdict_on(
    mutant: Mutant, tests: Sequence[str], seconds: Mapping[str, float], copy: Path
) -> tuple[str, str]:
    """Return whether a test fails against the mutant, and which.

    tests: the first to run first.  seconds: that each takes against the code as it is.  copy: of
    the checkout.
    """
    place = copy / mutant.file
    before = place.read_text("utf-8")
    place.write_text(mutant.source, "utf-8")
    found: set[int] = set()
    try:
        first = _of_few_files(tests)[:FEW]
        for part in filter(None, (first, [test for test in tests if test not in first])):
            trial = _try(part, seconds, copy)
            found.add(trial.status)
            if not found <= {*NOT_TRIED, 0}:
                return "noticed", trial.failed
    finally:
        place.write_text(before, "utf-8")
    if found <= NOT_TRIED:
        return "not tried: tests by these names are not there", ""
    return "survived", ""


def nearest(mutant: Mutant, tests: Sequence[str], executed: Executed, copy: Path) -> list[str]:
    """Sort tests by how likely they fail, for their time; without those that are not there.

    Tests that are newer than the record come first, if their file names the module.
    Whoever runs what few others run of a module is about it, as are files of tests that name it.
    """
    stem, there = mutant.file.stem, [test for test in tests if _text(copy / _file_of(test))]
    rarities = executed.rarities(mutant.file)
    files = {test.partition("::")[0] for test in executed.seconds}
    new = [
        name for file in files if stem in _text(copy / file) for name in _new(file, executed, copy)
    ]

    def likely(test: str) -> float:
        times = NAMED if stem in _text(copy / _file_of(test)) else 1
        return rarities[test] * times / (executed.seconds[test] + SECONDS_AROUND)

    return [*new, *sorted(there, key=likely, reverse=True)]


@cache
def _new(file: str, executed: Executed, copy: Path) -> list[str]:
    """Return the functions of a file of tests that nobody has recorded, and that pass.

    copy: without a mutant.
    """
    recorded = set(map(_function_of, executed.seconds))
    names = re.findall(r"^def (test_\w+)", _text(copy / file), re.MULTILINE)
    new = [name for name in (f"{file}::{each}" for each in names) if name not in recorded]
    executed.seconds.update(dict.fromkeys(new, SECONDS_NEW))
    return [name for name in new if not _try([name], executed.seconds, copy).status]


def _function_of(test: str) -> str:
    return test.partition("[")[0]


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _of_few_files(tests: Sequence[str]) -> list[str]:
    files = list(dict.fromkeys(map(_file_of, tests)))[:FEW_FILES]
    return [test for test in tests if _file_of(test) in files]


@cache
def _text(file: Path) -> str:
    """Return the text of a file of tests; "" if it is not there."""
    return file.read_text("utf-8") if file.exists() else ""


def _try(tests: Sequence[str], seconds: Mapping[str, float], copy: Path) -> Trial:
    """Run tests in a process of their own."""
    failed, write = os.pipe()
    process = os.fork()
    if not process:
        _run(tests, seconds, copy, write)
    os.close(write)
    try:
        allowed = CLOCK_SECONDS + TIMES_LONGER * sum(seconds[test] for test in tests)
        status = _waited(process, allowed)
        os.set_blocking(failed, False)
        with suppress(BlockingIOError):
            name = os.read(failed, 4096).decode()
            return Trial(status, name or (TIMED_OUT if status < 0 else "all"))
        return Trial(status, TIMED_OUT)
    finally:
        os.close(failed)
        shutil.rmtree(BUNDLES / f"mutant-{process}", ignore_errors=True)


def _waited(process: int, seconds: float) -> int:
    """Return how a process ends, which is killed with all that it started after this time.

    Naps are counted, not the clock: on a machine that is busy they last longer.
    """
    naps = 0
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended or naps * NAP > seconds:
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(NAP)
        naps += 1


def _run(tests: Sequence[str], seconds: Mapping[str, float], copy: Path, failed: int) -> None:
    """Become the process of the tests.

    Libraries were imported before; code of the checkout was not.
    """
    outcome = 1
    try:
        os.setpgid(0, 0)
        for descriptor in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        os.chdir(copy)
        # Workers of one test run share their bundles (tests/conftest.py).
        os.environ.update(environment(copy), PYTEST_XDIST_WORKER=f"mutant-{os.getpid()}")
        sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        sys.dont_write_bytecode = True
        files = sorted(set(map(_file_of, tests)))
        place = f"--basetemp={BUNDLES}/mutant-{os.getpid()}"
        options = [place, "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
        outcome = pytest.main([*files, *options], plugins=[Only(tests, seconds, failed)])
    finally:
        os._exit(outcome)
