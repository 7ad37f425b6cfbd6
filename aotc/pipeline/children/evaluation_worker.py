"""Scores plain JAX on evaluation data, and results of executables by users' metrics.

Runs in a process of `aotc.pipeline.children.program_worker`.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aotc.base.errors import CaptureError, finding, raise_if, refusal
from aotc.base.stages import CapturedEntryPoint, CapturedProgram
from aotc.base.workers.worker_child import Progress
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.capture import fixture_inputs, trace_errors, user_exceptions
from aotc.capture.file_digests import find_changes
from aotc.capture.fixture_inputs import Recorded, mask_and_length_arrays
from aotc.capture.model_entry_points import Models, open_models
from aotc.capture.traced_shardings import on_one_device
from aotc.check.evaluation_files import (
    LABELS,
    PLAIN_JAX,
    Array,
    Batch,
    Block,
    Prepared,
    block_file,
    prepared_file,
    read_results,
)
from aotc.check.metrics import Metric, MetricError, metric_of
from aotc.check.plain_structures import leaf_of
from aotc.config.build_manifest import BuildManifest
from aotc.config.evaluation_specs import EvaluationSpec
from aotc.pipeline.children.reference_worker import PlainWeights, plain_functions
from aotc.pipeline.children.trial_reference import PlainJax
from aotc.pipeline.scratch_folder import ProgramJob, Scratch
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.schema.bundle_manifest import TensorSpec
from aotc_runtime.schema.manifest_labels import sizes_text
from aotc_runtime.schema.size_expressions import parse_expression

type Source = Iterator[tuple[str, Mapping[str, Array], str]]
"""Blocks with their place for messages, and the digest of the file that holds each, or ""."""

type Resolve = Callable[..., Any]
"""Returns a function of the user by its name; see `Models.resolve`."""


def work(scratch: Scratch, program: bytes, progress: Progress) -> None:
    """Write the data of every evaluation in blocks, and the rows of plain JAX.

    If that was done, write the rows of targets whose results wait for a user's metric. `program` is
    an encoded `ProgramJob`. Raises CaptureError (AOTC-E829, E840, E847, E849).
    """
    job = ProgramJob.decode(program)
    jax.config.update("jax_enable_x64", job.manifest.enable_x64)
    models, captured = open_models(job.manifest, scratch.folder), scratch.program.read()
    manifest, folder = models.manifest, scratch.folder
    evaluated = [
        name
        for name, spec in manifest.entry_points.items()
        if spec.evaluation is not None and name in captured.entry_points
    ]
    file = prepared_file(folder)
    if file.path.exists():
        metrics = {name: _metric(name, manifest, models.resolve) for name in evaluated}
        file.write([_score(one, metrics[one.entry_point], folder) for one in file.read()])
        return
    prepared = []
    written = {name: replace(each, precision=None) for name, each in captured.entry_points.items()}
    with ThreadPoolExecutor(job.threads) as compiling, on_one_device(manifest.mesh):
        functions = plain_functions(PlainWeights(models, scratch, captured), compiling, written)
        for name in evaluated:
            evaluation = PlainEvaluation(name, models, captured, folder, progress)
            rows = evaluation.rows(functions[name])
            prepared.append(evaluation.data.with_rows(PLAIN_JAX, leaf_of(rows)))
    file.write(prepared)


class PlainEvaluation:
    """The evaluation of an entry point in plain JAX; its data are written to the folder.

    Raises CaptureError (AOTC-E829, E840, E847, E849).
    """

    def __init__(
        self, name: str, models: Models, program: CapturedProgram, folder: Path, progress: Progress
    ) -> None:
        manifest = self._manifest = models.manifest
        self._entry_point, self._folder = program.entry_points[name], folder
        self._progress = progress
        self.metric = _metric(name, manifest, models.resolve)
        progress.started(f"reading evaluation data of {name}")
        source = read_blocks(name, manifest, program.files, models.resolve)
        module, is_users, _ = evaluation_of(manifest, name).metric.partition(":")
        file = sys.modules[module].__file__ if is_users else None
        code = sha256(Path(file).read_bytes() if file else b"") if is_users else ""
        self.data = DataWriter(self._entry_point, manifest, folder).write(source, code)

    def rows(self, function: PlainJax) -> Array:
        """Return the rows of the metric, of the entry point as this function."""
        entry_point, data = self._entry_point, self.data
        self._progress.started(f"evaluating {entry_point.name} ({entry_point.function})")
        profiles = [each.sizes for each in entry_point.profiles]
        batches = data.batches(self._folder, profiles, entry_point.name)
        results = ((self._output(function, batch), batch.labels) for batch in batches)
        return self.metric.score(results, f"{data.where} in plain JAX")

    def _output(self, function: PlainJax, batch: Batch) -> Array:
        """Return the result of plain JAX that is scored."""
        name, sizes = self._entry_point.name, batch.sizes
        output = self._entry_point.outputs[self.data.output].path
        try:
            by_loader = mask_and_length_arrays(self._manifest.entry_points[name], sizes, sizes)
            found = np.asarray(function.outputs(sizes, {**batch.inputs, **by_loader})[output])
        except AotcError:
            raise
        except (Exception, SystemExit) as error:
            where = f"{name} at {sizes_text(sizes)}"
            described = trace_errors.not_run(error, where, self._manifest.root)
            raise CaptureError(described) from error
        self._progress.finished(name)
        return found


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
            raise function_failure(error, where, manifest) from error
        if made.shape != output.shape[:1] or made.dtype.kind not in "biuf":
            found = f"{made.dtype.name}{list(made.shape)}"
            raise MetricError(f"{found} in place of a number for each of {len(output)} samples")
        return made.astype(np.float64)[:, None]

    return metric_of(spec.name, rows)


def _score(prepared: Prepared, metric: Metric, folder: Path) -> Prepared:
    """Return the data with the rows of the targets whose results wait for a user's metric."""
    for target in [target for target, scores in prepared.scores.items() if scores is None]:
        results = read_results(folder, target, prepared.entry_point)
        rows = metric.score(results, f"{prepared.where} for {target}")
        prepared = prepared.with_rows(target, leaf_of(rows))
    return prepared


