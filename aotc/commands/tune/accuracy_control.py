"""Selects the weights that a precision keeps as they are, so that a metric stays within its limits.

As NNCF's accuracy control: weights are ranked by what quantizing each alone costs of the metric,
and the worst are put back until the limits hold. Plain JAX computes the metric. Runs in a process
of `aotc.pipeline.children.program_worker`.
"""

from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf, isfinite

import jax
import msgspec

from aotc.base.evidence import KEPT, QuantizedWeight
from aotc.base.stages import CapturedEntryPoint, CapturedProgram
from aotc.base.workers.worker_child import Progress
from aotc.capture.model_entry_points import Models, open_models
from aotc.capture.traced_shardings import on_one_device
from aotc.commands.tune.tuning_messages import Controlled, outcome_file
from aotc.pipeline.children.evaluation_worker import PlainEvaluation, evaluation_of
from aotc.pipeline.children.reference_worker import PlainWeights, plain_functions
from aotc.pipeline.scratch_folder import ProgramJob, Scratch


def work(scratch: Scratch, program: bytes, progress: Progress) -> None:
    """Write the outcome of every entry point with a precision and an evaluation.

    `program` is an encoded `ProgramJob`. Raises CaptureError (AOTC-E829, E840, E847, E849).
    """
    job = ProgramJob.decode(program)
    jax.config.update("jax_enable_x64", job.manifest.enable_x64)
    # Programs that differ in their weights alone are compiled once.
    jax.config.update("jax_compilation_cache_dir", str(scratch.folder / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    models, captured = open_models(job.manifest, scratch.folder), scratch.program.read()
    found: dict[str, Controlled] = {}
    with ThreadPoolExecutor(job.threads) as compiling, on_one_device(models.manifest.mesh):
        for name, entry_point in captured.entry_points.items():
            spec = models.manifest.entry_points[name].evaluation
            if entry_point.precision is not None and spec is not None and spec.has_limits:
                progress.started(f"ranking the weights of {name}")
                evaluation = PlainEvaluation(name, models, captured, scratch.folder, progress)
                control = _Control(entry_point, models, scratch, captured, compiling, evaluation)
                found[name] = control.outcome()
    outcome_file(scratch.folder).write(found)


@dataclass(frozen=True, slots=True)
class _Control:
    """The accuracy control of one entry point."""

    entry_point: CapturedEntryPoint
    models: Models
    scratch: Scratch
    program: CapturedProgram
    compiling: Executor
    evaluation: PlainEvaluation

    def outcome(self) -> Controlled:
        """Return the shortest list of the worst weights without which the limits hold."""
        precision = self.entry_point.precision
        assert precision is not None, "only such entry points are controlled"
        spec = evaluation_of(self.models.manifest, self.entry_point.name)
        reference, every = self._value(None), precision.quantized

        def fits(value: float) -> bool:
            return isfinite(value) and not [*spec.missed_limits(value, reference)]

        value = self._value(every)
        if fits(value):
            return Controlled(spec.name, (), reference, value)
        # A program that nothing but its weights changes is compiled once: see `work`.
        alone = {each: self._value((each,)) for each in every}
        losses = {n: spec.drop(v, reference) if isfinite(v) else inf for n, v in alone.items()}
        ranked = sorted(every, key=lambda each: -losses[each])
        for count in range(1, len(ranked)):
            value = self._value(ranked[count:])
            if fits(value):
                kept = tuple(sorted(each.tensor for each in ranked[:count]))
                return Controlled(spec.name, kept, reference, value)
        return Controlled(spec.name, None, reference, value)

    def _value(self, quantized: Sequence[QuantizedWeight] | None) -> float:
        """Return the metric with only these weights quantized; with None, of the program itself."""
        name, precision = self.entry_point.name, self.entry_point.precision
        assert precision is not None, "only such entry points are controlled"
        some = tuple(quantized or ())
        kept = precision.kept | {each.label: KEPT[1] for each in {*precision.quantized} - {*some}}
        applied = msgspec.structs.replace(precision, quantized=some, kept=kept)
        taken = replace(self.entry_point, precision=None if quantized is None else applied)
        weights = PlainWeights(self.models, self.scratch, self.program)
        functions = plain_functions(weights, self.compiling, {name: taken})
        return self.evaluation.metric.value(self.evaluation.rows(functions[name]))
