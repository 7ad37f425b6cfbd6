"""Runs the worker in an environment and says how it ended: a crash there is a result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from aotc.base.child_processes import Processes, describe_status
from aotc.base.errors import finding, quote
from aotc.base.workers import worker_parent
from aotc.base.workers.worker_environment import inherit
from aotc.commands.certify import certify_worker
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.formats import certificate_predicate
from aotc_runtime.schema.certified_releases import Release
from aotc_runtime.schema.trust_policy import TrustPolicy

STDERR_LINES_SHOWN = 6
STEERING = ("JAX_", "XLA_", "TF_", "PJRT_", "NPROC", "LD_PRELOAD")

RESULTS = "AOTC-E7"
"""Codes of findings that are results of this release: it or a fixture refused. Others are about the
bundle, the policy or the host."""


class _Surroundings(certificate_predicate.Surroundings, frozen=True):
    """version: of the package that runs the target there."""

    version: str


class _Event(Struct, frozen=True):
    """A step that the worker has finished: one of these is set."""

    surroundings: _Surroundings | None = None
    verified: str = ""
    ran: certificate_predicate.FixtureRun | None = None


class Job(Struct, frozen=True):
    """A target of a bundle that is to run, as the worker gets it.

    package: what runs it.  accepted: a version of that which the target accepts by itself.
    root_digest: of the bundle, which the worker has to find too.  fixtures: how many there are.
    platforms, devices: what the target wants to be known of a host, and how many it runs on.
    """

    bundle: str
    policy: TrustPolicy
    target: str
    package: str
    accepted: str
    root_digest: str
    fixtures: int
    platforms: Mapping[str, Sequence[str]]
    devices: int = 1


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a target under a release.

    `outcome` is that of a certificate, or "" where the target could not run under any release;
    findings then have the reason. `detail` describes a failure. `surroundings` is None if the
    process did not report them.
    """

    target: str
    release: Release
    outcome: str
    detail: str
    fixtures: tuple[certificate_predicate.FixtureRun, ...]
    surroundings: certificate_predicate.Surroundings | None
    findings: tuple[Finding, ...] = ()


def run(
    python: Path,
    folder: Path,
    release: Release,
    job: Job,
    seconds: float,
    on_fixture: Callable[[int], None],
    processes: Processes,
) -> Trial:
    """Run one target's fixtures in an environment.

    python: its interpreter.  folder: for temporary files.  release: what runs the target there.
    seconds: how long it may take.  on_fixture: gets the number of fixtures that have run.
    """
    where: _Surroundings | None = None
    verified = ""
    runs: list[certificate_predicate.FixtureRun] = []

    def heard(item: str) -> None:
        nonlocal where, verified
        event = _event(item)
        where, verified = where or event.surroundings, verified or event.verified
        runs.extend([event.ran] if event.ran is not None else [])
        on_fixture(len(runs))

    def trial(outcome: str, detail: str, findings: tuple[Finding, ...] = ()) -> Trial:
        return Trial(job.target, release, outcome, detail, tuple(runs), where, findings)

    try:
        worker_parent.run(
            (str(python.absolute()), "-I", "-B", certify_worker.__file__),
            job,
            type(None),
            within=folder,
            environment={**inherit(without=STEERING), "TF_CPP_MIN_LOG_LEVEL": "1"},
            processes=processes,
            seconds=seconds,
            on_finished=heard,
        )
    except AotcError as error:
        if not error.code.startswith(RESULTS):
            return trial("", "", error.findings)
        reasons = "; ".join(f"{f.code} {f.where}: found {f.found}" for f in error.findings)
        return trial(certificate_predicate.REFUSED, reasons, error.findings)
    except worker_parent.CrashedError as crash:
        doing = crash.doing or "starting"
        if crash.late:
            return trial(certificate_predicate.HUNG, f"did not end in {seconds:g} s, while {doing}")
        ended = f"{describe_status(crash.status)}, while {doing}"
        return trial(
            certificate_predicate.CRASHED, quote(ended, crash.last_lines(STDERR_LINES_SHOWN))
        )
    if where is None:
        return trial(certificate_predicate.CRASHED, "exit status 0, while starting")
    if (where.version, verified) != (release.version, job.root_digest):
        found = f"{release.package} {where.version} on {verified}"
        expected = f"{release} with {job.root_digest}"
        cause = "environment-changed-during-certification"
        changed = finding("AOTC-E559", job.bundle, found, cause=cause, expected=expected)
        return trial("", "", (changed,))
    if beyond := [run.label for run in runs if not run.withinTolerance]:
        return trial(certificate_predicate.BEYOND, "beyond tolerance in " + ", ".join(beyond))
    return trial(certificate_predicate.PASSED, "")


def _event(item: str) -> _Event:
    """Return an event, without what the bundle's code wrote among the events."""
    try:
        return msgspec.json.decode(item, type=_Event)
    except (ValueError, RecursionError):  # MsgspecError is a ValueError
        return _Event()