def evaluation_of(manifest: BuildManifest, entry_point: str) -> EvaluationSpec:
    """Return the evaluation of an entry point that has one."""
    spec = manifest.entry_points[entry_point].evaluation
    assert spec is not None, "only these are evaluated"
    return spec


def function_failure(error: BaseException, where: str, manifest: BuildManifest) -> AotcError:
    """Return AOTC-E829 for an exception of a user's function."""
    return refusal("AOTC-E829", where, user_exceptions.describe(error, manifest.root))


def read_blocks(
    entry_point: str, manifest: BuildManifest, files: Mapping[str, str], resolve: Resolve
) -> Source:
    """Yield the data of an evaluation. Raises CaptureError (AOTC-E829, E840, E847).

    `files` has the digests of files that the capture read.
    """
    spec = evaluation_of(manifest, entry_point)
    where = manifest.where("entry_points", entry_point, "evaluation", "data")
    for at, read in read_files(entry_point, manifest):
        raise_if(find_changes(files, [(read.file, read.digest)]))
        yield at, read.arrays, read.digest
    if spec.reads_function:
        function = resolve(spec.data, manifest.root, where)
        try:
            for number, batch in enumerate(function()):
                if not isinstance(batch, Mapping):
                    found = f"a {type(batch).__name__}"
                    expected = "batches that are dicts of arrays"
                    raise refusal("AOTC-E847", f"{where} batch {number}", found, expected=expected)
                arrays = {str(key): np.asarray(value) for key, value in batch.items()}
                yield f"{where} batch {number}", arrays, ""
        except AotcError:
            raise
        except (Exception, SystemExit) as error:
            raise function_failure(error, where, manifest) from error


def read_files(entry_point: str, manifest: BuildManifest) -> Iterator[tuple[str, Recorded]]:
    """Yield the files of an evaluation, each after its place. Raises CaptureError (E840, E847)."""
    where = manifest.where("entry_points", entry_point, "evaluation", "data")
    causes = ("evaluation-file-is-too-compressed", "evaluation-file-is-invalid")
    for file in manifest.evaluation_files(entry_point):
        yield f"{where} {file.text}", fixture_inputs.read_npz(file, where, "AOTC-E847", causes)


