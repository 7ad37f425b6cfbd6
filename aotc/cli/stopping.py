"""Commands that were stopped from outside: Ctrl-C, SIGTERM, or nobody reads what they print."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from aotc.cli.common import Output, report_findings
from aotc.errors import AbortedError, HungUpError, TerminatedError
from aotc_runtime.errors import AotcError, Finding

READER_WENT_AWAY = 128 + signal.SIGPIPE
"""What a shell shows for a process that SIGPIPE killed, as `cat` would be."""

ENDS: dict[signal.Signals, tuple[str, type[AotcError], str]] = {
    signal.SIGINT: ("AOTC-E981", AbortedError, "aborted"),
    signal.SIGTERM: ("AOTC-E982", TerminatedError, "terminated"),
    signal.SIGHUP: ("AOTC-E983", HungUpError, "hung up"),
}
"""How commands end that a signal stops: code, family, what they say."""


def report_stop(stopped: BaseException, arguments: Sequence[str], out: Output) -> int:
    """One line on stderr, or one JSON document on stdout; the exit code."""
    # Who interrupts without saying why is taken for Ctrl-C.
    number = next((each for each in ENDS if stopped.args == (each,)), signal.SIGINT)
    code, family, said = ENDS[number]
    finding = Finding(
        code=code,
        where=" ".join(["aotc", *(a for a in arguments[:1] if not a.startswith("-"))]),
        expected="to run to the end",
        found=number.name,
        hint="run the command again; nothing was left half-written",
    )
    try:
        if out.json:
            report_findings(out, (finding,), family.exit_code)
            sys.stdout.flush()
        else:
            sys.stderr.write(f"{said}\n")
            sys.stderr.flush()
    except OSError:
        silence_stdout()
    return family.exit_code


def silence_stdout() -> None:
    """What is left in stdout's buffer has nowhere to go; without this Python complains at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
