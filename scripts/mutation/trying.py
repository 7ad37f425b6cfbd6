"""Runs the tests of a mutated line, in a process of its own."""

import math
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from .checkout import environment
from .mutants import Mutant
from .recording import BUNDLES

SECONDS_MIN, TIMES_LONGER = 120, 10
"""A reader that never ends has been noticed: after so many times what the code as it is takes."""

FEW = 20
"""Tests that run first: the fastest of files that name the module. Most mutants fail one of them,
and importing all files of tests takes longer."""

NOT_TRIED = {pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.USAGE_ERROR}


class Only:
    """A plugin that runs these tests alone, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.order = {name: number for number, name in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Those of the list."""
        chosen = [item for item in items if item.nodeid in self.order]
        items[:] = sorted(chosen, key=lambda item: self.order[item.nodeid])


def verdict_on(mutant: Mutant, tests: Sequence[str], seconds: float, copy: Path) -> str:
    """Return whether a test fails against the mutant.

    copy: of the checkout.  seconds: that the tests take against the code as it is.
    """
    place = copy / mutant.file
    before = place.read_text("utf-8")
    place.write_text(mutant.source, "utf-8")
    texts = {test: _text(copy / test.partition("::")[0]) for test in tests}
    there = sorted(filter(texts.get, tests), key=lambda test: mutant.file.stem not in texts[test])
    found: set[int] = set()
    try:
        for part in filter(None, (there[:FEW], there[FEW:])):
            found.add(_status(part, seconds, copy))
            if not found <= {*NOT_TRIED, 0}:
                return "noticed"
    finally:
        place.write_text(before, "utf-8")
    if found <= NOT_TRIED:
        return "not tried: tests by these names are not there"
    return "survived"


@cache
def _text(file: Path) -> str:
    """Return the text of a file of tests; "" if it is not there."""
    return file.read_text("utf-8") if file.exists() else ""


def _status(tests: Sequence[str], seconds: float, copy: Path) -> int:
    """Return how the process of tests ends."""
    process = os.fork()
    if not process:
        _run(tests, seconds, copy)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    finally:
        shutil.rmtree(BUNDLES / f"mutant-{process}", ignore_errors=True)


def _run(tests: Sequence[str], seconds: float, copy: Path) -> None:
    """Become the process of the tests.

    Libraries were imported before; code of the checkout was not.
    """
    outcome = 1
    try:
        os.setsid()
        signal.alarm(math.ceil(max(SECONDS_MIN, TIMES_LONGER * seconds)))
        for descriptor in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        os.chdir(copy)
        # Workers of one test run share their bundles (tests/conftest.py).
        os.environ.update(environment(copy), PYTEST_XDIST_WORKER=f"mutant-{os.getpid()}")
        sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        sys.dont_write_bytecode = True
        files = sorted({test.partition("::")[0] for test in tests})
        place = f"--basetemp={BUNDLES}/mutant-{os.getpid()}"
        options = [place, "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
        outcome = pytest.main([*files, *options], plugins=[Only(tests)])
    finally:
        os._exit(outcome)
