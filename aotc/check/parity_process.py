"""Runs the parity worker in a process, so that a crash of an executable is a finding."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from aotc.base.child_processes import Processes
from aotc.base.errors import EngineFailedError, ParityError, finding, refusal
from aotc.base.workers import confined_process, worker_parent
from aotc.base.workers.forked_workers import kept
from aotc.base.workers.worker_environment import inherited
from aotc.check.plain_structures import Leaf
from aotc.check.value_inputs import SPECIAL
from aotc.check.value_trials import FIXTURE, ValueRan, ValuesRan
from aotc.check.value_verdict import CallVerdict
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.bundle_manifest import ParityNotRun, ParityRan
from aotc_runtime.schema.manifest_labels import ExecutableKey
from aotc_runtime.serving.readiness import Difference

WORKER = "aotc.check.parity_worker"

SECONDS_MAX = 1800
"""Fixtures are one call per executable; half an hour means that one of them does not end."""

EVALUATION_SECONDS_MAX = 4 * 3600
"""Evaluation data may be many calls."""

STDERR_LINES_SHOWN = 12

PASSING = ("AOTC-E551",)
"""Findings about a host that may not last: too little free memory."""

FAILS_AT_A_CALL = "engine-fails-at-a-call"

ENGINE_FAILURES = {
    "AOTC-E753": "engine-cannot-load-its-executable",
    "AOTC-E755": FAILS_AT_A_CALL,
}
"""Causes of AOTC-E953, by the code with which the loader reports an engine."""


class Differing(Struct, frozen=True):
    """A difference from plain JAX that a caller finds: the call and path within it, and values.

    `is_failure` is whether the engine raised an error instead.
    """

    where: str
    expected: str
    found: str
    is_failure: bool = False


class Call(Struct, frozen=True):
    """A call whose results differ from those of plain JAX; `kind` is the kind of its inputs."""

    key: ExecutableKey
    kind: str


type AskVerdicts = Callable[[Sequence[Call]], list[CallVerdict]]
"""Returns the verdict on each call of a target's executables, from the files in the folder."""


class Job(Struct, frozen=True):
    """The fixtures and trials of a target.

    Attributes:
        bundle: The path of the bundle.
        policy: The path of a policy that accepts it.
        target: The target's name.
        folder: The calls of plain JAX, and the trials of padded and split ones, if there are any.
        secrets: Files that the executables must not read.
        evaluates: Whether to score the evaluation data instead.
    """

    bundle: str
    policy: str
    target: str
    folder: str
    secrets: tuple[str, ...] = ()
    evaluates: bool = False


class Answer(Struct, frozen=True):
    """The result of the worker.

    `unsuited` has the reasons why this host cannot run the bundle, `fixtures` each executable's
    difference from its reference, and `differing` all other differences.
    """

    unsuited: list[dict[str, str]] = []
    fixtures: list[tuple[ExecutableKey, Difference]] = []
    differing: list[Differing] = []
    trials: list[list[Difference]] = []
    values: list[ValuesRan] = []
    scores: dict[str, Leaf | None] = {}


class Ran(Struct, frozen=True):
    """Results of a target's executables.

    `trials` has those of each entry point, in the order of the plan, and `values` the value trials
    of each executable. `not_run` is why this host cannot run them; then nothing else is known.
    `lasting` is false if only free memory is lacking at the moment.
    """

    fixtures: tuple[tuple[ExecutableKey, ParityRan], ...] = ()
    trials: list[list[Difference]] = []
    values: tuple[ValuesRan, ...] = ()
    not_run: ParityNotRun | None = None
    lasting: bool = True


