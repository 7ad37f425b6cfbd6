"""What runs below a guard ends with it, wherever it has gone; and it sees nothing of the guard."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from aotc.base.child_processes import Child, Guarded, Processes

DAEMON = """
import os, signal, sys, time
told, tells = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(os.getpid(), flush=True)
        os.write(tells, b"x")
        time.sleep(600)
    os._exit(0)
os.wait()
os.read(told, 1)
"""
"""Starts what belongs to nobody: in a session of its own, and its parent has ended."""


def guarded(code: str, *, grace: float = 0.2, **options: object) -> Guarded | Child:
    command = [sys.executable, "-c", code]
    return Guarded(command, grace, stdout=subprocess.PIPE, **options)


def number_of(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def ends(watched: Sequence[int]) -> None:
    """Wait until processes have ended, of which these are descriptors."""
    for each in watched:
        # Readable when it has ended.
        assert select.select([each], [], [], 30)[0] == [each]
        os.close(each)


@pytest.mark.parametrize("doing", ["", "os._exit(3)", "os.abort()", "time.sleep(600)"])
def test_a_daemon_ends_with_what_has_started_it(doing: str) -> None:
    with Processes().started(
        [sys.executable, "-c", DAEMON + doing], grace=0.2, stdout=subprocess.PIPE
    ) as process:
        daemon = os.pidfd_open(number_of(process))
        if "sleep" not in doing:
            process.wait(30)
            assert select.select([daemon], [], [], 0)[0] == [daemon], "before whoever waits goes on"
    ends([daemon])


def test_a_daemon_ends_with_a_process_that_is_killed() -> None:
    """The one that waits for all of it, which can do nothing then."""
    waiting = (
        "import subprocess, sys; from aotc.base.child_processes import Processes\n"
        f"with Processes().started([sys.executable, '-c', {DAEMON + 'time.sleep(600)'!r}], "
        "grace=0.2) as process: process.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE) as process:
        daemon = os.pidfd_open(number_of(process))
        process.kill()
        ends([daemon])


def test_without_its_guard_a_process_ends() -> None:
    process = guarded("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    watched = os.pidfd_open(number_of(process))
    process.kill()
    ends([watched])
    assert process.wait() == -signal.SIGKILL
    process.end()
    assert process.stdout is not None
    process.stdout.close()


def test_what_cannot_be_ended_is_given_up() -> None:
    """Another user's, for one: it stays a child that has not ended."""
    ending = (
        "from aotc.base import process_guard; process_guard.KILLING_SECONDS = 0.05\n"
        "process_guard.end(0.0, lambda: True)"
    )
    done = subprocess.run([sys.executable, "-c", ending], timeout=60, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("doing", "status"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("os.abort()", -signal.SIGABRT),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)", -signal.SIGINT),
    ],
)
def test_it_ends_as_what_it_guards(doing: str, status: int) -> None:
    with Processes().started([sys.executable, "-c", f"import os, signal\n{doing}"], grace=1) as it:
        assert it.wait(30) == status


def test_a_command_that_is_not_there_is_named_and_ends_at_once() -> None:
    with Processes().started(["no-such-command"], grace=1, stderr=subprocess.PIPE) as process:
        _, said = process.communicate()
    assert (process.returncode, said) == (127, b"no-such-command: No such file or directory\n")


SEEN = """
grep -E "SigIgn|SigBlk" /proc/self/status; env | sort; ls /proc/self/fd
[ "$(cut -d " " -f 5 /proc/$$/stat)" = $$ ] && echo leads a group
"""


@pytest.mark.parametrize("ignored", [[], [signal.SIGHUP]])
def test_a_process_sees_nothing_of_its_guard(ignored: list[signal.Signals]) -> None:
    """Variables, where Python sets one for the locale; signals, as `nohup` leaves them; files."""
    locale = {"LANG": "C", "A": "b=c", "PATH": os.defpath}
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    try:
        said = []
        for grace in (0.0, 1.0):
            with Processes().started(
                ["sh", "-c", SEEN], grace=grace, stdout=subprocess.PIPE, env=locale
            ) as process:
                said.append(process.communicate()[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert said[0] == said[1] and b"A=b=c" in said[0] and b"leads" in said[0]
