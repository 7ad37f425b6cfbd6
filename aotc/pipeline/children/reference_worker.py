"""Runs plain JAX on the fixtures, in a process that `aotc.pipeline.children.program_worker` is.

A process of its own with jax in its ordinary configuration, so that the reference shares nothing
with the capture but the inputs and weights in the scratch folder.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

import jax
import numpy as np

from aotc.base.errors import CaptureError, finding, raise_if
from aotc.base.evidence import QuantizedWeight
from aotc.base.stages import CapturedEntryPoint, CapturedProgram
from aotc.base.workers.worker_child import Progress
from aotc.bundle.write.safetensors_writer import write_fixture
from aotc.capture import jax_trees, project_files, source_imports, trace_errors, user_exceptions
from aotc.capture.call_arguments import CallPlan, FlatCall, flat_call, plan_call
from aotc.capture.file_digests import find_changes
from aotc.capture.model_entry_points import Models, check_lowered, open_models
from aotc.capture.traced_shardings import on_one_device
from aotc.capture.weight_sets import Weights, read_shards
from aotc.check import plain_jax, plain_structures
from aotc.check.trial_records import plan_file, read_arrays
from aotc.config.build_manifest import BuildManifest, EntryPointSpec
from aotc.pipeline.children.quantized_capture import quantized_names, restored_weights
from aotc.pipeline.children.trial_reference import PlainJax, PlainTrials
from aotc.pipeline.scratch_folder import ProgramJob, Scratch
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.manifest_labels import ExecutableKey


def work(scratch: Scratch, program: bytes, progress: Progress) -> None:
    """Write a fixture file per captured entry point and profile: inputs and reference results.

    Results are recorded ones where the program does not run here. `program` is an encoded
    `ProgramJob`. Raises ParityError or CaptureError, such as AOTC-E840 if the program changed.
    """
    job = ProgramJob.decode(program)
    jax.config.update("jax_enable_x64", job.manifest.enable_x64)
    models, compiling = open_models(job.manifest, scratch.folder), ThreadPoolExecutor(job.threads)
    manifest = models.manifest
    captured, plans = scratch.program.read(), plan_file(scratch.folder).read()
    weights = PlainWeights(models, scratch, captured)
    functions = plain_functions(weights, compiling, captured.entry_points)
    expecting = {
        name: replace(each, precision=None)
        for name, each in captured.entry_points.items()
        if each.precision and manifest.entry_points[name].fixtures.expected
    }
    written = plain_functions(weights, compiling, expecting)
    failed: list[Finding] = []
    trials = PlainTrials(captured, manifest, scratch, functions, progress)
    with on_one_device(manifest.mesh):
        trials.begin(plans)
        for name, entry_point in captured.entry_points.items():
            progress.started(f"running {name} ({entry_point.function})")
            try:
                _run(entry_point, functions[name], written.get(name), manifest, scratch)
            except CaptureError as error:
                user_exceptions.show_cause(error)
                failed += error.findings
        raise_if(failed)
        trials.try_all(plans)
    sources = project_files.sources(manifest.root, source_imports.IMPORTED)
    raise_if(find_changes(captured.sources, sources.items()))


class PlainWeights:
    """The weights of entry points as the program's users hold them, each set read once."""

    def __init__(self, models: Models, scratch: Scratch, captured: CapturedProgram) -> None:
        self.models, self._scratch, self._captured = models, scratch, captured
        self._stored: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._made: dict[tuple[str, tuple[QuantizedWeight, ...]], Any] = {}

    def function(self, reference: str) -> Callable[..., Any]:
        """Return a function of the program."""
        manifest = self.models.manifest
        return self.models.resolve(reference, manifest.root, str(manifest.path))

    def sets_of(self, entry_point: CapturedEntryPoint) -> dict[str, Any]:
        """Return the weights sets of an entry point, quantized by the precision that it has."""
        quantized = () if entry_point.precision is None else entry_point.precision.quantized
        bound = {*self.models.manifest.entry_points[entry_point.name].bind.values()}
        for name in bound:
            if (name, quantized) not in self._made:
                self._made[name, quantized] = self._make(name, entry_point)
        return {name: self._made[name, quantized] for name in bound}

    def _make(self, name: str, entry_point: CapturedEntryPoint) -> Any:
        """Return a weights set; those weights that the entry point takes quantized are restored.

        A model file's weights are as in the file, others have the numbers that the capture
        recorded.
        """
        spec, is_model = self.models.manifest.weights[name], name in self.models.weights
        if name not in self._stored:
            stored = read_shards(self._scratch.weights(name))
            own = stored.keys() - quantized_names(name, self._captured.entry_points.values())
            recorded = {key: stored[key] for key in own}
            recorded |= read_shards(self._scratch.originals(name))
            self._stored[name] = stored, self.models.arrays(name) if is_model else recorded
        stored, arrays = self._stored[name]
        restored = restored_weights(name, entry_point, stored)
        init, has_source = (None, False) if is_model else (spec.init, spec.source is not None)
        return plain_jax.weights_as_made(init, has_source, arrays | restored, self.function)


