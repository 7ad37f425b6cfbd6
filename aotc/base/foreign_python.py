"""Scripts of ours that run where a framework is and aotc is not."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired

import msgspec

from aotc.base.child_processes import Processes, describe_status
from aotc.base.errors import CaptureError, finding, quoted, refusal
from aotc.base.workers.worker_child import PR_SET_PDEATHSIG
from aotc.base.workers.worker_environment import inherited

SECONDS_MAX = 6 * 3600.0
"""TensorFlow takes some ten seconds for each profile of a network of moderate size."""

LINES_SHOWN = 8

START = f"""
import ctypes, runpy, signal, sys
libc = ctypes.CDLL(None)
if hasattr(libc, "prctl"):
    libc.prctl({PR_SET_PDEATHSIG}, signal.SIGKILL)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Python code that runs a script, and ends when the process that started it does."""


def run_script(
    python: Path, script: Path, folder: Path, model: str, result: str, expected: str, hint: str
) -> None:
    """Have a Python run a script on the job in a folder, to the end.

    The script writes why it does not do it to `refused.json`. model: for messages.  result: the
    file that it writes last.
    Raises CaptureError: AOTC-E844 for what it does not do, E843 for a Python without what it needs,
    with what was expected of that and a hint.
    """
    command = [str(python.absolute()), "-I", "-c", START, str(script), str(folder)]
    try:
        status, said = Processes().run(command, folder, inherited(without=()), SECONDS_MAX)
    except (OSError, TimeoutExpired) as error:
        status, said = 1, [str(error)]
    refused = folder / "refused.json"
    if refused.exists():
        reasons: list[str] = []
        with suppress(ValueError):  # it was killed while it wrote
            reasons = msgspec.json.decode(refused.read_bytes(), type=list[str])
        if reasons:
            raise CaptureError(*(finding("AOTC-E844", model, each) for each in reasons))
        status = status or 1
    if status or not (folder / result).exists():
        found = quoted(describe_status(status), said[-LINES_SHOWN:])
        where, cause = f"{python} {model}", "framework-process-failed"
        raise refusal("AOTC-E843", where, found, cause=cause, expected=expected, hint=hint)
