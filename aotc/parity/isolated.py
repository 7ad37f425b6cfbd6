"""Runs the parity worker in a process of its own and reads its answer, so that a crash of an
executable is a finding of the build."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from aotc.errors import ParityError, quoted
from aotc.processes import Processes, describe_status, inherited, last_line
from aotc.shapes.trials import Outcome
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import ParityNotRun, ParityRan

SECONDS_MAX = 1800
"""Fixtures are one call per executable; half an hour means that one of them does not end."""

STDERR_LINES_SHOWN = 12

PASSING = ("AOTC-E551",)
"""Findings about a host that may not last: too little free memory."""


class Result(Struct, frozen=True):
    """One fixture's outcome, as `aotc_runtime.serving.readiness.FixtureResult` has it."""

    label: str
    entry_point: str
    profile: int
    max_abs: float | None
    max_rel: float | None
    ulp_max: int
    elements: int
    worst: str
    within_tolerance: bool


class Differing(Struct, frozen=True):
    """What a caller of the bundle finds to be otherwise than in plain JAX. where: the call and the
    path within it.
    """

    where: str
    expected: str
    found: str


class Answer(Struct, frozen=True):
    """What the worker prints. differing: beside results, and beside the reasons why this host is
    unsuited.
    """

    unsuited: list[dict[str, str]] = []
    failed: list[dict[str, str]] = []
    results: list[Result] = []
    differing: list[Differing] = []
    trials: list[list[Outcome]] = []


@dataclass(frozen=True, slots=True)
class Ran:
    """What a target's executables did. fixtures: by (entry point, profile index).  trials: of each
    entry point that has any, in the order of the plan.
    """

    fixtures: dict[tuple[str, int], ParityRan]
    trials: list[list[Outcome]]


@dataclass(frozen=True, slots=True)
class NotRun:
    """This host cannot run the target. lasting: false if it only lacks free memory at the
    moment.
    """

    why: ParityNotRun
    lasting: bool


def run(
    bundle: Path, policy: Path, target: str, folder: Path, processes: Processes
) -> Ran | NotRun:
    """Run all fixtures of one target, and the trials that lie in a folder.

    What trials come to is for the caller to judge. Raises ParityError: AOTC-E951 beyond tolerance,
    E952 the process crashed or hung, E953 the runtime refused the bundle, E959 other arguments or
    results than those of plain JAX.
    """
    try:
        with processes.started(
            [
                *(sys.executable, "-P", "-m", "aotc.parity.worker"),
                *(str(bundle), str(policy), target, str(folder)),
            ],
            env=inherited(without=("XLA_", "TF_")),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            answered, complained = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired as error:
        found = f"none after {SECONDS_MAX} s"
        raise _crash(target, found, "a fixture does not end: check its loops") from error
    if process.returncode != 0:
        said = complained.decode(errors="replace").strip().splitlines()[-STDERR_LINES_SHOWN:]
        raise _crash(
            target,
            quoted(describe_status(process.returncode), said),
            "XLA compiled code that crashes: reduce the program and report it",
        )
    try:
        answer = msgspec.json.decode(last_line(answered), type=Answer)
    except (ValueError, RecursionError) as error:  # MsgspecError is a ValueError
        found = f"an answer that nobody understands: {error}"
        raise _crash(target, found, "code of the bundle has written into it: report it") from error
    if answer.failed:
        raise ParityError(
            *(
                Finding(**{**finding, "code": "AOTC-E953", "found": _coded(finding)})
                for finding in answer.failed
            )
        )
    if answer.differing:
        raise ParityError(*(_otherwise(each, target) for each in answer.differing))
    if answer.unsuited:
        reasons = "; ".join(f"expected {f['expected']}" for f in answer.unsuited)
        lasting = all(finding["code"] not in PASSING for finding in answer.unsuited)
        return NotRun(ParityNotRun(reason=reasons), lasting)
    failed = [result for result in answer.results if not result.within_tolerance]
    if failed:
        raise ParityError(*(_beyond(result, target) for result in failed))
    fixtures = {(result.entry_point, result.profile): _ran(result) for result in answer.results}
    return Ran(fixtures, answer.trials)


def _beyond(result: Result, target: str) -> Finding:
    ran = _ran(result)
    return Finding(
        code="AOTC-E951",
        where=f"{result.label} for {target}, output {result.worst or 'result'}",
        expected="what plain JAX computes, within the entry point's tolerance",
        found=f"max abs error {ran.max_abs}, max rel error {ran.max_rel}, {ran.ulp_max} ulp "
        f"over {ran.elements} elements",
        hint="raise `tolerance` if the difference is harmless; it comes from another order of "
        "operations, or from a program that is not deterministic",
    )


def _otherwise(differing: Differing, target: str) -> Finding:
    return Finding(
        code="AOTC-E959",
        where=f"{differing.where} for {target}",
        expected=f"as plain JAX has it: {differing.expected}",
        found=f"{differing.found}, in a call of the bundle",
        hint="a caller of the bundle would get another answer than one of the function: this is a "
        "bug in aotc, please report it; dicts, lists and tuples of arrays avoid it",
    )


def _coded(finding: dict[str, str]) -> str:
    return f"{finding['code']}: {finding['found']}"


def _ran(result: Result) -> ParityRan:
    return ParityRan(
        max_abs=_decimal(result.max_abs),
        max_rel=_decimal(result.max_rel),
        ulp_max=result.ulp_max,
        elements=result.elements,
        worst=result.worst,
    )


def _decimal(value: float | None) -> str:
    """A measured error for the manifest; JSON has no infinity, so the worker's null is one."""
    return "inf" if value is None else repr(value)


def _crash(target: str, found: str, hint: str) -> ParityError:
    return ParityError(
        Finding(
            code="AOTC-E952",
            where=f"fixtures for {target}",
            expected="every executable to run its fixture",
            found=found,
            hint=hint,
        )
    )
