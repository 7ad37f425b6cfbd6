"""Scores plain JAX on evaluation data, and results of executables by users' metrics.

Runs in a process of `aotc.pipeline.children.program_worker`.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from aotc.base.errors import CaptureError
from aotc.base.stages import CapturedProgram
from aotc.base.workers.worker_child import Progress
from aotc.capture import trace_errors
from aotc.capture.fixture_inputs import mask_and_length_arrays
from aotc.capture.model_entry_points import Models, open_models
from aotc.capture.traced_shardings import on_one_device
from aotc.check.evaluation_files import (
    PLAIN_JAX,
    Array,
    Prepared,
    prepared_file,
    read_prepared,
    read_results,
    write_prepared,
)
from aotc.check.metrics import Metric, MetricError, metric_of
from aotc.check.plain_structures import Leaf, leaf_of
from aotc.config.build_manifest import BuildManifest
from aotc.pipeline.children.evaluation_data import (
    DataWriter,
    Resolve,
    evaluation_of,
    failed,
    read_blocks,
)
from aotc.pipeline.children.reference_worker import PlainWeights, plain_functions
from aotc.pipeline.children.trial_reference import PlainJax
from aotc.pipeline.scratch_folder import ProgramJob, Scratch
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.manifest_labels import sizes_text


def work(scratch: Scratch, program: bytes, progress: Progress) -> None:
    """Write the data of every evaluation in blocks, and the rows of plain JAX.

    If that was done, write the rows of targets whose results wait for a user's metric. `program` is
    an encoded `ProgramJob`. Raises CaptureError (AOTC-E829, E840, E847, E849).
    """
    job = ProgramJob.decode(program)
    jax.config.update("jax_enable_x64", job.manifest.enable_x64)
    models, captured = open_models(job.manifest, scratch.folder), scratch.read_program()
    manifest, folder = models.manifest, scratch.folder
    evaluated = [
        name
        for name, spec in manifest.entry_points.items()
        if spec.evaluation is not None and name in captured.entry_points
    ]
    if prepared_file(folder).exists():
        metrics = {name: _metric(name, manifest, models.resolve) for name in evaluated}
        waiting = read_prepared(folder)
        write_prepared(
            folder, [_scored(each, metrics[each.entry_point], folder) for each in waiting]
        )
        return
    prepared = []
    written = {name: replace(each, precision=None) for name, each in captured.entry_points.items()}
    with ThreadPoolExecutor(job.threads) as compiling, on_one_device(manifest.mesh):
        functions = plain_functions(PlainWeights(models, scratch, captured), compiling, written)
        for name in evaluated:
            evaluation = PlainEvaluation(name, models, captured, folder, progress)
            rows = evaluation.rows(functions[name])
            prepared.append(evaluation.data.scored(PLAIN_JAX, leaf_of(rows)))
    write_prepared(folder, prepared)


class PlainEvaluation:
    """The evaluation of an entry point in plain JAX; its data are written to the folder.

    Raises CaptureError (AOTC-E829, E840, E847, E849).
    """

    def __init__(
        self,
        name: str,
        models: Models,
        program: CapturedProgram,
        folder: Path,
        progress: Progress,
    ) -> None:
        manifest = self._manifest = models.manifest
        self._entry_point, self._folder, self._progress = (
            program.entry_points[name],
            folder,
            progress,
        )
        self.metric = _metric(name, manifest, models.resolve)
        progress.started(f"reading evaluation data of {name}")
        source = read_blocks(name, manifest, program.files, models.resolve)
        code = _code_digest(evaluation_of(manifest, name).metric)
        self.data = DataWriter(self._entry_point, manifest, folder).write(source, code)

    def rows(self, function: PlainJax) -> Array:
        """Return the rows of the metric, of the entry point as this function."""
        entry_point, data = self._entry_point, self.data
        self._progress.started(f"evaluating {entry_point.name} ({entry_point.function})")
        output = entry_point.outputs[data.output].path
        call = _call(function, output, self._manifest, self._progress)
        profiles = [each.sizes for each in entry_point.profiles]
        results = data.results(self._folder, profiles, call, entry_point.name)
        where = f"{data.where} in plain JAX"
        return np.concatenate([self.metric.score(*each, where) for each in results])


def _metric(name: str, manifest: BuildManifest, resolve: Resolve) -> Metric:
    spec = evaluation_of(manifest, name)
    if ":" not in spec.metric:
        return metric_of(spec.name)
    where = manifest.where("entry_points", name, "evaluation", "metric")
    function = resolve(spec.metric, manifest.root, where)

    def rows(output: Array, labels: Array) -> Array:
        try:
            made = np.asarray(function(output, labels))
        except (Exception, SystemExit) as error:
            raise failed(error, where, manifest) from error
        if made.shape != output.shape[:1] or made.dtype.kind not in "biuf":
            found = f"{made.dtype.name}{list(made.shape)}"
            raise MetricError(f"{found} in place of a number for each of {len(output)} samples")
        return made.astype(np.float64)[:, None]

    return metric_of(spec.name, rows)


def _code_digest(metric: str) -> str:
    """Return the digest of the file with a user's metric; "" for a built-in one."""
    if ":" not in metric:
        return ""
    file = sys.modules[metric.partition(":")[0]].__file__
    return sha256(Path(file).read_bytes() if file else b"")


def _call(
    function: PlainJax, output: str, manifest: BuildManifest, progress: Progress
) -> Callable[[dict[str, Array], dict[str, int]], Array]:
    """Return a function that calls plain JAX for the result at the path `output`."""
    name = function.plan.name
    spec = manifest.entry_points[name]

    def call(inputs: dict[str, Array], sizes: dict[str, int]) -> Array:
        try:
            by_loader = mask_and_length_arrays(spec, sizes, sizes)
            found = np.asarray(function.outputs(sizes, {**inputs, **by_loader})[output])
        except AotcError:
            raise
        except (Exception, SystemExit) as error:
            where = f"{name} at {sizes_text(sizes)}"
            raise CaptureError(trace_errors.not_run(error, where, manifest.root)) from error
        progress.finished(name)
        return found

    return call


def _scored(prepared: Prepared, metric: Metric, folder: Path) -> Prepared:
    """Return the data with the rows of the targets whose results wait for a user's metric."""
    name = prepared.entry_point

    def rows(target: str) -> Leaf:
        results = read_results(folder, target, name)
        return leaf_of(
            np.concatenate(
                [metric.score(*each, f"{prepared.where} for {target}") for each in results]
            )
        )

    for target, scores in prepared.scores.items():
        if scores is None:
            prepared = prepared.scored(target, rows(target))
    return prepared
