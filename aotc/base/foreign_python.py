"""Scripts of ours that run where a framework is and aotc is not."""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import TimeoutExpired

import msgspec

from aotc.base.child_processes import Processes, describe_status
from aotc.base.errors import CaptureError, finding, quoted, refusal

SECONDS_MAX = 6 * 3600.0
"""TensorFlow takes some ten seconds for each profile of a network of moderate size."""

LINES_SHOWN = 8


def run_script(
    python: Path, script: Path, folder: Path, model: str, result: str, expected: str, hint: str
) -> None:
    """Have a Python run a script on the job in a folder, to the end.

    The script writes why it does not do it to `refused.json`. model: for messages.  result: the
    file that it writes last.
    Raises CaptureError: AOTC-E844 for what it does not do, E843 for a Python without what it needs,
    with what was expected of that and a hint.
    """
    command = [str(python.absolute()), "-I", str(script), str(folder)]
    try:
        status, said = Processes().run(command, folder, dict(os.environ), SECONDS_MAX)
    except (OSError, TimeoutExpired) as error:
        status, said = 1, [str(error)]
    refused = folder / "refused.json"
    if refused.exists():
        reasons = msgspec.json.decode(refused.read_bytes(), type=list[str])
        raise CaptureError(*(finding("AOTC-E844", model, each) for each in reasons))
    if status or not (folder / result).exists():
        found = quoted(describe_status(status), said[-LINES_SHOWN:])
        where, cause = f"{python} {model}", "framework-process-failed"
        raise refusal("AOTC-E843", where, found, cause=cause, expected=expected, hint=hint)