def run(
    bundle: Path,
    policy: Path,
    target: str,
    folder: Path,
    processes: Processes,
    ask_verdicts: AskVerdicts = lambda calls: [],
    worker: Sequence[str] | None = None,
) -> Ran:
    """Run all fixtures of one target, and the trials in a folder; the caller evaluates trials.

    `ask_verdicts` decides which side is right where results differ, by default plain JAX. `worker`
    is a command that runs in place of forked processes.

    Raises:
        EngineFailedError: AOTC-E951 tolerance exceeded, E953 the engine cannot load or call an
            executable.
        ParityError: AOTC-E951 plain JAX is wrong, E952 the process crashed or hung, E953 the
            runtime rejects the bundle, E959 other arguments or results than those of plain JAX, or
            others in a later call.
    """
    job = Job(str(bundle), str(policy), target, str(folder), confined_process.secrets())
    try:
        answer = _ask(job, processes, SECONDS_MAX, worker=worker)
    except AotcError as error:
        if any(each.code == "AOTC-E952" for each in error.findings):
            raise
        is_engine = all(each.code in ENGINE_FAILURES for each in error.findings)
        rejected = EngineFailedError if is_engine else ParityError
        raise rejected(*map(_rejected, error.findings)) from error
    if answer.unsuited and not answer.differing:
        reasons = "; ".join(f"expected {f['expected']}" for f in answer.unsuited)
        lasting = all(finding["code"] not in PASSING for finding in answer.unsuited)
        return Ran(not_run=ParityNotRun(reason=reasons), lasting=lasting)
    return _outcome(answer, target, ask_verdicts)


def _outcome(answer: Answer, target: str, ask_verdicts: AskVerdicts) -> Ran:
    """Return what a target's executables did, if nothing of it is wrong. Raises ParityError."""
    fixtures = [(key, each.within, _recorded(each)) for key, each in answer.fixtures]
    calls = [Call(key, FIXTURE) for key, is_within, _ in fixtures if not is_within]
    calls += [
        Call(values.key, FIXTURE)
        for values in answer.values
        if values.changed is not None and Call(values.key, FIXTURE) not in calls
    ]
    calls += [
        Call(values.key, trial.kind)
        for values in answer.values
        for trial in values.trials
        if not trial.difference.within
    ]
    verdicts = dict(zip(calls, ask_verdicts(calls), strict=False)) if calls else {}
    wrong: dict[ExecutableKey, list[tuple[Call, ParityRan]]] = {}
    for key, is_within, ran in fixtures:
        if not is_within:
            wrong.setdefault(key, []).append((Call(key, FIXTURE), ran))
    values: list[ValuesRan] = []
    changed: list[Finding] = []
    for each in answer.values:
        if each.changed is not None:
            changed.append(_changed(each, target, verdicts.get(Call(each.key, FIXTURE))))
        trials = []
        for trial in each.trials:
            call, is_within = Call(each.key, trial.kind), trial.difference.within
            call_verdict = verdicts.get(call)
            if not is_within and not (call_verdict and call_verdict.is_right):
                wrong.setdefault(each.key, []).append((call, _recorded(trial.difference)))
            trials.append(ValueRan(trial.kind, trial.difference, not is_within))
        values.append(ValuesRan(each.key, tuple(trials), each.state))
    beyond = [_beyond(calls, target, verdicts.get(calls[0][0])) for calls in wrong.values()]
    differing = [_otherwise(each, target) for each in answer.differing]
    if differing or beyond or changed:
        found = (verdicts.get(call) for calls in wrong.values() for call, _ in calls)
        is_jax = any(each.wrong in ("plain JAX", "both") for each in found if each)
        is_engine = not (changed or is_jax) and all(e.is_failure for e in answer.differing)
        raise (EngineFailedError if is_engine else ParityError)(*differing, *beyond, *changed)
    return Ran(tuple((key, ran) for key, _, ran in fixtures), answer.trials, tuple(values))


def evaluate(
    bundle: Path,
    policy: Path,
    target: str,
    folder: Path,
    processes: Processes,
    on_call: Callable[[str], None],
) -> dict[str, Leaf | None]:
    """Return the rows of every evaluation of a target, by entry point.

    They are None for users' metrics, whose results are left in the folder. Raises the errors of
    `score`, and ParityError (AOTC-E952) if the process crashes.
    """
    secrets = confined_process.secrets()
    job = Job(str(bundle), str(policy), target, str(folder), secrets, evaluates=True)
    return _ask(job, processes, EVALUATION_SECONDS_MAX, on_call=on_call).scores


def _ask(
    job: Job,
    processes: Processes,
    seconds: float,
    *,
    worker: Sequence[str] | None = None,
    on_call: Callable[[str], None] = worker_parent.ignore_text,
) -> Answer:
    try:
        return worker_parent.run(
            worker or kept(WORKER),
            job,
            Answer,
            within=Path(job.folder),
            environment=_variables(),
            processes=processes,
            seconds=seconds,
            on_finished=on_call,
        )
    except worker_parent.CrashedError as crash:
        raise _crash(job.target, crash) from crash


def begin() -> None:
    """Import what `run` is going to need, meanwhile."""
    kept(WORKER).begin(_variables())


