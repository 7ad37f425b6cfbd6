"""Scripts of ours that run where a framework is and aotc is not, on model files of others.

`python -m aotc.base.foreign_python LIMITS COMMAND...` confines itself and becomes the command: a
framework runs operations of the file while it loads it, which may read and write files.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired

import msgspec
from msgspec import Struct

from aotc.base.child_processes import Processes, describe_status
from aotc.base.errors import CaptureError, finding, quoted, refusal
from aotc.base.workers import confined_process, worker_parent
from aotc.base.workers.confined_process import SECONDS_VARIABLE, ProcessLimits
from aotc.base.workers.worker_child import end_with_parent
from aotc.base.workers.worker_environment import inherited

LIBRARY_BYTES = 8 * 2**30
"""Files that a framework maps, CUDA's libraries among them."""

LINES_SHOWN = 8


class _Confined(Struct, frozen=True):
    """The limits of a script's process, and the files that it must not read."""

    limits: ProcessLimits
    secrets: tuple[str, ...]


class Script(Struct, frozen=True):
    """A script, and how its failure is reported.

    Attributes:
        path: The script.
        result: The file that it writes last.
        expected: The Python and packages that it needs.
        hint: For a Python without them.
    """

    path: Path
    result: str
    expected: str
    hint: str


def run_script(python: Path, script: Script, folder: Path, model: str, size: int) -> None:
    """Run a script on the job in a folder, to the end, in a confined process.

    The script writes its reasons to `refused.json` if it rejects the model.

    Args:
        python: An interpreter with the framework.
        script: The script.
        folder: Where the job lies; the only folder that the process can write to.
        model: The model's path, for messages.
        size: Bytes of the model's files.

    Raises:
        CaptureError: AOTC-E844 for a model that the script rejects; E843 for a Python without the
            packages, and for a process that crashes or exceeds its limits.
        UsageError: AOTC-E001 for limits that cannot be read.
    """
    limits = ProcessLimits.stated(size + LIBRARY_BYTES, str(folder))
    confined = _Confined(limits, confined_process.secrets())
    own = [*worker_parent.module(__name__), msgspec.json.encode(confined).decode()]
    command = [str(python.absolute()), "-I", str(script.path), str(folder)]
    environment = {**inherited(without=()), "TMPDIR": str(folder)}
    try:
        ended = Processes().run([*own, *command], folder, environment, limits.seconds)
        status, said = ended
    except TimeoutExpired:
        status, said = -signal.SIGXCPU, []
    except OSError as error:
        status, said = 1, [str(error)]
    refused = folder / "refused.json"
    if refused.exists():
        reasons: list[str] = []
        with suppress(ValueError):  # it was killed while it wrote
            reasons = msgspec.json.decode(refused.read_bytes(), type=list[str])
        if reasons:
            raise CaptureError(*(finding("AOTC-E844", model, each) for each in reasons))
        status = status or 1
    if status or not (folder / script.result).exists():
        found, hint = quoted(describe_status(status), said[-LINES_SHOWN:]), script.hint
        if status == -signal.SIGXCPU:
            found = f"more than {limits.seconds} s"
            hint = f"set {SECONDS_VARIABLE} if it needs longer"
        where, cause = f"{python} {model}", "framework-process-failed"
        raise refusal("AOTC-E843", where, found, cause=cause, expected=script.expected, hint=hint)


def main(arguments: Sequence[str]) -> None:
    """Confine this process by the limits in `arguments`, and become the command after them."""
    limits, *command = arguments
    confined = msgspec.json.decode(limits, type=_Confined)
    end_with_parent()  # which the command inherits, as it does all measures
    confined_process.keep_secret(*confined.secrets)
    confined_process.begin(confined.limits)
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