def plain_functions(
    weights: PlainWeights, compiling: Executor, entry_points: Mapping[str, CapturedEntryPoint]
) -> dict[str, PlainJax]:
    """Return entry points in plain JAX, with the precision that each has here.

    It may quantize fewer weights than was captured. Quantized weights have their dtype in the
    program, and the other factors of their products are rounded if the precision says so. The
    threads of `compiling` compile the functions.
    """
    models = weights.models
    manifest = models.manifest

    def call_at(plan: CallPlan, sizes: Mapping[str, int]) -> FlatCall:
        return flat_call(plan, _abstract(weights.sets_of(entry_points[plan.name])), manifest, sizes)

    return {
        name: PlainJax(
            replace(plan_call(name, manifest, models.resolve), initial=models.initial(name)),
            call_at,
            partial(
                plain_jax.Function,
                spec,
                weights.function,
                weights.sets_of(entry_points[name]),
                compiling=compiling,
                check_lowered=partial(check_lowered, name) if name in models.opened else None,
                rounded=precision.rounded if precision else {},
                wide=precision.wide if precision else None,
            ),
        )
        for name, spec in manifest.entry_points.items()
        if name in entry_points
        for precision in [entry_points[name].precision]
    }


def _run(
    entry_point: CapturedEntryPoint,
    function: PlainJax,
    written: PlainJax | None,
    manifest: BuildManifest,
    scratch: Scratch,
) -> None:
    """Write the fixture and the call of every profile.

    `written` is the function with the weights of the program, if `function` has quantized ones and
    the framework's results are known, which are those of the program. Raises CaptureError
    (AOTC-E842) for a program that plain JAX cannot run here.
    """
    name, spec = entry_point.name, manifest.entry_points[entry_point.name]
    for key, profile in entry_point.by_key.items():
        inputs = read_arrays(scratch.inputs(key))
        try:
            at_sizes = function.at(profile.sizes)
            arguments = at_sizes.arguments(inputs)
            if entry_point.recorded:
                result = at_sizes.rebuild_result(read_arrays(scratch.results(key)))
            else:
                started = monotonic()
                result = at_sizes(arguments)
                function.seconds[key.label] = monotonic() - started
        except AotcError:
            raise
        except (Exception, SystemExit) as error:
            raise CaptureError(trace_errors.not_run(error, key.label, manifest.root)) from error
        if spec.fixtures.expected is not None and scratch.expected(key).exists():
            found = result.arrays if written is None else written.outputs(profile.sizes, inputs)
            raise_if(_compare_expected(found, read_arrays(scratch.expected(key)), spec, key))
        where = f"{manifest.where('entry_points', name)} result"
        fixture = write_fixture(inputs, result.arrays, where=where)
        scratch.fixture(key).write_bytes(fixture)
        call = plain_structures.PlainCall(
            key=key, arguments=at_sizes.inputs_of(arguments), result=plain_jax.spell(result.value)
        )
        plain_structures.call_file(scratch.folder, key).write(call)


def _compare_expected(
    found: Mapping[str, Any], expected: Mapping[str, Any], spec: EntryPointSpec, key: ExecutableKey
) -> Iterator[Finding]:
    """AOTC-E950 for each array that is not what the framework of a model gave. Both: by path."""
    held = spec.expected_tolerance
    for path, wanted in sorted(expected.items()):
        wide = np.complex128 if np.iscomplexobj(wanted) else np.float64
        one, other = np.asarray(found[path]).astype(wide), np.asarray(wanted).astype(wide)
        close = np.isclose(one, other, rtol=held.rtol, atol=held.atol, equal_nan=True)
        if not close.all():
            worst = float(np.nanmax(np.abs(one - other)))
            many = f"{int((~close).sum())} of {close.size} elements"
            yield finding(
                "AOTC-E950",
                f"{key.label} {path or 'result'}",
                f"{many} differ, by at most {worst:.3g}",
                expected=f"at most {held.atol:g} + {held.rtol:g} * |expected|",
            )


def _abstract(weights: Mapping[str, Any]) -> dict[str, Weights]:
    """Return weights sets with avals only, to locate the failure of a function."""
    return {
        name: Weights("init", jax.tree.map(jax_trees.abstract, made), {})
        for name, made in weights.items()
    }
