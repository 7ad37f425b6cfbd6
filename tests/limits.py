"""No test waits for ever, and all begin with the signals and variables that they are written for. A
plugin of pytest, loaded by `tests/conftest.py`.
"""

import faulthandler
import os
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

LIMIT_SECONDS = 900.0
"""For one test with its fixtures, among them the builds that it is the first to ask for."""

SPARE_SECONDS = 30.0
"""From the limit until a process ends in which Python itself does not run any more."""

CURRENT = "PYTEST_CURRENT_TEST"

STDERR = pytest.StashKey[int]()


def descendants() -> list[int]:
    """Processes below this one (proc(5), `/proc/PID/stat`)."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name of a program stands in brackets, and may hold any.
            parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[1]
        except OSError:
            continue
        children.setdefault(int(parent), []).append(int(folder.name))
    found = [os.getpid()]
    for number in found:
        found += children.get(number, ())
    return found[1:]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "limit(seconds): how long this test may take")
    config.stash[STDERR] = os.dup(2)  # nothing is captured yet
    # What a shell starts in the background of a script ignores Ctrl-C, and so would all that tests
    # start: those that wait for its effect would wait for ever.
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[STDERR])


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    with _unnamed():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    with _unnamed():
        return (yield)


@contextmanager
def _unnamed() -> Iterator[None]:
    """Take out of the environment which test runs: what builds import, they share as long as they
    have the same variables (`aotc.base.workers.forked_workers`).
    """
    name = os.environ.pop(CURRENT, None)
    try:
        yield
    finally:
        if name is not None:
            os.environ[CURRENT] = name


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if item.config.getoption("usepdb"):
        return (yield)
    marker, stderr = item.get_closest_marker("limit"), item.config.stash[STDERR]
    seconds = float(marker.args[0]) if marker else LIMIT_SECONDS
    timer = threading.Timer(seconds, end, (item.nodeid, seconds, stderr))
    timer.daemon = True
    timer.start()
    faulthandler.dump_traceback_later(seconds + SPARE_SECONDS, exit=True, file=stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        timer.cancel()


def end(test: str, seconds: float, stderr: int) -> None:
    """End this process and all that it has started, and say in which test, where that was and what
    ran. xdist then goes on in another process, and counts the test as failed.
    """
    started = descendants()
    said = [f"\n\n{test} has not ended within {seconds:g} s. It has started, and waits at:"]
    said += [f"  process {number}: {_command(number)}" for number in started]
    os.write(stderr, "\n".join([*said, ""]).encode())
    faulthandler.dump_traceback(stderr)
    for number in started:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(number, signal.SIGKILL)
    os._exit(1)


def _command(number: int) -> str:
    try:
        words = Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "has ended"
    return " ".join(words).strip() or "has ended, and nobody has asked how"
