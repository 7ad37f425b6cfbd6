"""Plain JAX on the calls that trials compare with, and on the same calls padded and split.

What the function itself cannot take, no executable can: this finds it on any host, and stands in
for executables of targets that the build host cannot run.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Timer
from time import monotonic

from msgspec.structs import replace

from aotc.base.errors import CaptureError, ParityError, raise_if
from aotc.base.stages import CapturedProgram
from aotc.base.workers.worker_child import Progress
from aotc.bundle.write.safetensors_writer import write_fixture
from aotc.capture import trace_errors
from aotc.capture.call_arguments import CallPlan, FlatCall
from aotc.check import plain_jax
from aotc.check.padding import trial_files
from aotc.check.padding.trial_records import FIXTURE, EntryTrials, PlannedTrial, Sizes
from aotc.check.padding.trial_run import Array, Subject, run
from aotc.check.padding.trial_samples import sampled
from aotc.check.padding.trial_verdict import endless, refusals, tried
from aotc.config.build_manifest import BuildManifest
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.manifest_labels import executable_key, label
from aotc_runtime.serving.readiness import Difference

SECONDS_MIN = 10.0
TIMES_LONGER = 50
"""A padded or split call is stopped after this many times what JAX took for the exact one, whose
time includes compiling it; and not before SECONDS_MIN."""


type CallAt = Callable[[CallPlan, Mapping[str, int]], FlatCall]
type FunctionAt = Callable[[Mapping[str, int]], plain_jax.Function]


class PlainJax:
    """One entry point in plain JAX, at any sizes; each is compiled once.

    `call_at` returns the capture's call, with its error for one that fails; `function_at` returns
    the function as its users call it. `seconds` has the time of a call of some sizes, by label.
    """

    def __init__(self, plan: CallPlan, call_at: CallAt, function_at: FunctionAt) -> None:
        self.plan, self._call_at, self._function_at = plan, call_at, function_at
        self._functions: dict[str, plain_jax.Function] = {}
        self.seconds: dict[str, float] = {}

    def begin(self, sizes: Mapping[str, int]) -> None:
        """Start compiling for these sizes while others run; a failure is raised again in `at`."""
        with suppress(Exception, SystemExit):
            self.at(sizes).begin()

    def at(self, sizes: Mapping[str, int]) -> plain_jax.Function:
        """Return the function at these sizes. Whatever it raises comes through."""
        where = label(self.plan.name, sizes)
        if where not in self._functions:
            self._functions[where] = self._function_at(sizes)
        return self._functions[where]

    def outputs(self, sizes: Mapping[str, int], inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return results by path, for inputs by path. Raises any error of the program."""
        function = self.at(sizes)
        return function(function.arguments(inputs)).arrays

    def allowance(
        self,
        sizes: Mapping[str, int],
        inputs: Mapping[str, Array],
        results: Mapping[str, Array],
    ) -> float:
        """Return the step allowance of results."""
        function = self.at(sizes)
        return function.allowance(function.arguments(inputs), results)

    def call_at(self, sizes: Mapping[str, int]) -> FlatCall:
        """Return the abstract call at these sizes. Raises CaptureError."""
        return self._call_at(self.plan, sizes)


def begin_all(plans: trial_files.Plans, functions: Mapping[str, PlainJax]) -> None:
    """Start compiling everything for the sizes of the trials."""
    for entries in plans.values():
        for entry in entries:
            for trial in entry.trials:
                functions[entry.entry_point].begin(trial.sizes)


@contextmanager
def ended_after(
    seconds: float, refusal: Callable[[], AotcError], progress: Progress
) -> Iterator[None]:
    """End this process with a refusal if the block takes longer.

    A loop until every number is small never ends where the padding is infinite, and nothing stops
    what XLA runs.
    """
    timer = Timer(seconds, lambda: progress.refuse(refusal()))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@dataclass(frozen=True, slots=True)
class TrialCalls:
    """The calls of trials in plain JAX; `functions` are by entry point."""

    program: CapturedProgram
    manifest: BuildManifest
    scratch: Scratch
    functions: Mapping[str, PlainJax]
    progress: Progress

    def try_all(self, plans: trial_files.Plans) -> None:
        """Leave the calls with their results, and the outcome of every trial in plain JAX.

        Raises ParityError: AOTC-E955 a padded call, E956 a split one that gives another result.
        """
        known: dict[bytes, Difference] = {}
        outcomes: trial_files.Outcomes = {}
        where = self.manifest.where
        for target, entries in plans.items():
            outcomes[target] = []
            for entry in entries:
                found = []
                for trial in entry.trials:
                    key = trial_files.trial_key(entry, trial)
                    if key not in known:
                        known[key] = self._try(trial, entry)
                        self.progress.finished(entry.entry_point)
                    found.append(known[key])
                raise_if(refusals(entry, tried(entry, found), "plain JAX itself", where))
                outcomes[target].append(found)
        trial_files.outcome_file(self.scratch.folder).write(outcomes)

    def _try(self, trial: PlannedTrial, entry: EntryTrials) -> Difference:
        name = entry.entry_point
        function = self.functions[name]
        captured = self.program.entry_points[name]
        file = trial_files.call_file(self.scratch.folder, name, trial)
        where = label(name, trial.sizes)
        if not file.exists():
            started = monotonic()
            file.write_bytes(self._recorded(trial, function))
            function.seconds[where] = max(function.seconds.get(where, 0), monotonic() - started)
        allowed = max(SECONDS_MIN, TIMES_LONGER * function.seconds[where])
        call = trial_files.read_fixture(file, captured.inputs, captured.outputs)

        paths = [spec.path for spec in captured.inputs], [spec.path for spec in captured.outputs]
        inputs, expected = map(dict, map(zip, paths, (call.inputs, call.expected)))
        entry = replace(entry, atol=entry.atol + function.allowance(trial.sizes, inputs, expected))

        def late() -> AotcError:
            return ParityError(endless(entry, trial, allowed, self.manifest.where))

        def execute(sizes: Sizes, leaves: list[Array]) -> list[Array]:
            given = {spec.path: leaf for spec, leaf in zip(captured.inputs, leaves, strict=True)}
            with ended_after(allowed, late, self.progress):
                results = function.outputs(sizes, given)
            return [results[spec.path] for spec in captured.outputs]

        return run(trial, Subject(entry, captured.inputs, captured.outputs, execute), call)

    def _recorded(self, trial: PlannedTrial, function: PlainJax) -> bytes:
        """Return the results of plain JAX at exactly the sizes of a trial.

        Raises CaptureError (AOTC-E826, E829) if the function fails there.
        """
        name, sizes, manifest = function.plan.name, trial.sizes, self.manifest
        inputs = trial_files.read_arrays(self.scratch.inputs(executable_key(name, sizes)))
        if trial.inputs != FIXTURE:
            leaves = self.program.entry_points[name].inputs
            inputs = sampled(inputs, leaves, manifest.entry_points[name], trial.inputs)
        call = function.call_at(sizes)
        try:
            results = function.outputs(sizes, inputs)
        except AotcError:
            raise
        except (Exception, SystemExit) as error:
            finding = trace_errors.not_traced(error, call, label(name, sizes), manifest.root)
            hint = "calls of these sizes are accepted: narrow `range`, or set `multiple_of`"
            raise CaptureError(replace(finding, hint=hint)) from error
        return write_fixture(
            inputs, results, where=f"{manifest.where('entry_points', name)} result"
        )
