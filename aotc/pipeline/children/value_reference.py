"""Selects the value trials of each executable, and runs plain JAX on their inputs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from aotc.base.errors import refusal
from aotc.base.stages import CapturedEntryPoint, CapturedProfile, CapturedProgram
from aotc.base.workers.worker_child import Progress
from aotc.bundle.write.safetensors_writer import write_fixture
from aotc.capture.weight_sets import read_shards
from aotc.check.padding.trial_files import read_arrays
from aotc.check.value_inputs import KINDS, SPECIAL, Array, TrialLeaf, trial_inputs
from aotc.check.value_trials import FIXTURE, PlannedValues, Plans, plan_file, value_file
from aotc.compile.mlir import mlir_context
from aotc.config.build_manifest import EntryPointSpec
from aotc.pipeline.children.trial_reference import (
    SECONDS_MIN,
    TIMES_LONGER,
    PlainJax,
    TrialCalls,
    ended_after,
)
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.bundle_manifest import TensorSpec, WeightArgument
from aotc_runtime.schema.manifest_labels import ExecutableKey

BYTES_MAX = 2**27
"""Inputs and results of a call that gets trials: 128 MiB."""

WEIGHTS_MAX = 2**29
"""Bytes of weights that can be computed with in float64; more have no truth to be judged by, and
get only trials whose numbers are of ordinary size or not finite.
"""

JUDGED = ("extreme", "offset", "magnitudes")
"""Trials with large numbers, whose rounding only the truth tells from a mistake."""

OVERFLOWING = ("infinite", "extreme")
"""Trials with infinities, or with numbers that products make infinite."""

FLOPS_MAX = 10**11
"""Operations of all trials of an executable together, as XLA counts them: a few seconds."""

FLOPS_OF_ONE = 10**12
"""Operations of a call that gets one trial at least."""

WITH_LOOPS = 2
"""How many trials a program gets that has loops of unknown length, whose cost nobody knows."""

MOST_TELLING = ("nan", "magnitudes", "other", "infinite", "offset", "extreme")
"""The order in which trials are kept where not all of them fit."""

ENDLESS = re.compile(r"lapack_[sdcz]ges(dd|vd)_ffi")
"""Custom calls that never end where a matrix has an infinity: LAPACK's singular values, as jaxlib
0.12.0.1 brings them. NaN, and the largest numbers, are taken.
"""

ANCHOR_ELEMENTS_MAX = 2**16
"""Larger weights are no constants that inputs are close to."""


def record_all(calls: TrialCalls) -> None:
    """Write the plan of the value trials, and the inputs and plain JAX's results of each trial.

    Raises CaptureError (AOTC-E842) for a function that does not end.
    """
    plans: Plans = {}
    scratch = calls.scratch
    weights = _small_weights(calls.program, scratch)
    for name, captured in calls.program.entry_points.items():
        spec = calls.manifest.entry_points[name]
        fixtures = {key: read_arrays(scratch.inputs(key)) for key in captured.by_key}
        for key, profile in captured.by_key.items():
            if captured.recorded:
                why = "the results were recorded elsewhere"
                plans[key.label] = PlannedValues((), dict.fromkeys(KINDS, why))
                continue
            leaves = [
                TrialLeaf(
                    path=tensor.path,
                    dtype=array.dtype,
                    shape=array.shape,
                    bounds=spec.fixtures.ranges.get(tensor.path),
                    sample=array,
                    is_key=tensor.key_impl is not None,
                    is_fixed=tensor.path in spec.by_loader,
                )
                for tensor in captured.inputs
                for array in [fixtures[key][tensor.path]]
            ]
            calls.progress.started(f"running {key.label} on other inputs")
            anchors = [*_weights_of(profile, weights), *_constants(profile)]
            trials = _Trials(calls, key, profile, calls.functions[name], spec, leaves, anchors)
            plans[key.label] = trials.record(_unjudged(captured, scratch), captured.outputs)
    plan_file(scratch.folder).write(plans)


@dataclass(frozen=True, slots=True)
class _Trials:
    """The trials of one executable."""

    calls: TrialCalls
    key: ExecutableKey
    profile: CapturedProfile
    function: PlainJax
    spec: EntryPointSpec
    leaves: Sequence[TrialLeaf]
    anchors: Sequence[Array]

    def record(self, unjudged: Mapping[str, str], outputs: Sequence[TensorSpec]) -> PlannedValues:
        """Run the trials that fit and return the plan; `unjudged` is why some have no truth."""
        skipped = {**unjudged, **self._too_large()}
        skipped |= endless(self.profile.module.custom_call_targets)
        if self.spec.numerics == "finite":
            skipped |= dict.fromkeys(SPECIAL, 'the entry point states numerics = "finite"')
        fixture = read_arrays(self.calls.scratch.fixture(self.key))
        inputs = {leaf.path: fixture[f"inputs/{leaf.path}"] for leaf in self.leaves}
        results = {each.path: fixture[f"outputs/{each.path}"] for each in outputs}
        allowances = {FIXTURE: self.function.allowance(self.profile.sizes, inputs, results)}
        for kind in KINDS:
            if kind not in skipped:
                try:
                    allowances[kind] = self._record(kind)
                except Exception as error:  # noqa: BLE001 - of users, jax and its debug options
                    skipped[kind] = f"plain JAX raises {type(error).__name__}"
        kinds = tuple(kind for kind in KINDS if kind in allowances)
        return PlannedValues(kinds, {k: skipped[k] for k in KINDS if k in skipped}, allowances)

    def _too_large(self) -> dict[str, str]:
        """Return trials that are left out for their cost, by figures equal in every build."""
        size = self.calls.scratch.fixture(self.key).stat().st_size
        if size > BYTES_MAX:
            why = f"inputs and results of a call have {size} bytes, more than {BYTES_MAX}"
            return dict.fromkeys(KINDS, why)
        if self.profile.control_flow.whiles:
            why = "a call has loops of unknown length"
            return dict.fromkeys(MOST_TELLING[WITH_LOOPS:], why)
        flops = self.function.at(self.profile.sizes).flops()
        fitting = len(KINDS) if flops * len(KINDS) <= FLOPS_MAX else int(FLOPS_MAX // flops)
        if flops <= FLOPS_OF_ONE:
            fitting = max(1, fitting)
        why = f"a call has {flops} floating-point operations"
        return dict.fromkeys(MOST_TELLING[fitting:], why)

    def _record(self, kind: str) -> float:
        made = trial_inputs(kind, self.leaves, self.anchors, self.spec.fixtures.seed)
        inputs = {leaf.path: array for leaf, array in zip(self.leaves, made, strict=True)}
        where = f"{self.key.label} with the inputs {kind}"
        with _ending(where, self.function, self.calls.progress):
            results = self.function.outputs(self.profile.sizes, inputs)
            allowance = self.function.allowance(self.profile.sizes, inputs, results)
        data = write_fixture(inputs, results, where=self.key.label)
        value_file(self.calls.scratch.folder, self.key, kind).write_bytes(data)
        return allowance


def endless(custom_call_targets: Sequence[str]) -> dict[str, str]:
    """Return the trials that a program with these custom calls may never end, each with why."""
    if not any(map(ENDLESS.fullmatch, custom_call_targets)):
        return {}
    return dict.fromkeys(OVERFLOWING, "LAPACK's singular values have no end for infinities")


@contextmanager
def _ending(where: str, function: PlainJax, progress: Progress) -> Iterator[None]:
    """End this process (AOTC-E842) if the block takes many times as long as a call that compiles.

    A running XLA call cannot be stopped otherwise.
    """
    seconds = max(SECONDS_MIN, TIMES_LONGER * max(function.seconds.values(), default=0.0))

    def late() -> AotcError:
        why = f"no result within {seconds:.0f} s"
        return refusal("AOTC-E842", where, why, cause="program-does-not-finish")

    started = monotonic()
    try:
        with ended_after(seconds, late, progress):
            yield
    finally:
        function.seconds.setdefault(where, monotonic() - started)


def _unjudged(captured: CapturedEntryPoint, scratch: Scratch) -> dict[str, str]:
    """Return trials that cannot be judged, with reasons.

    There is no truth for programs over several devices, nor with weights of this size.
    """
    if captured.mesh is not None:
        return dict.fromkeys(JUDGED, "programs over several devices are not computed in float64")
    files = [path for name in {*captured.bound.values()} for path in scratch.weights(name)]
    size = sum(path.stat().st_size for path in files)
    if size <= WEIGHTS_MAX:
        return {}
    return dict.fromkeys(JUDGED, f"weights of {size} bytes are not computed with in float64")


def _small_weights(program: CapturedProgram, scratch: Scratch) -> dict[tuple[str, str], Array]:
    """Return the weights that inputs may be close to, by set and tensor."""
    return {
        (name, path): array
        for name in program.weights
        for path, array in read_shards(scratch.weights(name)).items()
        if 0 < array.size <= ANCHOR_ELEMENTS_MAX
    }


def _weights_of(
    profile: CapturedProfile, weights: Mapping[tuple[str, str], Array]
) -> Iterator[Array]:
    for argument in profile.arguments:
        if isinstance(argument, WeightArgument) and (argument.set, argument.tensor) in weights:
            yield weights[argument.set, argument.tensor]


def _constants(profile: CapturedProfile) -> list[Array]:
    """Return the floating-point constants of a profile's module."""
    found: list[Array] = []

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.constant":
            with suppress(ValueError, TypeError):  # other types, and those that numpy does not know
                numbers = ir.DenseFPElementsAttr(operation.attributes["value"])
                if numbers.is_splat:
                    found.append(np.array(ir.FloatAttr(numbers.get_splat_value()).value))
                elif len(numbers) <= ANCHOR_ELEMENTS_MAX:
                    found.append(np.array(numbers))
        return ir.WalkResult.ADVANCE

    module = mlir_context.read_artifact(profile.module.artifact)
    module.operation.walk(visit)
    return found
