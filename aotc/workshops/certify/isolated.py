"""Runs the worker in an environment and says how it ended: a crash there is a result."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns

import msgspec
from msgspec import Struct

import aotc_runtime
from aotc.errors import finding, quoted
from aotc.processes import Processes, describe_status
from aotc.workshops.certify import worker
from aotc_runtime.errors import Finding
from aotc_runtime.formats.certificate import (
    BEYOND,
    CRASHED,
    HUNG,
    PASSED,
    REFUSED,
    FixtureRun,
    Surroundings,
)
from aotc_runtime.schema.policy import TrustPolicy

STDERR_LINES_SHOWN = 6
STEERING = ("JAX_", "XLA_", "TF_", "PJRT_", "NPROC", "LD_PRELOAD")


class _Surroundings(Surroundings, frozen=True):
    jaxlib: str


class _Event(Struct, frozen=True):
    """A line of the worker's: one of these is set."""

    doing: str = ""
    surroundings: _Surroundings | None = None
    verified: str = ""
    ran: FixtureRun | None = None
    unsuited: tuple[Finding, ...] = ()
    refused: tuple[Finding, ...] = ()
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """A target of a bundle that is to run. accepted_jaxlib: a version that it accepts by itself.
    root_digest: of the bundle, which the worker has to find too.  fixtures: how many there are.
    devices: how many the target runs on.
    """

    bundle: Path
    policy: TrustPolicy
    target: str
    accepted_jaxlib: str
    root_digest: str
    fixtures: int
    devices: int = 1


@dataclass(frozen=True, slots=True)
class Trial:
    """How a target ran under a jaxlib. outcome: of a certificate's, or "" where the target did
    not get as far as to run, whatever the jaxlib; findings say why.  detail: what happened, if it
    did not pass.  surroundings: None if the process did not get as far as to say.
    """

    target: str
    jaxlib: str
    outcome: str
    detail: str
    fixtures: tuple[FixtureRun, ...]
    surroundings: Surroundings | None
    findings: tuple[Finding, ...] = ()


@contextmanager
def runtime_copy() -> Iterator[Path]:
    """A folder with the package aotc_runtime that runs here, and nothing else."""
    with tempfile.TemporaryDirectory(prefix="aotc-runtime-") as folder:
        (source,) = aotc_runtime.__path__
        name = aotc_runtime.__name__
        copytree(source, Path(folder) / name, ignore=ignore_patterns("__pycache__"))
        yield Path(folder)


def run(
    python: Path,
    runtime: Path,
    jaxlib: str,
    job: Job,
    seconds: float,
    on_fixture: Callable[[int], None],
    processes: Processes,
) -> Trial:
    """Run one target's fixtures in an environment.

    python: its interpreter.  runtime: what `runtime_copy` made.  jaxlib: the version there.
    seconds: how long it may take.  on_fixture: gets the number of fixtures that have run.
    """
    command = [str(python), "-I", "-B", worker.__file__, str(runtime)]
    events: list[_Event] = []
    with (
        tempfile.TemporaryFile() as stderr,
        processes.started(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=_environment(os.environ),
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            _tell(process, job)
            for line in process.stdout:
                events.append(_event(line))
                on_fixture(sum(event.ran is not None for event in events))
            status = process.wait()
        finally:
            timer.cancel()
        stderr.seek(0)
        said = stderr.read().decode(errors="replace").strip().splitlines()[-STDERR_LINES_SHOWN:]
    ended = f"did not end in {seconds:g} s" if late.is_set() else ""
    return _trial(job, jaxlib, events, ended, status, said)


def _event(line: bytes) -> _Event:
    """Nothing of what was cut off, or that code of the bundle has written into the answers."""
    try:
        return msgspec.json.decode(line, type=_Event)
    except (ValueError, RecursionError):  # MsgspecError is a ValueError
        return _Event()


def _tell(process: subprocess.Popen[bytes], job: Job) -> None:
    message = {
        "bundle": str(job.bundle.resolve()),
        "policy": job.policy,
        "target": job.target,
        "accepted_jaxlib": job.accepted_jaxlib,
        "devices": job.devices,
    }
    assert process.stdin is not None
    try:
        process.stdin.write(msgspec.json.encode(message))
        process.stdin.close()
    except BrokenPipeError:
        pass  # it died before it was told; how is in its status


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in environment.items() if not k.startswith(STEERING)}
    return {**kept, "TF_CPP_MIN_LOG_LEVEL": "1"}


def _something_else(job: Job, jaxlib: str, found: str) -> Finding:
    return finding(
        "AOTC-E559",
        str(job.bundle),
        f"jaxlib {found}",
        expected=f"jaxlib {jaxlib} to run {job.root_digest}",
        hint="the bundle or the environment was replaced meanwhile: certify again, with --refresh",
    )


def _trial(
    job: Job, jaxlib: str, events: list[_Event], late: str, status: int, said: list[str]
) -> Trial:
    runs = tuple(event.ran for event in events if event.ran is not None)
    where = next((e.surroundings for e in events if e.surroundings is not None), None)
    doing = next((event.doing for event in reversed(events) if event.doing), "starting")
    last = events[-1] if events else _Event()

    def trial(outcome: str, detail: str, findings: tuple[Finding, ...] = ()) -> Trial:
        return Trial(job.target, jaxlib, outcome, detail, runs, where, findings)

    if late:
        return trial(HUNG, f"{late}, while {doing}")
    if last.unsuited:
        return trial("", "", last.unsuited)
    if last.refused:
        reasons = "; ".join(f"{f.code} {f.where}: found {f.found}" for f in last.refused)
        return trial(REFUSED, reasons, last.refused)
    if status != 0 or not last.finished or where is None:
        return trial(CRASHED, quoted(f"{describe_status(status)}, while {doing}", said))
    verified = next((event.verified for event in events if event.verified), "")
    if (where.jaxlib, verified) != (jaxlib, job.root_digest):
        return trial("", "", (_something_else(job, jaxlib, f"{where.jaxlib} on {verified}"),))
    beyond = [run.label for run in runs if not run.withinTolerance]
    if beyond:
        return trial(BEYOND, "beyond tolerance in " + ", ".join(beyond))
    return trial(PASSED, "")
