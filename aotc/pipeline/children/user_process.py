"""Child processes that run the user's code.

The user's code can end a process with any status: an end without an answer is a crash, reported
with what it was doing and what it said last.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path

import msgspec
from msgspec import Struct

from aotc.base.child_processes import Processes
from aotc.base.errors import refusal
from aotc.base.workers import worker_environment, worker_parent
from aotc.base.workers.confined_process import SECONDS_VARIABLE, Apart
from aotc.base.workers.forked_workers import Zygotes, kept
from aotc.pipeline.scratch_folder import scratch_folder
from aotc_runtime.base.errors import AotcError

LINES_SHOWN = 15


def run[A](
    worker: Sequence[str] | Zygotes,
    job: Struct,
    answer_type: type[A],
    *,
    within: Path,
    variables: Mapping[str, str],
    failure_code: str,
    doing: str,
    processes: Processes,
    seconds: float | None = None,
    on_finished: Callable[[str], None] = worker_parent.nobody,
    on_output: Callable[[str], None] = worker_parent.nobody,
) -> A:
    """Have a worker do a job, and return its answer; `aotc.base.workers.worker_parent.run` has
    more.

    variables: its environment.  doing: for messages, e.g. "the capture".  on_finished: gets each
    finished item.  on_output: gets, at the end, what the child and the user's code in it printed.

    Raises the child's own findings, the family of failure_code for a crash, OSError if there is no
    room left.
    """
    try:
        return worker_parent.run(
            worker,
            job,
            answer_type,
            within=within,
            environment=variables,
            processes=processes,
            seconds=seconds,
            on_finished=on_finished,
            on_said=on_output,
        )
    except worker_parent.CrashedError as crash:
        expected = "the process to finish"
        if seconds is not None and (crash.late or crash.status == -signal.SIGXCPU):
            found = f"more than {seconds:g} s" + (f" while {crash.doing}" if crash.doing else "")
            hint = f"set {SECONDS_VARIABLE} if it needs longer"
            raise refusal(failure_code, doing, found, expected=expected, hint=hint) from crash
        raise crash.refusal(failure_code, doing, expected, LINES_SHOWN) from crash


def ask[A](
    module: str,
    job: Struct,
    answer_type: type[A],
    *,
    variables: Mapping[str, str],
    doing: str,
    limits: Callable[[str], Apart | None] = lambda folder: None,
    on_output: Callable[[str], None] = worker_parent.nobody,
) -> A:
    """Have a module of ours do a job, for a command that runs the user's code once. A zygote forks
    it, which commands share that this process runs one after the other.

    variables: to add to the environment that every child has.  limits: of the folder for temporary
    files, gives what the child may use, which the job then has as `apart`; None for no limits.
    doing, on_output: as for `run`. Raises the child's own findings, CaptureError (AOTC-E835) for a
    crash.
    """
    with scratch_folder() as folder:
        apart = limits(str(folder))
        if apart is not None:
            job = msgspec.structs.replace(job, apart=apart)
        return run(
            kept(module),
            job,
            answer_type,
            within=folder,
            seconds=None if apart is None else apart.seconds,
            variables=worker_environment.clean({"JAX_PLATFORMS": "cpu", **variables}),
            failure_code="AOTC-E835",
            doing=doing,
            processes=Processes(),
            on_output=on_output,
        )


def begin_as_if_alone() -> None:
    """In a process that was forked: nobody may find what another process would not, the same
    numbers by chance, and a folder without what has been put there since.
    """
    if "numpy" in sys.modules:
        import numpy as np

        np.random.seed()
    importlib.invalidate_caches()


def runs_users_code[**P, R](work: Callable[P, R]) -> Callable[P, R]:
    """Decorates the work of a child process: the place of a crash is printed for the parent, and
    so is the user's own traceback behind a refusal.
    """

    @wraps(work)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A crash must not take with it what was printed before.
            sys.stdout.reconfigure(line_buffering=True)
        faulthandler.enable(all_threads=False)
        try:
            return work(*args, **kwargs)
        except AotcError as error:
            from aotc.capture import user_exceptions

            user_exceptions.show_cause(error)
            raise

    return told
