"""Plain JAX in trials: the calls that they compare with, and the same calls padded and split.

What the function itself cannot take, no executable can: this finds it on any host, and stands in
for executables of targets that the build host cannot run.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from threading import Timer
from time import monotonic

import msgspec
import numpy as np
from jaxlib.mlir import ir
from msgspec.structs import replace

from aotc.base.errors import CaptureError, ParityError, raise_if, refusal
from aotc.base.stages import CapturedProfile, CapturedProgram
from aotc.base.workers.worker_child import Progress
from aotc.bundle.write.safetensors_writer import write_fixture
from aotc.capture import trace_errors
from aotc.capture.call_arguments import CallPlan, FlatCall
from aotc.capture.weight_sets import read_shards
from aotc.check import plain_jax
from aotc.check.trial_inputs import ENDS, KINDS, MAGNITUDES, SPECIAL, trial_inputs
from aotc.check.trial_plan import trial_leaves
from aotc.check.trial_records import (
    FIXTURE,
    Array,
    Call,
    CallArrays,
    EntryTrials,
    Outcome,
    PlainOutcome,
    Plans,
    Sizes,
    Trial,
    TriedEntry,
    call_file,
    read_arrays,
    read_call,
    tried_file,
)
from aotc.check.trial_run import DECLARED, Subject, difference, run, with_first_half
from aotc.check.trial_verdict import endless, leaks
from aotc.compile.mlir import mlir_context
from aotc.config.build_manifest import BuildManifest
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.bundle_manifest import WeightArgument
from aotc_runtime.schema.manifest_labels import ExecutableKey, label
from aotc_runtime.serving.routing.split_calls import axis_of

SECONDS_MIN = 10.0
TIMES_LONGER = 50
"""A call is stopped after this many times what JAX took for the exact one, whose time includes
compiling it; and not before SECONDS_MIN."""

BYTES_MAX = 2**27
"""Inputs and results of a call that gets value trials: 128 MiB."""

WEIGHTS_MAX = 2**29
"""Bytes of weights that can be computed with in float64; more have no truth to be judged by, and
get only trials whose numbers are of ordinary size or not finite.
"""

JUDGED = ("extreme", "offset", "magnitudes")
"""Trials with large numbers, whose rounding only the truth tells from a mistake."""

OVERFLOWING = ("infinite", "extreme")
"""Trials with infinities, or with numbers that products make infinite."""

FLOPS_MAX = 10**11
"""Operations of all value trials of an executable together, as XLA counts them: a few seconds."""

FLOPS_OF_ONE = 10**12
"""Operations of a call that gets one value trial at least."""

WITH_LOOPS = 2
"""Trials of a program that has loops of unknown length, whose cost nobody knows."""

MOST_TELLING = ("nan", "magnitudes", "other", "infinite", "offset", "extreme")
"""The order in which value trials are kept where not all of them fit."""

ENDLESS = re.compile(r"lapack_[sdcz]ges(dd|vd)_ffi")
"""Custom calls that never end where a matrix has an infinity: LAPACK's singular values, as jaxlib
0.12.0.1 brings them. NaN, and the largest numbers, are taken.
"""

JAX = "plain JAX itself"

ANCHOR_ELEMENTS_MAX = 2**16
"""Larger weights are no constants that inputs are close to."""

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

    def call_at(self, sizes: Mapping[str, int]) -> FlatCall:
        """Return the abstract call at these sizes. Raises CaptureError."""
        return self._call_at(self.plan, sizes)


@contextmanager
def end_after(
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


@dataclass
class PlainTrials:
    """The trials of a program in plain JAX; functions are by entry point."""

    _program: CapturedProgram
    _manifest: BuildManifest
    _scratch: Scratch
    _functions: Mapping[str, PlainJax]
    _progress: Progress
    _skipped: dict[ExecutableKey, Mapping[str, str]] = field(default_factory=dict)
    _allowances: dict[Call, float] = field(default_factory=dict)

    def begin(self, plans: Plans) -> None:
        """Start compiling everything for the sizes of the trials.

        The capture traced the other way round: what depends on state of Python differs here.
        """
        for entry in reversed([entry for entries in plans.values() for entry in entries]):
            if not self._program.entry_points[entry.entry_point].recorded:
                for trial in reversed(entry.trials):
                    self._functions[entry.entry_point].begin(trial.call.sizes)

    def try_all(self, plans: Plans) -> None:
        """Leave the calls with their results, and the outcome of every trial in plain JAX.

        Raises CaptureError: AOTC-E826, E829 a function that fails at accepted sizes, E842 one that
        does not end. Raises ParityError: AOTC-E955 a padded call, E956 a split one that gives
        another result.
        """
        known: dict[bytes, PlainOutcome] = {}
        tried: dict[str, list[TriedEntry]] = {}
        for target, entries in plans.items():
            tried[target] = []
            for entry in entries:
                outcomes = []
                for trial in entry.trials:
                    key = msgspec.msgpack.encode(trial)  # the same for another target
                    if key not in known:
                        known[key] = self._outcome(trial, entry)
                        self._progress.finished(entry.entry_point)
                    outcomes.append(known[key])
                tried[target].append(TriedEntry(entry, tuple(outcomes)))
            where = self._manifest.where
            raise_if(f for e in tried[target] for f in leaks(e.entry, e.in_jax(), JAX, where))
        tried_file(self._scratch.folder).write(tried)

    def _outcome(self, trial: Trial, entry: EntryTrials) -> PlainOutcome:
        if trial.dimensions:
            return self._run_routed(trial, entry)
        call = trial.call
        if call.key not in self._skipped:
            self._progress.started(f"running {call.key.label} on other inputs")
            self._skipped[call.key] = self._left_out(call.key)
        if (why := self._skipped[call.key].get(call.inputs)) is not None:
            return PlainOutcome(skipped=why)
        if trial.is_fixture:
            return PlainOutcome(allowance=self._record_call(call))
        inputs = self._inputs(call)
        seconds = self._functions[call.key.entry_point].seconds
        allowed = max(SECONDS_MIN, TIMES_LONGER * max(seconds.values(), default=0.0))

        def late() -> AotcError:
            why = f"no result within {allowed:.0f} s"
            return refusal("AOTC-E842", str(call), why, cause="program-does-not-finish")

        try:
            with end_after(allowed, late, self._progress):
                return PlainOutcome(allowance=self._record_call(call, inputs))
        except Exception as error:  # noqa: BLE001 - of users, jax and its debug options
            return PlainOutcome(skipped=f"plain JAX raises {type(error).__name__}")

    def _left_out(self, key: ExecutableKey) -> dict[str, str]:
        """Return the value trials of an executable that are left out, with reasons."""
        captured = self._program.entry_points[key.entry_point]
        profile = captured.by_key[key]
        if captured.recorded:
            return dict.fromkeys((FIXTURE, *KINDS), "the results were recorded elsewhere")
        files = [path for own in {*captured.bound.values()} for path in self._scratch.weights(own)]
        weight_bytes = sum(path.stat().st_size for path in files)
        skipped = unjudged_trials(weight_bytes, is_meshed=captured.mesh is not None)
        size, has_loops = self._scratch.fixture(key).stat().st_size, profile.control_flow.whiles > 0
        skipped |= too_large(size, self._function(key).flops, has_loops=has_loops)
        skipped |= without_end(profile.module.custom_call_targets)
        if self._manifest.entry_points[captured.name].numerics == "finite":
            skipped |= dict.fromkeys(SPECIAL, 'the entry point states numerics = "finite"')
        return skipped

    def _run_routed(self, trial: Trial, entry: EntryTrials) -> PlainOutcome:
        """Return the outcome of a call that is padded, split or beside others in plain JAX.

        Raises CaptureError (AOTC-E826, E829) if the function fails at exactly its sizes.
        """
        call, captured = trial.call, self._program.entry_points[entry.entry_point]
        function, atol = self._functions[captured.name], entry.atol
        try:
            entry = replace(entry, atol=entry.atol + self._record_call(call))
        except AotcError:
            raise
        except (Exception, SystemExit) as error:
            flat = function.call_at(call.sizes)
            finding = trace_errors.not_traced(error, flat, call.key.label, self._manifest.root)
            hint = "narrow `range`, or set `multiple_of`: calls of these sizes are accepted"
            raise CaptureError(replace(finding, hint=hint)) from error
        allowed = max(SECONDS_MIN, TIMES_LONGER * function.seconds[call.key.label])

        def late() -> AotcError:
            return ParityError(endless(entry, trial, allowed, self._manifest.where))

        def execute(sizes: Sizes, leaves: list[Array]) -> list[Array]:
            given = {spec.path: leaf for spec, leaf in zip(captured.inputs, leaves, strict=True)}
            with end_after(allowed, late, self._progress):
                results = function.outputs(sizes, given)
            return [results[spec.path] for spec in captured.outputs]

        path = call_file(self._scratch.folder, call)
        arrays = read_call(path, captured.inputs, captured.outputs)
        subject = Subject(entry, captured.inputs, captured.outputs, execute)
        results = run(trial, subject, arrays.inputs)
        rtol, outputs = entry.rtol, captured.outputs
        found = difference(trial, results, arrays.expected, outputs, rtol, entry.atol)
        is_declared = trial.fill in ("", DECLARED) and not trial.beside
        if found.within and call.inputs == FIXTURE and is_declared:
            raise_if(islice(self._at_ends(trial, subject, arrays, atol), 1))
        return PlainOutcome(difference=found)

    def _at_ends(
        self, trial: Trial, subject: Subject, arrays: CallArrays, atol: float
    ) -> Iterator[Finding]:
        """Yield findings where numbers with a range are at its ends, of splits in the first half.

        Of a split, there are others for what such numbers, and far ones, change in the second half,
        beyond `atol`: both results are of one module, which rounds nothing to another step.
        """
        entry, inputs, outputs, execute = subject
        ranges = self._manifest.entry_points[entry.entry_point].fixtures.ranges
        for kind in ENDS:
            tried = replace(trial, call=replace(trial.call, inputs=kind))
            at_end, ranged, every = self._inputs(tried.call), [], []
            for spec, leaf in zip(inputs, arrays.inputs, strict=True):
                changed = at_end[spec.path]
                if not trial.fill:
                    changed = with_first_half(leaf, changed, axis_of(spec.shape, *trial.dimensions))
                ranged.append(changed if spec.path in ranges else leaf)
                every.append(changed)
            found = []
            if ranges:
                exact, made = execute(trial.call.sizes, ranged), run(trial, subject, ranged)
                found.append(difference(trial, made, exact, outputs, entry.rtol, entry.atol))
            if not trial.fill:
                other = [execute(trial.call.sizes, every)]
                found.append(difference(tried, other, arrays.expected, outputs, entry.rtol, atol))
            each = [Outcome(tried, difference) for difference in found]
            yield from leaks(entry, each, JAX, self._manifest.where)

    def _record_call(self, call: Call, inputs: Mapping[str, Array] | None = None) -> float:
        """Write a call with its results, if that was not done; return its step allowance.

        `inputs` are by path, by default made for the call.
        """
        if call in self._allowances:
            return self._allowances[call]
        name, path = call.key.entry_point, call_file(self._scratch.folder, call)
        function, where = self._functions[name], self._manifest.where("entry_points", name)
        if not path.exists():
            given, started = inputs or self._inputs(call), monotonic()
            results = function.outputs(call.sizes, given)
            taken = monotonic() - started
            known = function.seconds.get(call.key.label, 0.0)
            function.seconds[call.key.label] = max(known, taken)
            path.write_bytes(write_fixture(given, results, where=f"{where} result"))
        held = read_arrays(path)
        made, results = (
            {name.removeprefix(kind): held[name] for name in held if name.startswith(kind)}
            for kind in ("inputs/", "outputs/")
        )
        self._allowances[call] = self._function(call.key).allowance(made, results)
        return self._allowances[call]

    def _inputs(self, call: Call) -> dict[str, Array]:
        """Return the inputs of a call by path."""
        arrays, name = read_arrays(self._scratch.inputs(call.key)), call.key.entry_point
        if call.inputs == FIXTURE:
            return arrays
        captured, spec = self._program.entry_points[name], self._manifest.entry_points[name]
        leaves = trial_leaves(captured.inputs, spec, arrays)
        is_close = call.inputs in (MAGNITUDES, *ENDS)
        profile = captured.by_key.get(call.key, captured.profiles[0])
        anchors = [*self._anchors(profile)] if is_close else []
        made = trial_inputs(call.inputs, leaves, anchors, spec.fixtures.seed)
        return {leaf.path: array for leaf, array in zip(leaves, made, strict=True)}

    def _function(self, key: ExecutableKey) -> plain_jax.Function:
        return self._functions[key.entry_point].at(dict(key.sizes))

    @cached_property
    def _small_weights(self) -> dict[tuple[str, str], Array]:
        """The weights that inputs may be close to, by set and tensor."""
        return {
            (name, path): array
            for name in self._program.weights
            for path, array in read_shards(self._scratch.weights(name)).items()
            if 0 < array.size <= ANCHOR_ELEMENTS_MAX
        }

    def _anchors(self, profile: CapturedProfile) -> Iterator[Array]:
        """Yield the weights of a profile, and the constants of its module."""
        for argument in profile.arguments:
            if isinstance(argument, WeightArgument):
                name = argument.set, argument.tensor
                if name in self._small_weights:
                    yield self._small_weights[name]
        module = mlir_context.read_artifact(profile.module.artifact)
        for operation in mlir_context.operations_named(module, ("stablehlo.constant",)):
            with suppress(ValueError, TypeError):  # other types, and those that numpy does not know
                numbers = ir.DenseElementsAttr(operation.attributes["value"])
                if numbers.is_splat:
                    yield np.array(numbers.get_splat_value().value)
                elif len(numbers) <= ANCHOR_ELEMENTS_MAX:
                    yield np.array(numbers)


def unjudged_trials(weight_bytes: int, *, is_meshed: bool) -> dict[str, str]:
    """Return trials without a truth that could judge them, each with why."""
    if is_meshed:
        return dict.fromkeys(JUDGED, "programs over several devices are not computed in float64")
    if weight_bytes <= WEIGHTS_MAX:
        return {}
    return dict.fromkeys(
        JUDGED, f"weights of {weight_bytes} bytes are not computed with in float64"
    )


def too_large(size: int, flops: Callable[[], int], *, has_loops: bool) -> dict[str, str]:
    """Return trials that are left out for their cost, by figures equal in every build.

    `size` has the bytes of inputs and results, `flops` the operations of a call.
    """
    if size > BYTES_MAX:
        why = f"inputs and results of a call have {size} bytes, more than {BYTES_MAX}"
        return dict.fromkeys(KINDS, why)
    if has_loops:
        why = "a call has loops of unknown length"
        return dict.fromkeys(MOST_TELLING[WITH_LOOPS:], why)
    count = flops()
    fitting = len(KINDS) if count * len(KINDS) <= FLOPS_MAX else int(FLOPS_MAX // count)
    if count <= FLOPS_OF_ONE:
        fitting = max(1, fitting)
    return dict.fromkeys(MOST_TELLING[fitting:], f"a call has {count} floating-point operations")


def without_end(custom_call_targets: Sequence[str]) -> dict[str, str]:
    """Return the trials that a program with these custom calls may never end, each with why."""
    if not any(map(ENDLESS.fullmatch, custom_call_targets)):
        return {}
    return dict.fromkeys(OVERFLOWING, "LAPACK's singular values have no end for infinities")
