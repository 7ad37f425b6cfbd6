"""Interpreters of environments that users made: their packages, and scripts of ours that run there.

The scripts run where a framework is and aotc is not, on model files of others.

`python -m aotc.base.foreign_python LIMITS COMMAND...` confines itself and becomes the command: a
framework runs operations of the file while it loads it, which may read and write files.
"""

import os
import signal
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from subprocess import TimeoutExpired

import msgspec
from msgspec import Struct

from aotc.base.child_processes import Processes, describe_status
from aotc.base.errors import CaptureError, finding, quote, refusal
from aotc.base.workers import confined_process, worker_parent
from aotc.base.workers.confined_process import SECONDS_VARIABLE, ProcessLimits
from aotc.base.workers.worker_child import end_with_parent
from aotc.base.workers.worker_environment import inherit
from aotc_runtime.base.errors import AotcError

LIBRARY_BYTES = 8 * 2**30
"""Files that a framework maps, CUDA's libraries among them."""

TEXT_BYTES_MAX = 2**20
"""Names of results, or the reasons of a script."""

LINES_SHOWN = 8

TRACEBACK = "Traceback (most recent call last):"

VERSIONS = """\
import importlib.metadata, json, sys

found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
if "aotc-runtime" in found:
    import cryptography, msgspec, numpy
print(json.dumps(found))
"""
"""Prints the versions of installed packages, and fails if aotc-runtime lacks what it needs."""

VERSIONS_SECONDS = 60


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


def installed_versions(python: Path, packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of those of the packages that an interpreter's environment has.

    Raises ResourceError (AOTC-E559) for a file that is no interpreter.
    """
    command = [str(python.absolute()), "-I", "-B", "-c", VERSIONS, *packages]
    try:
        status, said = Processes().run(command, Path.cwd(), inherit(without=()), VERSIONS_SECONDS)
        if not status:
            return msgspec.json.decode(said[-1], type=dict[str, str])
        found = quote(describe_status(status), said[-1:])
    except TimeoutExpired:
        found = f"no answer within {VERSIONS_SECONDS} s"
    except OSError as error:
        found = "a directory" if python.is_dir() else str(error.strerror)
    except (IndexError, ValueError):  # MsgspecError is a ValueError
        found = "output that is not of Python"
    raise refusal("AOTC-E559", str(python), found, cause="interpreter-does-not-run")


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
    limits = ProcessLimits.from_env(size + LIBRARY_BYTES, str(folder))
    confined = _Confined(limits, confined_process.secrets())
    own = [*worker_parent.module(__name__), msgspec.json.encode(confined).decode()]
    command = [str(python.absolute()), "-I", str(script.path), str(folder)]
    environment = {**inherit(without=()), "TMPDIR": str(folder)}
    try:
        ended = Processes().run([*own, *command], folder, environment, limits.seconds)
        status, said = ended
    except TimeoutExpired:
        status, said = -signal.SIGXCPU, []
    except OSError as error:
        status, said = 1, [str(error)]
    refused = folder / "refused.json"
    if os.path.lexists(refused):
        reasons: list[str] = []
        with suppress(ValueError), open_result(refused) as file:  # it was killed while it wrote
            reasons = msgspec.json.decode(file.read(TEXT_BYTES_MAX), type=list[str])
        if reasons:
            raise CaptureError(*(finding("AOTC-E844", model, each) for each in reasons))
        status = status or 1
    if status or not (folder / script.result).exists():
        found, hint = quote(describe_status(status), said[-LINES_SHOWN:]), script.hint
        if TRACEBACK in said:  # whose frames are the script's and the framework's
            last = len(said) - said[::-1].index(TRACEBACK)
            raised = [line for line in said[last:] if not line.startswith(" ")][:LINES_SHOWN]
            found = quote(raised[0], raised[1:]) if raised else found
            hint = hint if "ImportError" in found or "ModuleNotFoundError" in found else ""
        if status == -signal.SIGXCPU:
            found = f"more than {limits.seconds} s"
            hint = f"set {SECONDS_VARIABLE} if it needs longer"
        if python.is_dir():
            found, hint = "a directory", f"pass `--python {python / 'bin' / 'python'}`"
        where, cause = f"{python} {model}", "framework-process-failed"
        raise refusal("AOTC-E843", where, found, cause=cause, expected=script.expected, hint=hint)


def open_result(path: Path) -> BufferedReader:
    """Open a file that a script wrote, for reading.

    The script's process may be under control of the model, and this one may read keys. Raises
    CaptureError (AOTC-E843) for a missing file, a link, and anything but a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
    except OSError as error:
        raise bad_result(path, os.strerror(error.errno or 0)) from error
    raise bad_result(path, "a link or a special file")


def bad_result(path: Path, found: str) -> AotcError:
    """Return AOTC-E843 for a file that no script of ours writes."""
    cause, expected = "framework-process-failed", "a file as the script writes it"
    return refusal("AOTC-E843", path.name, found, cause=cause, expected=expected)


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
