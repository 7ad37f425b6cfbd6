"""Lines that each test runs, those of child processes included, for `make mutate`.

As a plugin of pytest, this names the test that runs to coverage.py, in this process and, by a
variable, in all that it starts (https://coverage.readthedocs.io/en/latest/contexts.html).
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .checkout import OUT, PACKAGES, ROOT, copied, environment

DATA, SECONDS, DIGESTS = OUT / "coverage" / "lines", OUT / "seconds.json", OUT / "digests.json"
BUNDLES = OUT / "tests"
"""Of a pytest run; `tests/conftest.py` shares a folder of bundles below it."""

CURRENT = "AOTC_MUTATION_TEST"

SETTINGS = """
[run]
core = ctrace
parallel = true
relative_files = true
patch = fork, _exit
context = ${{{current}-}}
data_file = {data}
source_dirs = {packages}
disable_warnings = module-not-imported, no-data-collected, module-not-measured
"""


def record(tests: Sequence[str], jobs: str) -> None:
    """Run tests in a copy of the checkout, and keep which lines each that passes runs.

    Their bundles stay, for the runs against mutants.
    """
    for folder in (DATA.parent, BUNDLES):
        shutil.rmtree(folder, ignore_errors=True)
    DATA.parent.mkdir(parents=True)
    settings = OUT / "coverage.ini"
    with copied() as copy:
        packages = ",".join(str(copy / each) for each in PACKAGES)
        text = SETTINGS.format(current=CURRENT, data=DATA, packages=packages)
        settings.write_text(text, "utf-8")
        command = [
            *(sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", jobs),
            *("-p", "scripts.mutation.recording", f"--basetemp={BUNDLES}", *tests),
        ]
        started = {**environment(copy), "COVERAGE_PROCESS_START": str(settings)}
        subprocess.run(command, cwd=copy, env=started, check=False)
        combine = [sys.executable, "-m", "coverage", "combine", "-q", f"--rcfile={settings}"]
        subprocess.run([*combine, str(DATA.parent)], cwd=copy, check=True)
        found = [file for each in PACKAGES for file in (copy / each).rglob("*.py")]
        digests = {str(file.relative_to(copy)): _digest(file.read_bytes()) for file in found}
        DIGESTS.write_text(json.dumps(digests), "utf-8")


class Executed:
    """Record of a run. seconds: of each test that passed."""

    def __init__(self) -> None:
        from coverage import CoverageData

        self.seconds: dict[str, float] = json.loads(SECONDS.read_text("utf-8"))
        self._digests: dict[str, str] = json.loads(DIGESTS.read_text("utf-8"))
        self._data = CoverageData(str(DATA))
        self._data.read()
        self._lines = cache(self._data.contexts_by_lineno)

    def is_recorded(self, file: Path) -> bool:
        """Return whether any test runs anything of a file."""
        return any(each != [""] for each in self._lines(str(file)).values())

    def tests_of(self, file: Path, lines: range) -> list[str]:
        """Return the tests that run one of these lines of a file, the fastest first.

        All that run anything of it, for lines that changed since the record or that none of them
        ran, and for what runs at its import, outside of all tests.
        """
        by_line, recorded = self._lines(str(file)), self._recorded_lines(file)
        names = {name for line in lines for name in by_line.get(recorded.get(line, 0), ())}
        is_changed = any(recorded.get(line) != line for line in (*lines, *recorded))
        if "" in names or not recorded.keys() >= {*lines} or (is_changed and not names):
            names = {name for each in by_line.values() for name in each}
        return sorted(names & self.seconds.keys(), key=self.seconds.__getitem__)

    @cache  # noqa: B019 - one record lasts as long as the process
    def rarities(self, file: Path) -> dict[str, float]:
        """Return for each test how many lines it runs of a file that few others run."""
        found = dict.fromkeys(self.seconds, 0.0)
        for tests in self._lines(str(file)).values():
            for test in found.keys() & tests:
                found[test] += 1 / len(tests)
        return found

    @cache  # noqa: B019 - one record lasts as long as the process
    def _recorded_lines(self, file: Path) -> dict[int, int]:
        """Map lines of a file to those of the same text that it had when it was recorded."""
        digest, now = self._digests.get(str(file)), (ROOT / file).read_bytes()
        lines = now.splitlines()
        if digest == _digest(now):
            return {line: line for line in range(1, len(lines) + 1)}
        for commit in _git("log", "--format=%H", "--", str(file)).decode().split():
            before = _git("show", f"{commit}:{file}")
            if digest == _digest(before):
                matcher = SequenceMatcher(None, before.splitlines(), lines, autojunk=False)
                blocks = matcher.get_matching_blocks()
                return {b + i + 1: a + i + 1 for a, b, size in blocks for i in range(size)}
        return {}


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    return done.stdout


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Name the test, whose fixtures run now, too."""
    from coverage import Coverage

    running = Coverage.current()
    os.environ[CURRENT] = item.nodeid
    if running is not None:
        running.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        del os.environ[CURRENT]
        if running is not None:
            running.switch_context("")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Keep how long each test took that passed."""
    passed = {each.nodeid: each.duration for each in terminalreporter.stats.get("passed", ())}
    place = Path(os.environ["COVERAGE_PROCESS_START"]).with_name(SECONDS.name)
    place.write_text(json.dumps(passed), "utf-8")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
