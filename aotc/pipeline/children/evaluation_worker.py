"""Reads evaluation data and scores plain JAX on them.

It also scores results of executables by users' metrics, and runs in a process of
`aotc.pipeline.children.program_worker`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
from msgspec.structs import replace

from aotc.base.errors import CaptureError, finding, raise_if, refusal
from aotc.base.stages import CapturedEntryPoint
from aotc.base.workers.worker_child import Progress
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.capture import fixture_inputs, trace_errors, user_exceptions
from aotc.capture.file_digests import changed
from aotc.capture.model_entry_points import open_models
from aotc.capture.traced_shardings import on_one_device
from aotc.check.evaluation_calls import left_over
from aotc.check.evaluation_files import (
    Array,
    Block,
    Prepared,
    Rows,
    block_file,
    has_samples,
    input_of,
    read_output,
    read_prepared,
    slices,
    targets_with_outputs,
    write_prepared,
    write_scores,
)
from aotc.check.metrics import MetricError, metric_of
from aotc.check.padding.trial_files import read_arrays
from aotc.config.build_manifest import BuildManifest, at_once
from aotc.pipeline.children.reference_worker import as_written, plain_functions
from aotc.pipeline.children.trial_reference import PlainJax
from aotc.pipeline.children.user_process import runs_users_code
from aotc.pipeline.scratch_folder import ProgramJob, Scratch
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.bundle_manifest import Pad, TensorSpec
from aotc_runtime.schema.manifest_labels import sizes_text
from aotc_runtime.schema.size_expressions import parse_expression

FINDINGS_MAX = 20
"""Findings about data that are reported at once."""

type Score = Callable[[Array, Array], Array]


@runs_users_code
def work(scratch: Scratch, program: bytes, progress: Progress) -> None:
    """Write the data of every evaluation in blocks, with the rows of plain JAX.

    If the folder has results of executables, write their rows instead. `program` is an encoded
    `ProgramJob`. Raises CaptureError (AOTC-E829, E840, E847, E849).
    """
    job = ProgramJob.decode(program)
    jax.config.update("jax_enable_x64", job.manifest.enable_x64)
    models, captured = open_models(job.manifest, scratch.folder), scratch.read_program()
    manifest = models.manifest
    scores: dict[str, Score] = {}
    codes: dict[str, str] = {}
    for name, spec in manifest.entry_points.items():
        if spec.evaluation is not None and name in captured.entry_points:
            scores[name], codes[name] = _metric(name, manifest, models.resolve)
    if any(scratch.folder.glob("evaluated.*")):
        _score_results(scratch.folder, scores)
        return
    with ThreadPoolExecutor(job.threads) as compiling, on_one_device(manifest.mesh):
        functions = plain_functions(models, scratch, as_written(captured), compiling)
        prepared = []
        for name in scores:
            entry_point = captured.entry_points[name]
            progress.started(f"reading evaluation data of {name}")
            data = _Data(entry_point, manifest, scratch.folder)
            blocks, digest = data.write(_source(name, manifest, captured.files, models.resolve))
            progress.started(f"evaluating {name} ({entry_point.function})")
            found = Prepared(
                entry_point=name,
                metric=data.spec.name,
                output=data.output,
                target=data.spec.target,
                axis=data.axis,
                pads=data.pads,
                blocks=tuple(blocks),
                digest=digest,
                code=codes[name],
                reference=Rows(1, b""),
            )
            prepared.append(_referred(found, data, functions[name], scores[name], progress))
        write_prepared(scratch.folder, prepared)


type Source = Iterator[tuple[str, Mapping[str, Array], str]]
"""Blocks with their place for messages, and the digest of the file that holds each, or ""."""


def _source(
    name: str, manifest: BuildManifest, files: Mapping[str, str], resolve: Callable[..., Any]
) -> Source:
    spec = manifest.entry_points[name].evaluation
    assert spec is not None
    where = manifest.where("entry_points", name, "evaluation", "data")
    if not spec.reads_function:
        for file in manifest.evaluation_files(name):
            read = fixture_inputs.read_npz(
                file,
                where,
                "AOTC-E847",
                ("evaluation-file-is-too-compressed", "evaluation-file-is-invalid"),
            )
            raise_if(changed(files, [(file.text, read.digest)]))
            yield f"{where} {file.text}", read.arrays, read.digest
        return
    function = resolve(spec.data, manifest.root, where)
    number = 0
    try:
        for batch in function():
            if not isinstance(batch, Mapping):
                found = f"a {type(batch).__name__}"
                expected = "batches that are dicts of arrays"
                raise refusal("AOTC-E847", f"{where} batch {number}", found, expected=expected)
            arrays = {str(key): np.asarray(value) for key, value in batch.items()}
            yield f"{where} batch {number}", arrays, ""
            number += 1
    except AotcError:
        raise
    except (Exception, SystemExit) as error:
        raise _raised(where, error, manifest) from error


def _raised(where: str, error: BaseException, manifest: BuildManifest) -> AotcError:
    return refusal("AOTC-E829", where, user_exceptions.describe(error, manifest.root))


def _metric(name: str, manifest: BuildManifest, resolve: Callable[..., Any]) -> tuple[Score, str]:
    """Return the function that scores a batch, and its file's digest; "" for a built-in metric."""
    spec = manifest.entry_points[name].evaluation
    assert spec is not None
    where = manifest.where("entry_points", name, "evaluation", "metric")
    metric = metric_of(spec.name)
    if metric is not None:
        known = metric.rows

        def built_in(output: Array, labels: Array) -> Array:
            try:
                return known(output, labels)
            except MetricError as error:
                raise refusal("AOTC-E849", f"{where} {spec.name}", str(error)) from error

        return built_in, ""
    function = resolve(spec.metric, manifest.root, where)

    def of_user(output: Array, labels: Array) -> Array:
        try:
            made = np.asarray(function(output, labels))
        except (Exception, SystemExit) as error:
            raise _raised(where, error, manifest) from error
        if made.shape != output.shape[:1] or made.dtype.kind not in "biuf":
            found = f"{made.dtype.name}{list(made.shape)}"
            expected = f"a number for each of {len(output)} samples"
            raise refusal("AOTC-E849", f"{where} {spec.metric}", found, expected=expected)
        return made.astype(np.float64)[:, None]

    file = sys.modules[spec.metric.partition(":")[0]].__file__
    return of_user, sha256(Path(file).read_bytes() if file else b"")


