"""Task metrics of every target of a build, and the limits of the manifest.

A process that runs the user's code has data and plain JAX; another one the executables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from aotc.base import constants
from aotc.base.errors import finding, refusal
from aotc.base.stages import UNTRACED, CapturedProgram
from aotc.bundle.write.bundle_writer import TargetParts
from aotc.check import parity_process
from aotc.check.evaluation_files import Prepared, Rows, read_prepared, read_scores
from aotc.check.metrics import OF_USERS, interval, metric_of
from aotc.check.parity_process import Ran
from aotc.config.build_manifest import BuildManifest
from aotc.config.evaluation_specs import EvaluationSpec
from aotc.pipeline import user_processes
from aotc.pipeline.cached_tasks import Kind, Task
from aotc.pipeline.parity_check import CACHED_PLATFORMS, ParityCheck, pack_provisional
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


class Evaluated(Struct, frozen=True):
    """The evaluations of a target, by entry point."""

    of: dict[str, Evaluation] = {}


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
        known = run.tasks.recall(tasks[target].key, Evaluated) if is_cached else None
        if known is not None:
            run.tasks.note(tasks[target], cached=True)
            found[target] = known
    missing = [part for part in parts if part.manifest.target.name not in found]
    if not missing:
        return found
    started = run.tasks.clock()
    made = _Evaluating(run, source).made(missing, ran)
    for target, evaluated in made.items():
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


class _Evaluating:
    """The processes of an evaluation, one after the other, and how many calls have ended."""

    def __init__(self, run: BuildRun, source: Source) -> None:
        self._run, self._source, self._done, self._total = run, source, 0, 0

    def made(self, parts: Sequence[TargetParts], ran: Mapping[str, Ran]) -> dict[str, Evaluated]:
        """Evaluate the targets that run here, and record that others do not."""
        run, folder = self._run, self._source.scratch.folder
        self._execute()
        prepared = read_prepared(folder)
        runs = [p for p in parts if ran[p.manifest.target.name].not_run is None]
        # Plain JAX has made as many calls as each target is going to make, or nearly so.
        self._total = self._done * (1 + len(runs))
        scores: dict[str, dict[str, Rows]] = {}
        if runs:
            provisional = pack_provisional(runs, folder)
            for part in runs:
                target = part.manifest.target.name
                scores[target] = parity_process.evaluate(
                    provisional.bundle,
                    provisional.policy,
                    target,
                    folder,
                    run.workers.processes,
                    self._advance,
                )
            if any(metric_of(each.metric) is None for each in prepared):
                self._execute()
                for target, rows in read_scores(folder).items():
                    scores[target] |= rows
        specs = specs_of(run.request.manifest)
        return {
            part.manifest.target.name: Evaluated(
                {
                    each.entry_point: _evaluation(
                        each,
                        specs[each.entry_point],
                        scores.get(part.manifest.target.name, {}).get(each.entry_point),
                        ran[part.manifest.target.name].not_run,
                        part.manifest.target.name,
                    )
                    for each in prepared
                }
            )
            for part in parts
        }

    def _execute(self) -> None:
        run = self._run
        self._source.execute(CHILD, {}, run.workers, run.on_output, self._advance)

    def _advance(self, _: str) -> None:
        self._done += 1
        self._run.on_stage("evaluate", self._done, max(self._done, self._total))


def _evaluation(
    prepared: Prepared,
    spec: EvaluationSpec,
    rows: Rows | None,
    not_run: ParityNotRun | None,
    target: str,
) -> Evaluation:
    metric, name = metric_of(prepared.metric) or OF_USERS, prepared.entry_point
    reference = _finite(metric.value(prepared.reference.array), f"{name} in plain JAX", spec.name)
    result: EvaluationRan | ParityNotRun
    if rows is None:
        assert not_run is not None, "it ran, or says why not"
        result = not_run
    else:
        value = _finite(metric.value(rows.array), f"{name} for {target}", spec.name)
        low, high = interval(metric, rows.array)
        drop = value - reference if spec.better == "lower" else reference - value
        result = EvaluationRan(
            value=repr(value),
            low=repr(_finite(low, f"{name} for {target}", spec.name)),
            high=repr(_finite(high, f"{name} for {target}", spec.name)),
            method=metric.method,
            drop=repr(drop),
        )
    return Evaluation(
        metric=spec.name,
        better="lower" if spec.better == "lower" else "higher",
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


def over_limits(manifest: BuildManifest, evaluated: Mapping[str, Evaluated]) -> Iterator[Finding]:
    """Yield AOTC-E975 for each limit of an evaluation that a target misses."""
    specs = specs_of(manifest)
    for target, each in evaluated.items():
        for name, evaluation in each.of.items():
            if isinstance(evaluation.result, ParityNotRun):
                continue
            spec, value = specs[name], float(evaluation.result.value)
            found = f"{name} for {target}: {value:.6g} of {evaluation.samples} samples"
            for key, limit in (("minimum", spec.minimum), ("maximum", spec.maximum)):
                is_minimum = key == "minimum"
                if limit is not None and not (value >= limit if is_minimum else value <= limit):
                    where = manifest.where("entry_points", name, "evaluation", key)
                    expected = f"{'at least' if is_minimum else 'at most'} {limit}"
                    cause = "metric-misses-its-limit"
                    yield finding("AOTC-E975", where, found, cause=cause, expected=expected)
            drop = float(evaluation.result.drop)
            if spec.max_drop is not None and drop > spec.max_drop:
                where = manifest.where("entry_points", name, "evaluation", "max_drop")
                found += f", plain JAX {float(evaluation.reference):.6g}"
                expected = f"a drop of at most {spec.max_drop}"
                cause = "metric-drops-too-far"
                yield finding("AOTC-E975", where, found, cause=cause, expected=expected)
