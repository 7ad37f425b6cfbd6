"""Runs the parity worker in a process of its own and reads its answer, so that a crash of an
executable is a finding of the build."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from aotc.errors import ParityError, finding, refusal
from aotc.processes import Processes
from aotc.workers import parent
from aotc.workers.environment import inherited
from aotc.workers.forked import kept
from aotc_runtime.errors import AotcError, Finding
from aotc_runtime.schema.labels import ExecutableKey
from aotc_runtime.schema.manifest import ParityNotRun, ParityRan
from aotc_runtime.serving.readiness import Difference

WORKER = "aotc.parity.worker"

SECONDS_MAX = 1800
"""Fixtures are one call per executable; half an hour means that one of them does not end."""

STDERR_LINES_SHOWN = 12

PASSING = ("AOTC-E551",)
"""Findings about a host that may not last: too little free memory."""


class Differing(Struct, frozen=True):
    """What a caller of the bundle finds to be otherwise than in plain JAX. where: the call and the
    path within it.
    """

    where: str
    expected: str
    found: str


class Job(Struct, frozen=True):
    """bundle, policy: paths.  folder: with the calls of plain JAX, and the trials of padded and
    split ones, if there are any.
    """

    bundle: str
    policy: str
    target: str
    folder: str


class Answer(Struct, frozen=True):
    """What the worker finds. fixtures: how far each executable's results are from their reference.
    differing: beside these, and beside the reasons why this host is unsuited.
    """

    unsuited: list[dict[str, str]] = []
    fixtures: list[tuple[ExecutableKey, Difference]] = []
    differing: list[Differing] = []
    trials: list[list[Difference]] = []


class Ran(Struct, frozen=True):
    """What a target's executables did. trials: of each entry point that has any, in the order of
    the plan.  not_run: why this host cannot run them; then nothing else is known.  lasting: false
    if it only lacks free memory at the moment.
    """

    fixtures: tuple[tuple[ExecutableKey, ParityRan], ...] = ()
    trials: list[list[Difference]] = []
    not_run: ParityNotRun | None = None
    lasting: bool = True


def run(
    bundle: Path,
    policy: Path,
    target: str,
    folder: Path,
    processes: Processes,
    worker: Sequence[str] | None = None,
) -> Ran:
    """Run all fixtures of one target, and the trials that lie in a folder.

    worker: a command that does it, in place of processes that are forked.

    What trials come to is for the caller to judge. Raises ParityError: AOTC-E951 beyond tolerance,
    E952 the process crashed or hung, E953 the runtime refused the bundle, E959 other arguments or
    results than those of plain JAX.
    """
    try:
        answer = parent.run(
            worker or kept(WORKER),
            Job(str(bundle), str(policy), target, str(folder)),
            Answer,
            within=folder,
            environment=_variables(),
            processes=processes,
            seconds=SECONDS_MAX,
        )
    except parent.CrashedError as crash:
        raise _crash(target, crash) from crash
    except AotcError as error:
        raise ParityError(*map(_refused, error.findings)) from error
    if answer.differing:
        raise ParityError(*(_otherwise(each, target) for each in answer.differing))
    if answer.unsuited:
        reasons = "; ".join(f"expected {f['expected']}" for f in answer.unsuited)
        lasting = all(finding["code"] not in PASSING for finding in answer.unsuited)
        return Ran(not_run=ParityNotRun(reason=reasons), lasting=lasting)
    fixtures = [(key, each.within, _recorded(each)) for key, each in answer.fixtures]
    beyond = [_beyond(key, ran, target) for key, is_within, ran in fixtures if not is_within]
    if beyond:
        raise ParityError(*beyond)
    return Ran(tuple((key, ran) for key, _, ran in fixtures), answer.trials)


def begin() -> None:
    """Import what `run` is going to need, meanwhile."""
    kept(WORKER).begin(_variables(), Path.cwd())


def _variables() -> dict[str, str]:
    return inherited(without=("XLA_", "TF_"))


def _recorded(difference: Difference) -> ParityRan:
    """The difference as a bundle manifest has it."""
    return ParityRan(
        max_abs=repr(difference.max_abs),
        max_rel=repr(difference.max_rel),
        ulp_max=difference.ulp_max,
        elements=difference.elements,
        worst=difference.worst,
    )


def _beyond(key: ExecutableKey, ran: ParityRan, target: str) -> Finding:
    return finding(
        "AOTC-E951",
        f"{key.label} for {target}, output {ran.worst or 'result'}",
        f"max abs error {ran.max_abs}, max rel error {ran.max_rel}, {ran.ulp_max} ulp "
        f"over {ran.elements} elements",
    )


def _otherwise(differing: Differing, target: str) -> Finding:
    return finding(
        "AOTC-E959",
        f"{differing.where} for {target}",
        f"{differing.found}, in a call of the bundle",
        expected=f"as plain JAX has it: {differing.expected}",
        hint="a caller of the bundle would get another answer than one of the function: this is a "
        "bug in aotc, please report it; dicts, lists and tuples of arrays avoid it",
    )


def _refused(finding: Finding) -> Finding:
    found = f"{finding.code}: {finding.found}"
    return Finding(**{**finding.to_json(), "code": "AOTC-E953", "found": found})


def _crash(target: str, crash: parent.CrashedError) -> AotcError:
    found = crash.found(STDERR_LINES_SHOWN)
    hint = crash.starved() or "XLA compiled code that crashes: reduce the program and report it"
    if crash.late:
        found = f"none after {SECONDS_MAX} s"
        hint = "a fixture does not end: check its loops"
    elif crash.misread:
        found = f"an answer that nobody understands: {crash.misread}"
        hint = "code of the bundle has written into it: report it"
    return refusal("AOTC-E952", f"fixtures for {target}", found, hint=hint)
