"""A test that waits for ever is ended and named, with the place where it waits; the others run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import until

ROOT = Path(__file__).parents[2]

WAITING = """
import subprocess
import time

import pytest


@pytest.mark.limit(1)
@pytest.mark.parametrize("how", ["a child"])
def test_waits(how):
    with subprocess.Popen(["sleep", "611"]) as child:
        with open("child", "a") as file:
            print(child.pid, file=file)
        child.wait()


@pytest.fixture
def slow():
    time.sleep(611)


@pytest.mark.limit(1)
def test_waits_in_a_fixture(slow):
    pass


def test_does_not_wait():
    pass
"""

STUCK = """
import ctypes

import pytest

from tests import limits

limits.SPARE_SECONDS = 1.0


@pytest.mark.limit(1)
def test_holds_the_lock_of_python():
    ctypes.PyDLL(None).sleep(611)
"""


def ran(folder: Path, source: str, *options: str) -> tuple[int, str]:
    """Run pytest with the plugin on a file: its exit code, and all that it printed."""
    (folder / "test_it.py").write_text(source)
    alone = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    plugins = ["-p", "tests.limits", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "test_it.py", *options],
        cwd=folder,
        env={**alone, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_every_test_here_has_a_limit(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.has_plugin("limits")


def test_a_test_that_hangs_is_named_with_place_and_reason(tmp_path: Path) -> None:
    code, said = ran(tmp_path, WAITING)
    assert code == 1
    assert "test_it.py::test_waits[a child] has not ended within 1 s" in said
    assert re.search(r"process \d+: sleep 611\n", said)
    line = WAITING.splitlines().index("        child.wait()") + 1
    assert re.search(rf"test_it\.py\", line {line} in test_waits\n", said)
    (child,) = (tmp_path / "child").read_text().split()
    until(lambda: has_ended(child), "the child of the test has ended")


def has_ended(pid: str) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_with_several_processes_the_others_of_its_tests_are_run(tmp_path: Path) -> None:
    code, said = ran(tmp_path, WAITING, "-p", "xdist", "-n", "1", "--dist", "worksteal")
    assert code == 1
    for test in ("test_waits[a child]", "test_waits_in_a_fixture"):
        assert f"test_it.py::{test} has not ended within 1 s" in said
        assert f"crashed while running 'test_it.py::{test}'" in said
    assert "in slow\n" in said
    assert "2 failed, 1 passed" in said


def test_where_python_itself_does_not_run_any_more_the_place_is_named(tmp_path: Path) -> None:
    code, said = ran(tmp_path, STUCK)
    assert code == 1
    assert "in test_holds_the_lock_of_python\n" in said