class DataWriter:
    """Writes the data of an entry point. Raises CaptureError (AOTC-E847) without samples."""

    def __init__(self, captured: CapturedEntryPoint, manifest: BuildManifest, folder: Path) -> None:
        self._captured, self._folder = captured, folder
        self._spec = evaluation_of(manifest, captured.name)
        self._where = manifest.where("entry_points", captured.name, "evaluation")
        self._output_where = manifest.where("entry_points", captured.name, "evaluation", "output")
        stated = manifest.entry_points[captured.name]
        self._inputs = [each for each in captured.inputs if each.path not in stated.by_loader]
        self._output = self._scored_output()
        shape = captured.outputs[self._output].shape
        counted = [each for each in self._inputs if shape and each.shape[:1] == shape[:1]]
        self._counted = tuple(each.path for each in counted)
        inner = {axis for each in self._inputs for axis in self._inner(each, each.shape)}
        is_inner = any(shape[0] in _names(axis) for axis in inner)
        is_plain = isinstance(shape[0], int) or _names(shape[0]) == {shape[0]} if shape else False
        if not counted or is_inner or not is_plain:
            found = f"a result of shape {list(shape)}"
            expected = "a first axis that counts samples, in the result and in inputs alone"
            raise refusal("AOTC-E847", self._where, found, expected=expected)
        self._axis = shape[0]
        self._pads = tuple(sorted(stated.pads))

    def _scored_output(self) -> int:
        paths = [each.path or "result" for each in self._captured.outputs]
        if self._spec.output is None and len(paths) == 1:
            return 0
        if self._spec.output not in paths:
            found = f'"{stated}"' if (stated := self._spec.output) else "several results"
            hint = did_you_mean(stated, paths, f'name the result to score: output = "{paths[0]}"')
            where, cause = self._output_where, "scored-result-is-not-named"
            expected = f"one of: {', '.join(paths)}"
            raise refusal("AOTC-E847", where, found, cause=cause, expected=expected, hint=hint)
        return paths.index(self._spec.output)

    def _inner[Axis](self, spec: TensorSpec, shape: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Return the axes of an input, or their sizes, that do not count samples."""
        return shape[spec.path in self._counted :]

    def write(self, source: Source, code: str) -> Prepared:
        """Write the blocks; `code` is the digest of the metric. Raises CaptureError."""
        blocks: list[Block] = []
        digests: list[str] = []
        for where, arrays, digest in source:
            block, typed = self.check(arrays, where)
            typed[LABELS] = arrays[self._spec.target]
            data = write_tensors(typed, where=where)
            block_file(self._folder, self._captured.name, len(blocks)).write_bytes(data)
            blocks.append(block)
            digests.append(digest or sha256(data))
        if not any(block.samples for block in blocks):
            raise refusal("AOTC-E847", self._where, "", cause="evaluation-data-is-empty")
        return Prepared(
            entry_point=self._captured.name,
            where=f"{self._where} {self._spec.data}",
            metric=self._spec.name,
            output=self._output,
            axis=self._axis,
            counted=self._counted,
            pads=self._pads,
            blocks=tuple(blocks),
            digest=digests[0] if len(digests) == 1 else sha256("\n".join(digests).encode()),
            code=code,
        )

    def check(self, arrays: Mapping[str, Array], where: str) -> tuple[Block, dict[str, Array]]:
        """Return a block and its inputs. Raises CaptureError (AOTC-E847) for unfit arrays."""
        typed = {
            spec.path: fixture_inputs.as_input(arrays[spec.path], spec.dtype)
            for spec in self._inputs
            if spec.path in arrays
        }

        def wrong(of: str, found: str, expected: str, hint: str | None = None) -> Finding:
            at = f"{where} {of}".rstrip()
            return finding("AOTC-E847", at, found, expected=expected, hint=hint)

        target = self._spec.target
        wanted = [*(each.path for each in self._inputs), target]
        findings = [
            wrong(name, "an unknown array", f"one of: {', '.join(wanted)}")
            for name in sorted(arrays.keys() - {*wanted})
        ]
        findings += [
            wrong(name, ", ".join(sorted(arrays)) or "no arrays", f"an array named {name}")
            for name in wanted
            if name not in arrays
        ]
        known = [(spec, typed[spec.path]) for spec in self._inputs if spec.path in typed]
        sizes: dict[str, int] = {}
        for spec, array in known:
            axes = self._inner(spec, spec.shape), self._inner(spec, array.shape)
            for axis, size in zip(*axes, strict=False):
                if _names(axis) == {axis}:
                    sizes.setdefault(str(axis), size)
        findings += [
            wrong(
                spec.path,
                f"{array.dtype.name}{list(array.shape)}",
                f"{spec.dtype.value}[{', '.join(map(str, spec.shape))}]",
                fixture_inputs.narrowing_hint(array, spec.dtype),
            )
            for spec, array in known
            if not self._fits(spec, array, sizes)
        ]
        labeled = {**typed, **({target: arrays[target]} if target in arrays else {})}
        counts = {
            name: labeled[name].shape[0] if labeled[name].ndim else -1
            for name in (*self._counted, target)
            if name in labeled
        }
        if len({*counts.values()}) > 1:
            found = ", ".join(f"{name} {count}" for name, count in counts.items())
            findings.append(wrong("", found, "as many labels as samples"))
        raise_if(findings)
        return Block(next(iter(counts.values()), 0), sizes), typed

    def _fits(self, spec: TensorSpec, array: Array, sizes: Mapping[str, int]) -> bool:
        if array.dtype.name != spec.dtype.value or array.ndim != len(spec.shape):
            return False
        axes = self._inner(spec, spec.shape), self._inner(spec, array.shape)
        return all(
            axis == "?"
            or not _names(axis) <= sizes.keys()
            or parse_expression(axis).value(sizes) == size
            for axis, size in zip(*axes, strict=True)
        )


def _names(axis: int | str) -> frozenset[str]:
    """Return the dimensions in the size of an axis."""
    return frozenset() if axis == "?" else parse_expression(axis).names()
