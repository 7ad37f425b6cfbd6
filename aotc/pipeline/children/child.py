"""Child processes of a build: how they are started, report progress, and fail.

A child writes what it made into a folder and prints a line for each item that it starts and that it
finishes (`aotc.pipeline.children.progress`); its last act is to leave a file `finished`, since the
user's code can end a process with status 0. If it refuses, it writes the findings to
`findings.json` there and exits with the family's exit code; any other end is a crash, reported with
what it was doing and the last lines of what it said.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import NoReturn

import msgspec

import aotc
from aotc.errors import finding, quoted, raise_if
from aotc.pipeline.children.progress import FINISHED, STARTED, Progress
from aotc.processes import GRACE_SECONDS, Processes, describe_status, inherited
from aotc.temporaries import require_room
from aotc_runtime.errors import AotcError, Finding

FINDINGS_FILE = "findings.json"
FINISHED_FILE = "finished"
STDERR_LINES_SHOWN = 15

FATAL = "Fatal Python error"
"""How Python's fault handler begins, before the frames of a crash, innermost first."""


PINNED = {"PYTHONHASHSEED": "0", "TF_CPP_MIN_LOG_LEVEL": "1"}
"""Variables that every child is given."""

STEERING = ("JAX_", "XLA_", "TF_", "PJRT_", "LIBTPU_", "NPROC")
"""How variables begin that steer jax and XLA, which no child is given but by the toolchain."""


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process' environment without what steers jax and XLA, plus `extra`.

    Options of the compiler belong in target files, where the bundle records them.
    """
    return {**inherited(without=STEERING), **PINNED, **extra}


def decides(name: str) -> bool:
    """Whether the toolchain sets a variable for its children, or takes it away from them."""
    return name in PINNED or name.startswith(STEERING)


def ignored_variables() -> list[str]:
    """Variables of this environment that are set, and that a build does not pass on."""
    return sorted(k for k in os.environ if k.startswith(("JAX_", "XLA_", "PJRT_")))


def run(
    module: str,
    arguments: list[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    failure_code: str,
    doing: str,
    on_line: Callable[[str], None],
    processes: Processes,
    on_output: Callable[[str], None] = lambda text: None,
) -> None:
    """Run `python -m module arguments` to its end. doing: for messages, e.g. "the capture".

    on_line: gets each finished item.  on_output: gets, at the end, what the child and the user's
    code in it printed, if anything.
    Raises the child's own findings; a crash as a Finding with `failure_code`; OSError if there is
    no room left in the folder.
    """
    (folder / FINISHED_FILE).unlink(missing_ok=True)
    with (
        (folder / f"{module}.stderr").open("w+b") as stderr,
        processes.started(
            # -P: the folder a build is started in may hold files named like our modules.
            [sys.executable, "-P", "-m", module, *arguments],
            grace=GRACE_SECONDS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=dict(environment),
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        current = ""
        for line in process.stdout:
            if line.startswith(STARTED):
                current = line.removeprefix(STARTED).rstrip("\n")
            elif line.startswith(FINISHED):
                on_line(line.removeprefix(FINISHED).rstrip("\n"))
        status = process.wait()
        stderr.seek(0)
        said = stderr.read().decode(errors="replace").strip()
        if said:
            on_output(said)
        if status == 0 and (folder / FINISHED_FILE).exists():
            return
        findings_file = folder / FINDINGS_FILE
        if findings_file.exists():
            raw = msgspec.json.decode(findings_file.read_bytes(), type=list[dict[str, str]])
            raise_if(Finding(**finding) for finding in raw)
    require_room(folder, status)
    raise_if([_crash(failure_code, doing, current, status, _last_lines(said))])


def _crash(code: str, doing: str, current: str, status: int, lines: list[str]) -> Finding:
    found = describe_status(status) + (f" while {current}" if current else "")
    if lines:
        hint = "the lines above are what it said last"
    elif status == -signal.SIGKILL:
        hint = "is there enough memory? the system kills processes that need too much"
    else:
        hint = "it said nothing; look for code that ends a process, such as os._exit"
    return finding(code, doing, quoted(found, lines), expected="the process to finish", hint=hint)


def _last_lines(said: str) -> list[str]:
    """The last lines that a child printed. After a crash: Python's report of it, without our own
    frames, and the lines just before.
    """
    lines = said.splitlines()
    ours = f'  File "{Path(aotc.__path__[0])}{os.sep}'
    for number, line in enumerate(lines):
        if line.startswith(FATAL):
            users = takewhile(lambda frame: not frame.startswith(ours), lines[number:])
            return lines[max(0, number - 5) : number] + list(users)[:STDERR_LINES_SHOWN]
    return lines[-STDERR_LINES_SHOWN:]


def end(status: int) -> NoReturn:
    """In the child: end now, whatever threads the user's code has started and left running."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def work(folder: Path, do: Callable[[Progress], None]) -> int:
    """In the child: do the work, and tell the parent how it ended. Returns the exit code."""
    from aotc.capture import raised

    progress = Progress.claim_stdout()
    try:
        do(progress)
    except AotcError as error:
        raised.show_cause(error)
        return report(folder, error)
    return finish(folder)


def finish(folder: Path) -> int:
    """In the child: tell the parent that everything was made. Returns the exit code."""
    (folder / FINISHED_FILE).touch()
    return 0


def report(folder: Path, error: AotcError) -> int:
    """In the child: write the findings for the parent. Returns the exit code."""
    data = msgspec.json.encode([finding.to_json() for finding in error.findings])
    part = folder / f"{FINDINGS_FILE}.part"  # whole or not there, should the disk be full
    part.write_bytes(data)
    part.rename(folder / FINDINGS_FILE)
    return error.exit_code
