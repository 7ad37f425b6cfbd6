"""The parent's side of a job: starts a worker, follows it, and reports its end."""

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, Self

import msgspec

import aotc
from aotc.base.child_processes import Ending, Processes, describe_status
from aotc.base.errors import is_code, quote, raise_if, refusal
from aotc.base.msgpack_values import unpack
from aotc.base.temporary_files import require_room, temporary_folder
from aotc.base.workers.forked_workers import Zygotes
from aotc.base.workers.worker_child import ANSWER, FINDINGS, FINISHED, JOB, STARTED
from aotc_runtime.base.errors import AotcError, Finding

SAID = "said"

FATAL = "Fatal Python error"
"""The first line of Python's fault handler, before the frames of a crash, innermost first."""

LINES_BEFORE = 5
"""Lines shown before those, which may be the last message of a library."""


WITHOUT_MEMORY = (
    *("MemoryError", "bad_alloc", "Cannot allocate memory", "failed to map segment"),
    *("can't start new thread", "out of memory"),
)
"""Messages of Python, C++ and libraries that get no more memory."""


def address_space() -> int | None:
    """Return the limit of this process's address space in bytes; None if it has none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


class CrashedError(Exception):
    """A worker ended with neither a result nor findings.

    Attributes:
        status: Exit status of the process.
        doing: The work that it had started last.
        said: Lines that it printed.
        late: Whether it was ended because it took too long.
        misread: Why its result cannot be read, if it left one.
    """

    def __init__(
        self, status: int, doing: str, said: list[str], *, late: bool, misread: str
    ) -> None:
        super().__init__(misread or describe_status(status))
        self.status, self.doing, self.said = status, doing, said
        self.late, self.misread = late, misread

    def describe(self, lines_max: int) -> str:
        """Return how it ended, what it was doing, and its last lines of output."""
        ended = describe_status(self.status) + (f" while {self.doing}" if self.doing else "")
        return quote(ended, self.last_lines(lines_max))

    def refusal(self, code: str, where: str, lines_max: int, cause: str = "") -> AotcError:
        """Return the error where no better reason is known."""
        hint = self.hint() or (
            "read its last lines above"
            if self.last_lines(lines_max)
            else "look for code that ends a process, such as `os._exit`"
        )
        return refusal(code, where, self.describe(lines_max), cause=cause, hint=hint)

    def hint(self) -> str | None:
        """Return a hint if the signal shows why it ended, or its address space may have run out.

        The shell limits that. XLA, LLVM and OpenBLAS then end a process, and rarely print why.
        """
        if self.status == -signal.SIGBUS:
            return "run it again when no other program writes the files that it reads"
        if self.status == -signal.SIGKILL:
            return "free memory: the system kills processes that need too much"
        limit = address_space()
        is_abort = self.status in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS)
        is_starved = any(word in line for line in self.said for word in WITHOUT_MEMORY)
        if limit is None or not (is_abort or is_starved):
            return None
        return (
            f"a process may have {limit / 2**20:.0f} MiB of address space here: raise that limit, "
            "`ulimit -v unlimited`, and run it again"
        )

    def last_lines(self, lines_max: int) -> list[str]:
        """Return its last lines of output.

        After a crash, these are Python's report without aotc's frames, and the lines before.
        """
        ours = f'  File "{Path(aotc.__path__[0])}{os.sep}'
        for number, line in enumerate(self.said):
            if line.startswith(FATAL):
                users = takewhile(lambda frame: not frame.startswith(ours), self.said[number:])
                before = self.said[max(0, number - LINES_BEFORE) : number]
                return before + list(users)[:lines_max]
        return self.said[-lines_max:]


def module(name: str) -> tuple[str, ...]:
    """Return the command of a worker that is a module of this installation."""
    # -P: the current folder may hold files named like our modules.
    return (sys.executable, "-P", "-m", name)


def ignore_text(text: str) -> None:
    """Ignore a text; the default callback."""


def run[A](
    worker: Sequence[str] | Zygotes,
    job: object,
    answer_type: type[A],
    *,
    within: Path,
    environment: Mapping[str, str],
    processes: Processes,
    working: Path | None = None,
    seconds: float | None = None,
    silent_seconds: float | None = None,
    on_started: Callable[[str], None] = ignore_text,
    on_finished: Callable[[str], None] = ignore_text,
    on_said: Callable[[str], None] = ignore_text,
) -> A:
    """Have a worker do a job, and return its result.

    Args:
        worker: Its command, or the zygotes that fork it.
        job: The job, encoded as MessagePack.
        answer_type: Type of the result.
        within: Where a folder for it is created.
        environment: Its variables.
        processes: The processes that it belongs to.
        working: The folder it runs in, by default that of this process.
        seconds: Time limit.
        silent_seconds: Time limit between two reports of progress.
        on_started: Called with each work that it starts.
        on_finished: Called with each item that it finishes.
        on_said: Called at the end with its output, if any.

    Raises:
        AotcError: The worker's own findings.
        CrashedError: It ended without a result.
        StoppedError: `processes` was stopped.
        OSError: The disk is full.
    """
    doing = ""
    with temporary_folder(within, "job-", "") as folder:
        (folder / JOB).write_bytes(msgspec.msgpack.encode(job))
        with (
            (folder / SAID).open("w+b") as stderr,
            _start(
                worker, folder, working or Path.cwd(), environment, stderr, processes
            ) as process,
            _Watch(process.end, seconds) as whole,
            _Watch(process.end, silent_seconds) as silence,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                silence.again()
                if line.startswith(STARTED):
                    doing = line.removeprefix(STARTED).rstrip("\n")
                    on_started(doing)
                elif line.startswith(FINISHED):
                    on_finished(line.removeprefix(FINISHED).rstrip("\n"))
            status = process.wait()
            stderr.seek(0)
            said = stderr.read().decode(errors="replace").strip()
        if said:
            on_said(said)
        misread = ""
        if status == 0:
            try:
                return unpack((folder / ANSWER).read_bytes(), answer_type)
            except (FileNotFoundError, ValueError, RecursionError) as error:
                misread = str(error)
        raise_if(_findings(folder / FINDINGS))
        require_room(within, status)
    late = whole.is_over or silence.is_over
    raise CrashedError(status, doing, said.splitlines(), late=late, misread=misread)


def _start(
    worker: Sequence[str] | Zygotes,
    folder: Path,
    working: Path,
    environment: Mapping[str, str],
    stderr: IO[bytes],
    processes: Processes,
) -> AbstractContextManager[Ending]:
    """Start the process of a job with the job's folder."""
    if isinstance(worker, Zygotes):
        return processes.running(lambda: worker.begin(environment).fork(folder, working, stderr))
    return processes.start(
        [*worker, str(folder)],
        cwd=working,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=dict(environment),
        encoding="utf-8",
        errors="replace",
    )


def _findings(path: Path) -> list[Finding]:
    """Return the findings of a worker that rejected its job; none if they cannot be read."""
    try:
        raw = msgspec.json.decode(path.read_bytes(), type=list[dict[str, str]])
        findings = [Finding(**each) for each in raw]
    except (FileNotFoundError, ValueError, RecursionError, TypeError):
        return []
    return findings if all(is_code(each.code) for each in findings) else []


class _Watch:
    """Ends a process after a number of seconds; None for never."""

    def __init__(self, end: Callable[[], None], seconds: float | None) -> None:
        self._end, self._seconds = end, seconds
        self.is_over = False
        self._timer: threading.Timer | None = None

    def again(self) -> None:
        """Restart the countdown."""
        if self._timer is not None:
            self._timer.cancel()
        if self._seconds is not None:
            self._timer = threading.Timer(self._seconds, self._late)
            self._timer.daemon = True
            self._timer.start()

    def __enter__(self) -> Self:
        self.again()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
            # Which has this: a cycle would keep the zygote until somebody collects garbage.
            self._timer = None

    def _late(self) -> None:
        self.is_over = True
        self._end()
