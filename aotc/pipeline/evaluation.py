"""Task metrics of every target of a build, and the limits of the manifest.

A process that runs the user's code has data and plain JAX; another one the executables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from aotc.base import constants
from aotc.base.errors import finding, refusal
from aotc.base.stages import UNTRACED, CapturedProgram
from aotc.bundle.write.bundle_writer import TargetParts
from aotc.check import parity_process
from aotc.check.evaluation_files import PLAIN_JAX, Array, Prepared, prepared_file
from aotc.check.metrics import interval, metric_of
from aotc.check.parity_process import Ran
from aotc.check.plain_structures import array_of
from aotc.config.build_manifest import BuildManifest
from aotc.config.evaluation_specs import EvaluationSpec
from aotc.pipeline import user_processes
from aotc.pipeline.cached_tasks import Kind, Task
from aotc.pipeline.parity_check import CACHED_PLATFORMS, ParityCheck, pack_temporary
from aotc.pipeline.user_processes import Child, Source
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import Evaluation, EvaluationRan, ParityNotRun

if TYPE_CHECKING:
    # Which imports this.
    from aotc.pipeline.build_stages import BuildRun

CHILD = Child(
    Kind.EVALUATION, constants.EVALUATION_WORKER, "AOTC-E836", "plain JAX on the evaluation data"
)


type Evaluated = dict[str, Evaluation]
"""The evaluations of a target, by entry point."""


def specs_of(manifest: BuildManifest) -> dict[str, EvaluationSpec]:
    """Return the evaluations that a manifest asks for, by entry point."""
    named = manifest.entry_points.items()
    return {name: each.evaluation for name, each in named if each.evaluation is not None}


def evaluate(
    run: BuildRun,
    source: Source,
    program: CapturedProgram,
    parts: Sequence[TargetParts],
    ran: Mapping[str, Ran],
    parity: ParityCheck,
) -> dict[str, Evaluated]:
    """Return the evaluations of every target, from the cache where nothing has changed.

    `ran` has parity's results by target, and so which targets run here; `parity` knows what the
    results of executables depend on. Raises CaptureError for data or a metric that cannot be used,
    ParityError if a process crashes.
    """
    specs = specs_of(run.request.manifest)
    # What a function reads while it runs is in no key.
    is_keyed = not any(each.functions for each in specs.values())
    is_keyed &= not any(UNTRACED in e.uncompiled.values() for e in program.entry_points.values())
    shared = dict(_parts(source, program, specs)) if is_keyed else {}
    found: dict[str, Evaluated] = {}
    tasks: dict[str, Task] = {}
    lasting: set[str] = set()
    for part in parts:
        target = part.manifest.target.name
        keyed = {**parity.parts_of(part), **shared, "runs": str(ran[target].not_run)}
        tasks[target] = Task(Kind.EVALUATION, f"of {target}", keyed)
        is_cached = is_keyed and part.manifest.target.platform in CACHED_PLATFORMS
        lasting |= {target} if is_cached and ran[target].lasting else set()
        known = run.tasks.recall(tasks[target].key, dict[str, Evaluation]) if is_cached else None
        if known is not None:
            run.tasks.note(tasks[target], cached=True)
            found[target] = known
    missing = [part for part in parts if part.manifest.target.name not in found]
    if not missing:
        return found
    started = run.tasks.clock()
    for target, evaluated in _run(run, source, missing, ran).items():
        found[target] = evaluated
        if target in lasting:
            run.tasks.keep(tasks[target].key, evaluated)
        seconds = run.tasks.clock() - started
        run.tasks.note(tasks[target], cached=False, seconds=seconds, is_keyed=is_keyed)
    return found


def _parts(
    source: Source, program: CapturedProgram, specs: Mapping[str, EvaluationSpec]
) -> Iterator[tuple[str, str]]:
    """Yield cache key components besides those of parity: data, metric and reference."""
    yield from user_processes.reference_parts(source, program)
    for name, spec in specs.items():
        stated = (spec.name, spec.better, spec.target, spec.output)
        yield f"evaluation of {name}", sha256(repr(stated).encode())
        for file in source.job.manifest.evaluation_files(name):
            yield f"evaluation data {file.text}", program.files[file.text]


def _run(
    run: BuildRun, source: Source, parts: Sequence[TargetParts], ran: Mapping[str, Ran]
) -> dict[str, Evaluated]:
    """Evaluate the targets that run here, and record that others do not."""
    folder, specs = source.scratch.folder, specs_of(run.request.manifest)
    done = total = 0

    def advance(_: str) -> None:
        nonlocal done
        done += 1
        run.on_stage("evaluate", done, max(done, total))

    source.execute(CHILD, {}, run.workers, run.on_output, advance)
    prepared = prepared_file(folder).read()
    runs = [part for part in parts if ran[part.manifest.target.name].not_run is None]
    # Plain JAX has made as many calls as each target is going to make, or nearly so.
    total = done * (1 + len(runs))
    temporary = pack_temporary(runs, folder) if runs else None
    for part in runs:
        assert temporary is not None
        target = part.manifest.target.name
        scores = parity_process.evaluate(
            temporary.bundle, temporary.policy, target, folder, run.workers.processes, advance
        )
        prepared = [each.with_rows(target, scores[each.entry_point]) for each in prepared]
    if any(None in each.scores.values() for each in prepared):
        prepared_file(folder).write(prepared)
        source.execute(CHILD, {}, run.workers, run.on_output, advance)
        prepared = prepared_file(folder).read()
    return {
        target: {
            each.entry_point: _evaluation(each, specs[each.entry_point], target, ran[target])
            for each in prepared
        }
        for target in (part.manifest.target.name for part in parts)
    }


def _evaluation(prepared: Prepared, spec: EvaluationSpec, target: str, ran: Ran) -> Evaluation:
    metric, where = metric_of(spec.name), prepared.where

    def rows_of(target: str) -> Array:
        found = prepared.scores[target]
        assert found is not None, "the metrics of users have scored it"
        return array_of(found)

    reference = _finite(metric.value(rows_of(PLAIN_JAX)), f"{where} in plain JAX", spec.name)
    result: EvaluationRan | ParityNotRun
    if ran.not_run is not None:
        result = ran.not_run
    else:
        value, *ends = (
            _finite(number, f"{where} for {target}", spec.name)
            for number in (metric.value(rows_of(target)), *interval(metric, rows_of(target)))
        )
        result = EvaluationRan(
            value=repr(value),
            low=repr(ends[0]),
            high=repr(ends[1]),
            method=metric.method,
            drop=repr(spec.drop(value, reference)),
        )
    return Evaluation(
        metric=spec.name,
        better=spec.better,
        samples=prepared.samples,
        data=prepared.digest,
        reference=repr(reference),
        result=result,
        code=prepared.code or UNSET,
    )


def _finite(value: float, where: str, metric: str) -> float:
    if not math.isfinite(value):
        expected = f"a finite {metric}"
        raise refusal("AOTC-E849", where, f"{metric} {value}", expected=expected)
    return float(value)


LIMITS = {
    "minimum": ("metric-misses-its-limit", "at least"),
    "maximum": ("metric-misses-its-limit", "at most"),
    "max_drop": ("metric-drops-too-far", "a drop of at most"),
}
"""Keys of an evaluation, to the cause of their finding and the words before the limit."""


def over_limits(manifest: BuildManifest, evaluated: Mapping[str, Evaluated]) -> Iterator[Finding]:
    """Yield AOTC-E975 for each limit of an evaluation that a target misses."""
    for target, evaluations in evaluated.items():
        for name, spec in specs_of(manifest).items():
            evaluation = evaluations.get(name)
            if evaluation is None or isinstance(result := evaluation.result, ParityNotRun):
                continue
            value, reference = float(result.value), float(evaluation.reference)
            found = (
                f"{name} for {target}: {value:.6g} of {evaluation.samples} samples, "
                f"plain JAX {reference:.6g}"
            )
            for key in spec.missed_limits(value, reference):
                cause, words = LIMITS[key]
                where = manifest.where("entry_points", name, "evaluation", key)
                expected = f"{words} {getattr(spec, key)}"
                yield finding("AOTC-E975", where, found, cause=cause, expected=expected)