class _Data:
    """The data of an entry point's evaluation; `axis`, `output` and `pads` are as in `Prepared`."""

    def __init__(self, captured: CapturedEntryPoint, manifest: BuildManifest, folder: Path) -> None:
        entry_point = manifest.entry_points[captured.name]
        assert entry_point.evaluation is not None
        self.spec, self.captured, self.folder = entry_point.evaluation, captured, folder
        self._entry_point = entry_point
        self._where = manifest.where("entry_points", captured.name, "evaluation")
        policies = {name: at_once(each) for name, each in entry_point.out_of_profile.items()}
        pads = [each for each in policies.values() if isinstance(each, Pad)]
        hidden = {name for pad in pads for name in (pad.mask, pad.length) if name}
        self.inputs = [each for each in captured.inputs if each.path not in hidden]
        self.output = self._output()
        shape = captured.outputs[self.output].shape
        counted = [each for each in self.inputs if shape and has_samples(each, shape[0])]
        inner = [axis for each in counted for axis in each.shape[1:]]
        inner += [a for each in self.inputs if each not in counted for a in each.shape]
        is_inner = isinstance(shape[0] if shape else 0, str) and any(
            isinstance(axis, str) and shape[0] in parse_expression(axis).names() for axis in inner
        )
        if not counted or is_inner:
            found = f"a result of shape {list(shape)}"
            expected = "a first axis that counts samples, in the result and in inputs alone"
            raise refusal("AOTC-E847", self._where, found, expected=expected)
        self.axis = shape[0]
        self.pads = isinstance(policies.get(str(self.axis)), Pad)

    def by_loader(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        """Return the masks and lengths that the loader adds to a call."""
        return fixture_inputs.mask_and_length_arrays(self._entry_point, sizes, sizes)

    def _output(self) -> int:
        paths = [each.path or "result" for each in self.captured.outputs]
        if self.spec.output is None and len(paths) == 1:
            return 0
        if self.spec.output not in paths:
            found = self.spec.output or "no output, of several"
            hint = f'name the result to score: output = "{paths[0]}"'
            where, expected = f"{self._where} output", f"one of: {', '.join(paths)}"
            raise refusal("AOTC-E847", where, found, expected=expected, hint=hint)
        return paths.index(self.spec.output)

    def write(self, source: Source) -> tuple[list[Block], str]:
        """Write the blocks; return them and the digest of the data. Raises CaptureError."""
        blocks: list[Block] = []
        digests: list[str] = []
        findings: list[Finding] = []
        for where, arrays, digest in source:
            wrong, block, known = self._checked(where, arrays)
            findings += wrong
            if len(findings) >= FINDINGS_MAX:
                break
            if wrong:
                continue
            data = write_tensors(known, where=where)
            block_file(self.folder, self.captured.name, len(blocks)).write_bytes(data)
            blocks.append(block)
            digests.append(digest or sha256(data))
        raise_if(findings)
        if not sum(block.samples for block in blocks):
            raise refusal("AOTC-E847", self._where, "", cause="evaluation-data-is-empty")
        return blocks, digests[0] if len(digests) == 1 else sha256("\n".join(digests).encode())

    def _checked(
        self, where: str, arrays: Mapping[str, Array]
    ) -> tuple[list[Finding], Block, dict[str, Array]]:
        """Return what is wrong with a block, its sizes, and its arrays as they are stored."""

        def wrong(of: str, found: str, expected: str) -> Finding:
            return finding("AOTC-E847", f"{where} {of}".rstrip(), found, expected=expected)

        target = self.spec.target
        paths = [each.path for each in self.inputs]
        findings = [
            wrong(name, "an unknown array", f"one of: {', '.join([*paths, target])}")
            for name in sorted(arrays.keys() - {*paths, target})
        ]
        findings += [
            wrong(name, ", ".join(sorted(arrays)) or "no arrays", f"an array named {name}")
            for name in (*paths, target)
            if name not in arrays
        ]
        sizes: dict[str, int] = {}
        counts: dict[str, int] = {}
        known: dict[str, Array] = {}
        for spec in self.inputs:
            if spec.path not in arrays:
                continue
            array = fixture_inputs.typed(arrays[spec.path], spec.dtype)
            known[f"inputs/{spec.path}"] = array
            if not self._fits(spec, array, sizes, counts):
                found = f"{array.dtype.name}{list(array.shape)}"
                shape = ", ".join(map(str, spec.shape))
                findings.append(wrong(spec.path, found, f"{spec.dtype.value}[{shape}]"))
        if target in arrays:
            known[f"target/{target}"] = arrays[target]
            counts[target] = arrays[target].shape[0] if arrays[target].ndim else -1
        if len({*counts.values()}) > 1:
            found = ", ".join(f"{name} {count}" for name, count in counts.items())
            findings.append(wrong("", found, "as many labels as samples"))
        samples = next(iter(counts.values()), 0)
        return findings, Block(samples, sizes), known

    def _fits(
        self, spec: TensorSpec, array: Array, sizes: dict[str, int], counts: dict[str, int]
    ) -> bool:
        """Return whether an array is one of this input; note its sizes and samples."""
        if array.dtype.name != spec.dtype.value or array.ndim != len(spec.shape):
            return False
        axes = [*zip(spec.shape, array.shape, strict=True)]
        if has_samples(spec, self.axis):
            counts[spec.path] = array.shape[0]
            axes = axes[1:]
        for axis, size in axes:
            if axis == "?" or axis == size:
                continue
            if isinstance(axis, int):
                return False
            expression = parse_expression(axis)
            names = expression.names()
            if [*names] == [axis]:
                if sizes.setdefault(axis, size) != size:
                    return False
            elif names <= sizes.keys() and expression.value(sizes) != size:
                return False
        return True


def _referred(
    prepared: Prepared, data: _Data, function: PlainJax, score: Score, progress: Progress
) -> Prepared:
    """Return the data with the rows of plain JAX."""
    profiles = [each.sizes for each in data.captured.profiles]
    path = data.captured.outputs[prepared.output].path
    rows: list[Array] = []
    for number, block in enumerate(prepared.blocks):
        batches = prepared.batches(block, profiles)
        if batches is None:
            raise left_over(prepared.entry_point, block, profiles)
        arrays = read_arrays(block_file(data.folder, prepared.entry_point, number))
        for part, size in zip(slices(batches), batches, strict=True):
            axis = prepared.axis
            sizes = {**block.sizes, **({axis: size} if isinstance(axis, str) else {})}
            inputs = {spec.path: input_of(arrays, spec, axis, part) for spec in data.inputs}
            try:
                outputs = function.outputs(sizes, {**inputs, **data.by_loader(sizes)})
            except AotcError:
                raise
            except (Exception, SystemExit) as error:
                where = f"{prepared.entry_point} at {sizes_text(sizes)}"
                root = Path.cwd()
                raise CaptureError(trace_errors.not_run(error, where, root)) from error
            rows.append(score(np.asarray(outputs[path]), arrays[f"target/{prepared.target}"][part]))
            progress.finished(prepared.entry_point)
    return replace(prepared, reference=Rows.of(np.concatenate(rows)))


def _score_results(folder: Path, scores: Mapping[str, Score]) -> None:
    """Write the rows of the executables' results, by target and entry point."""
    found: dict[str, dict[str, Rows]] = {}
    for prepared in read_prepared(folder):
        for target in targets_with_outputs(folder, prepared.entry_point):
            rows = [
                scores[prepared.entry_point](
                    read_output(folder, target, prepared.entry_point, number),
                    read_arrays(block_file(folder, prepared.entry_point, number))[
                        f"target/{prepared.target}"
                    ],
                )
                for number in range(len(prepared.blocks))
            ]
            found.setdefault(target, {})[prepared.entry_point] = Rows.of(np.concatenate(rows))
    write_scores(folder, found)
