"""Commands that were stopped from outside: Ctrl-C, SIGTERM, or nobody reads what they print."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from aotc.cli.common import Output, report_findings
from aotc.errors import AbortedError, TerminatedError
from aotc_runtime.errors import Finding

READER_WENT_AWAY = 128 + signal.SIGPIPE
"""What a shell shows for a process that SIGPIPE killed, as `cat` would be."""


def report_stop(stopped: BaseException, arguments: Sequence[str], out: Output) -> int:
    """One line on stderr, or one JSON document on stdout; the exit code."""
    terminated = stopped.args == (signal.SIGTERM,)
    found, family = ("SIGTERM", TerminatedError) if terminated else ("SIGINT", AbortedError)
    finding = Finding(
        code="AOTC-E982" if terminated else "AOTC-E981",
        where=" ".join(["aotc", *(a for a in arguments[:1] if not a.startswith("-"))]),
        expected="to run to the end",
        found=found,
        hint="run the command again; nothing was left half-written",
    )
    try:
        if out.json:
            report_findings(out, (finding,), family.exit_code)
            sys.stdout.flush()
        else:
            sys.stderr.write("terminated\n" if terminated else "aborted\n")
    except OSError:
        silence_stdout()
    return family.exit_code


def silence_stdout() -> None:
    """What is left in stdout's buffer has nowhere to go; without this Python complains at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
