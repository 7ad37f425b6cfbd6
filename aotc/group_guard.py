"""`python group_guard.py GROUP SECONDS`: when standard input ends, end a group of processes.

Whoever holds the other end of it has died then: nobody else is left who would. Runs without
packages, ours included, so that it costs next to nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

TICK_SECONDS = 0.01


def members(group: int) -> list[int]:
    """The processes of a group that run (proc(5), `/proc/PID/stat`); those that have ended and
    that nobody has asked about are none.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name of a program stands in brackets, and may hold any.
            state, _, of = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state not in (b"Z", b"X"):
            found.append(int(folder.name))
    return found


def end(group: int, seconds: float) -> None:
    """SIGTERM, and to what is left after so many seconds SIGKILL."""
    deadline = time.monotonic() + seconds
    number = signal.SIGTERM
    while members(group):
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            return
        if number == signal.SIGKILL:
            return
        while members(group) and time.monotonic() < deadline:
            time.sleep(TICK_SECONDS)
        number = signal.SIGKILL


if __name__ == "__main__":
    for stops in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stops, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end(int(sys.argv[1]), float(sys.argv[2]))
