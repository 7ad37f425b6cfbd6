"""Runs scripts of aotc in a Python that has a framework, but not aotc."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired

import msgspec

from aotc.base.child_processes import Processes, describe_status
from aotc.base.errors import CaptureError, finding, quoted, refusal
from aotc.base.workers.worker_environment import inherited

SECONDS_MAX = 6 * 3600.0
"""TensorFlow takes some ten seconds for each profile of a network of moderate size."""

LINES_SHOWN = 8


def run_script(
    python: Path, script: Path, folder: Path, model: str, result: str, expected: str, hint: str
) -> None:
    """Run a script on the job in a folder with another Python, until it ends.

    The script writes its reasons to `refused.json` if it cannot do the job. `model` is for
    messages; `result` is the file that the script writes last; `expected` and `hint` describe what
    that Python needs.

    Raises:
        CaptureError: AOTC-E844 for a refused job, E843 for a Python without the packages it needs.
    """
    command = [str(python.absolute()), "-I", str(script), str(folder)]
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
