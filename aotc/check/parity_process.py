"""Runs the parity worker in a process, so that a crash of an executable is a finding."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from aotc.base.child_processes import Processes
from aotc.base.errors import EngineFailedError, ParityError, finding, refusal
from aotc.base.workers import confined_process, worker_parent
from aotc.base.workers.forked_workers import zygotes_of
from aotc.base.workers.worker_environment import inherit
from aotc.check.plain_structures import Leaf
from aotc.check.trial_records import FIXTURE, Call, Outcome
from aotc.check.trial_truth import Verdict
from aotc.check.trial_verdict import Repeat, excess, judge, varies
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.bundle_manifest import ParityNotRun

WORKER = "aotc.check.parity_worker"

SECONDS_MAX = 1800
"""Fixtures are one call per executable; half an hour means that one of them does not end."""

EVALUATION_SECONDS_MAX = 4 * 3600
"""Evaluation data may be many calls."""

STDERR_LINES_SHOWN = 12

PASSING = ("AOTC-E551",)
"""Findings about a host that may not last: too little free memory."""

AT_A_CALL = "engine-fails-at-a-call"

ENGINE_FAILURES = {"AOTC-E753": "engine-cannot-load-its-executable", "AOTC-E755": AT_A_CALL}
"""Causes of AOTC-E953, by the code with which the loader reports an engine."""

type AskVerdicts = Callable[[Sequence[Call]], list[Verdict]]
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

    `unsuited` has the reasons why this host cannot run the bundle, `outcomes` each trial's
    difference from its reference, and `differing` all other differences (AOTC-E953, E959).
    """

    unsuited: list[dict[str, str]] = []
    outcomes: list[Outcome] = []
    repeats: list[Repeat] = []
    differing: list[Finding] = []
    scores: dict[str, Leaf | None] = {}


class Ran(Struct, frozen=True):
    """Results of a target's executables, in trials whose calls are in the order of the plan.

    `not_run` is why this host cannot run them; then nothing else is known of them. `lasting` is
    false if only free memory is lacking at the moment.
    """

    outcomes: tuple[Outcome, ...] = ()
    repeats: tuple[Repeat, ...] = ()
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
    """Run all fixtures and trials of one target; the caller evaluates padded and split calls.

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
        failure = EngineFailedError if is_engine else ParityError
        raise failure(*map(as_parity_finding, error.findings)) from error
    if answer.unsuited and not answer.differing:
        reasons = "; ".join(f"expected {each['expected']}" for each in answer.unsuited)
        lasting = all(each["code"] not in PASSING for each in answer.unsuited)
        return Ran(not_run=ParityNotRun(reason=reasons), lasting=lasting)
    return _outcome(answer, target, ask_verdicts)


def _outcome(answer: Answer, target: str, ask_verdicts: AskVerdicts) -> Ran:
    """Return what a target's executables did, if nothing of it is wrong. Raises ParityError."""
    varying = [repeat for repeat in answer.repeats if repeat.changed is not None]
    beyond = [o.trial for o in answer.outcomes if not o.difference.within]
    calls = [
        *(Call(repeat.key) for repeat in varying),
        *(trial.call for trial in beyond if not trial.dimensions),
    ]
    calls = sorted(dict.fromkeys(calls), key=lambda call: call.inputs != FIXTURE)
    verdicts = dict(zip(calls, ask_verdicts(calls), strict=False)) if calls else {}
    outcomes, wrong = judge(answer.outcomes, verdicts)
    found = [
        *(replace(each, where=f"{each.where} for {target}") for each in answer.differing),
        *(excess(o, target, verdicts.get(o[0].trial.call)) for o in wrong.values()),
        *(varies(each, target, verdicts.get(Call(each.key))) for each in varying),
    ]
    if found:
        known = [verdicts.get(o.trial.call) for each in wrong.values() for o in each]
        is_jax = any(each.wrong in ("plain JAX", "both") for each in known if each)
        is_engine = not (varying or is_jax) and all(e.code == "AOTC-E953" for e in answer.differing)
        raise (EngineFailedError if is_engine else ParityError)(*found)
    return Ran(tuple(outcomes), tuple(answer.repeats))


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
            worker or zygotes_of(WORKER),
            job,
            Answer,
            within=Path(job.folder),
            environment=_variables(),
            processes=processes,
            seconds=seconds,
            on_finished=on_call,
        )
    except worker_parent.CrashedError as crash:
        raise ended(f"fixtures for {job.target}", crash, seconds) from crash


def begin() -> None:
    """Import what `run` is going to need, meanwhile."""
    zygotes_of(WORKER).begin(_variables())


def _variables() -> dict[str, str]:
    return inherit(without=("XLA_", "TF_"))


def as_parity_finding(found: Finding, code: str = "AOTC-E953") -> Finding:
    """Return a finding with this code for one of the loader; AOTC-E953 for a failing engine."""
    if cause := ENGINE_FAILURES.get(found.code):
        return finding("AOTC-E953", found.where, found.found, cause=cause)
    text = ": ".join(filter(None, (found.code, found.title, found.found)))
    return finding(code, found.where, text, expected=found.expected)


def ended(
    where: str, crash: worker_parent.CrashedError, seconds: float, cause: str = ""
) -> AotcError:
    """Return AOTC-E952 for a process without a result, which may take so many seconds."""
    found = crash.describe(STDERR_LINES_SHOWN)
    if crash.late:
        cause = cause or "executable-timed-out-on-a-fixture"
        return refusal("AOTC-E952", where, f"no result after {seconds:g} s", cause=cause)
    if crash.misread:
        found = f"an invalid answer of the process: {crash.misread}"
    return refusal("AOTC-E952", where, found, cause=cause, hint=crash.hint())
