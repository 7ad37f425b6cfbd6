"""Commands that were stopped from outside: Ctrl-C, SIGTERM, or nobody reads what they print."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from aotc.base.errors import refusal
from aotc.cli.command_output import Output, report_findings

READER_WENT_AWAY = 128 + signal.SIGPIPE
"""The exit code that a shell shows for a process killed by SIGPIPE."""

ENDS = {
    signal.SIGINT: ("AOTC-E981", "aborted"),
    signal.SIGTERM: ("AOTC-E982", "terminated"),
    signal.SIGHUP: ("AOTC-E983", "hung up"),
}
"""By signal: the code of the finding, and the line on stderr."""


def report_stop(stopped: BaseException, arguments: Sequence[str], out: Output) -> int:
    """One line on stderr, or one JSON document on stdout; the exit code."""
    # An interrupt without a signal counts as Ctrl-C.
    number = next((each for each in ENDS if stopped.args == (each,)), signal.SIGINT)
    code, said = ENDS[number]
    command = " ".join(["aotc", *(a for a in arguments[:1] if not a.startswith("-"))])
    stop = refusal(code, command, number.name)
    try:
        if out.json:
            report_findings(out, stop.findings, stop.exit_code)
            sys.stdout.flush()
        else:
            sys.stderr.write(f"{said}\n")
            sys.stderr.flush()
    except OSError:
        silence_stdout()
    return stop.exit_code


def silence_stdout() -> None:
    """Drop what is left in stdout's buffer, about which Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