def _variables() -> dict[str, str]:
    return inherited(without=("XLA_", "TF_"))


def _recorded(difference: Difference) -> ParityRan:
    """Return the difference as a bundle manifest has it."""
    return ParityRan(
        max_abs=repr(difference.max_abs),
        max_rel=repr(difference.max_rel),
        ulp_max=difference.ulp_max,
        elements=difference.elements,
        worst=difference.worst,
    )


def _beyond(
    wrong: Sequence[tuple[Call, ParityRan]], target: str, call_verdict: CallVerdict | None
) -> Finding:
    """Return AOTC-E951 for an executable whose results differ in these calls.

    `call_verdict` is that of the first call; None without one.
    """
    call, ran = wrong[0]
    where = f"{call.key.label} for {target}, output {ran.worst or 'result'}"
    if call.kind != FIXTURE:
        where += f", inputs {call.kind}"
    found = (
        f"max abs error {ran.max_abs}, max rel error {ran.max_rel}, {ran.ulp_max} ulp "
        f"over {ran.elements} elements"
    )
    if others := [other.kind for other, _ in wrong[1:]]:
        found += f"; others with inputs {', '.join(others)} as well"
    if call_verdict is None:
        return finding("AOTC-E951", where, found)
    verdict = call_verdict.verdict
    if verdict.different:
        found = (
            f"{verdict.different} of {verdict.elements} elements differ, the first at "
            f"{list(verdict.first)}, median {verdict.median:.3g}, {found}"
        )
    if verdict.found is not None and verdict.plain is not None:
        of_finite = "" if math.isfinite(float(ran.max_abs)) else " of finite numbers"
        found += (
            f"; largest error{of_finite} against float64 {verdict.found:.3g}, "
            f"of plain JAX {verdict.plain:.3g}"
        )
    return finding("AOTC-E951", where, found, hint=_hint(call, call_verdict))


def _hint(call: Call, call_verdict: CallVerdict) -> str:
    match call_verdict.wrong:
        case "rounding":
            return "raise `tolerance`: both results are as close to those in float64"
        case "plain JAX":
            return (
                "the executable is right and plain JAX is wrong, as StableHLO's reference shows: "
                "report it to jax, and write the operation in another way"
            )
        case "both":
            return (
                "StableHLO's reference interpreter gives a third result: report it to jax, and "
                "write the operation in another way"
            )
    hint = "the executable is wrong: build for another engine, and report it with the program"
    if call.kind in SPECIAL:
        hint += '; if callers pass no such numbers, state `ranges` or `numerics = "finite"`'
    return hint


def _changed(values: ValuesRan, target: str, call_verdict: CallVerdict | None) -> Finding:
    """AOTC-E959 for an executable that gives another result for the same inputs."""
    hint = "build for another engine, and report this with the program"
    if call_verdict is not None and call_verdict.opinion in ("plain JAX", "both"):
        hint += "; StableHLO's reference interpreter finds plain JAX wrong here too"
    where = f"{values.key.label} for {target}, output {values.changed}"
    return finding("AOTC-E959", where, "", cause="results-vary-between-calls", hint=hint)


def _otherwise(differing: Differing, target: str) -> Finding:
    where = f"{differing.where} for {target}"
    if differing.is_failure:
        return finding("AOTC-E953", where, differing.found, cause=FAILS_AT_A_CALL)
    return finding("AOTC-E959", where, differing.found, expected=differing.expected)


def _rejected(rejected: Finding) -> Finding:
    """Return AOTC-E953 for a finding of the loader, by its cause."""
    if cause := ENGINE_FAILURES.get(rejected.code):
        return finding("AOTC-E953", rejected.where, rejected.found, cause=cause)
    found = ": ".join(filter(None, (rejected.code, rejected.title, rejected.found)))
    return finding("AOTC-E953", rejected.where, found, expected=rejected.expected)


def _crash(target: str, crash: worker_parent.CrashedError) -> AotcError:
    found = crash.found(STDERR_LINES_SHOWN)
    where = f"fixtures for {target}"
    if crash.late:
        cause, found = "executable-timed-out-on-a-fixture", f"no result after {SECONDS_MAX} s"
        return refusal("AOTC-E952", where, found, cause=cause)
    if crash.misread:
        found = f"an invalid answer of the process: {crash.misread}"
    return refusal("AOTC-E952", where, found, hint=crash.starved())
