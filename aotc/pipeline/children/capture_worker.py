"""Traces a program into a scratch folder, in a process of `program_worker`.

The process is separate because it imports jax and the user's code, and because its jax must take
closed-over constants as arguments.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jax
import msgspec
import numpy as np

from aotc.base import stages
from aotc.base.errors import raise_if, refusal
from aotc.base.workers.worker_child import Progress
from aotc.bundle.write.safetensors_writer import shards, write_tensors
from aotc.capture import (
    fixture_inputs,
    jax_private,
    project_files,
    source_imports,
    traced_shardings,
    user_exceptions,
)
from aotc.capture.call_arguments import CallPlan, flat_call
from aotc.capture.file_digests import find_changes
from aotc.capture.installed_packages import imported_packages
from aotc.capture.model_entry_points import Models, open_models
from aotc.capture.portable_stablehlo import portable
from aotc.capture.profile_trace import HOST, Platforms, trace_profile
from aotc.capture.traced_entry_points import trace_entry_point
from aotc.capture.weight_layouts import laid_out
from aotc.capture.weight_sets import CLOSURE, Weights, read_shards
from aotc.check import plain_jax
from aotc.check.trial_plan import plan_trials
from aotc.check.trial_records import EntryTrials, Plans, Sizes, plan_file, read_arrays
from aotc.compile.compiler_registry import kind_of
from aotc.config.build_manifest import BuildManifest
from aotc.pipeline.children.calibration import Calibrator
from aotc.pipeline.children.evaluation_worker import DataWriter, read_files
from aotc.pipeline.children.quantized_capture import Quantizer, array_of, check_written
from aotc.pipeline.scratch_folder import ProgramJob, Scratch
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.manifest_labels import ExecutableKey

TOOLCHAIN = ("aotc", "aotc-runtime", "jax", "jaxlib", "msgspec", "numpy", "scipy")
"""Packages whose code shapes a bundle's bytes, whether or not the capture imports them."""


def work(scratch: Scratch, program: bytes, progress: Progress) -> None:
    """Trace everything the job's manifest names, and write it to the scratch folder.

    Entry points, weights and fixtures are written as they are made, the program last. `program` is
    an encoded `ProgramJob`. With `keeps_going`, rejected entry points are left out, and their
    findings raised at the end. Raises CaptureError or BuildManifestError.
    """
    assert jax_private.constants_are_arguments(), "the parent sets the variable"
    # jax warns about donated arguments it cannot reuse; the manifest's alias_bytes tells that.
    warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
    job = ProgramJob.decode(program)
    jax.config.update("jax_enable_x64", job.manifest.enable_x64)
    models = open_models(job.manifest, scratch.folder, keeps_going=job.keeps_going)
    if models.opened and all(_is_xlas(*each, job.manifest) for each in job.targets.items()):
        first = {key.entry_point: dict(key.sizes) for key in reversed(job.executables)}
        models = laid_out(models, first)
    failed = [*models.refused]
    weights: dict[str, Weights] = {}
    for name, of_weights in models.manifest.weights.items():
        if of_weights.init:
            progress.started(f"making weights {name} ({of_weights.init})")
        try:
            weights[name] = models.load(name)
        except AotcError as error:
            failed += _collect_findings(error, job)
    manifest = _with_weights(models.manifest, weights)
    if not manifest.entry_points:
        raise_if(failed)
    platforms = tuple(sorted({kind_of(platform).lowered_for for platform in job.targets.values()}))
    cuts = traced_shardings.weight_shardings(manifest, weights)
    files: dict[str, str] = {}

    def tensor(name: tuple[str, str]) -> Any:
        if name[0] == CLOSURE:
            return next(each[name[1]] for each in closures.values() if name[1] in each)
        return array_of(weights[name[0]].tensors[name[1]])

    calibrator = Calibrator(manifest, scratch.folder, files, models.resolve, tensor)
    quantizer = Quantizer(manifest, weights, calibrator.calibrate)
    captured: dict[str, stages.CapturedEntryPoint] = {}
    trials: Plans = {target: [] for target in job.wanted}
    plans: dict[str, CallPlan] = {}
    closures: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    for name, spec in manifest.entry_points.items():
        progress.started(f"tracing {name} ({spec.function})")
        sizes = [dict(key.sizes) for key in job.executables if key.entry_point == name]
        lowered_for = Platforms(platforms, spec.fixtures.results is not None, job.located)
        try:
            with traced_shardings.under_mesh(manifest.mesh), models.sizes_told(name):
                traced = trace_entry_point(
                    name, manifest, models, weights, sizes, cuts, lowered_for
                )
            _check_x64(manifest)
            closures[name] = traced.lifted
            _check_evaluation(traced.captured, models, files, scratch)
            captured[name] = quantizer.quantize(traced.captured)
        except AotcError as error:
            failed += _collect_findings(error, job)
            continue
        plans[name] = replace(traced.plan, initial=models.initial(name))
        scratch.entry_point(name).write(captured[name])
        progress.finished(name)
    raise_if(() if failed else quantizer.unmatched_patterns())
    for file, digest in models.files():
        _note(files, file, digest)
    # Sources of weights are hashed beside all that follows; a failure does not wait for that.
    hashing = ThreadPoolExecutor(1, "aotc-hash").submit(_digests, weights)
    # Compilers are at work by now; making fixtures runs the program's own functions, which
    # takes long.
    for name, entry_point in [*captured.items()]:
        progress.started(f"making fixtures of {name} ({entry_point.function})")
        try:
            recorded = fixture_inputs.read_recorded(name, manifest, "file")
            if recorded:
                _note(files, recorded.file, recorded.digest)
            captured[name] = _write_fixtures(
                entry_point, plans[name], manifest, recorded, scratch, files
            )
            captured[name], planned = _plan_trials(
                captured[name], plans[name], manifest, weights, job.wanted, recorded, scratch
            )
            _check_x64(manifest)
            _require_bounded(captured[name], plans[name], models, weights, scratch)
        except AotcError as error:
            failed += _collect_findings(error, job)
            del captured[name]
            continue
        for target, entry in planned.items():
            trials[target].append(entry)
    if not captured:
        raise_if(failed)
    sets: dict[str, Mapping[str, stages.Tensor]] = {
        name: loaded.tensors for name, loaded in weights.items()
    }
    origins = {name: loaded.origin for name, loaded in weights.items()}
    if closure := {key: value for name in captured for key, value in closures[name].items()}:
        sets[CLOSURE], origins[CLOSURE] = closure, CLOSURE
    for name, tensors in sets.items():
        where = f"weights.{name}" if name == CLOSURE else manifest.where("weights", name)
        stored = quantizer.stored_tensors(name, tensors, captured)
        scratch.write_shards("weights", name, shards(stored, where=where))
        replaced = {key: tensor for key, tensor in tensors.items() if key not in stored}
        if replaced:
            scratch.write_shards("originals", name, shards(replaced, where=where))
        written = read_shards(scratch.weights(name))
        if name in weights and weights[name].made is not None:
            kept = {key: tensor for key, tensor in written.items() if key in tensors}
            raise_if(plain_jax.find_misrecorded(weights[name].made, kept, where, replaced))
        raise_if(check_written(name, tensors, written, captured, where))
    for file, digest in hashing.result():
        _note(files, file, digest)
    for loaded in weights.values():
        for read in loaded.files:
            read.require_unchanged()
    plan_file(scratch.folder).write(trials)
    scratch.program.write(
        stages.CapturedProgram(
            entry_points=captured,
            weights=origins,
            sources=project_files.sources(manifest.root, source_imports.IMPORTED),
            files=dict(sorted(files.items())),
            packages=imported_packages(also=TOOLCHAIN),
            shardings=cuts,
            xla_flags=os.environ.get("XLA_FLAGS", ""),
            jax_options=sha256(repr(sorted(jax.config.values.items())).encode()),
        )
    )
    raise_if(failed)


def _digests(weights: Mapping[str, Weights]) -> list[tuple[str, str]]:
    """Return the names and digests of all files of weights."""
    files = (read for loaded in weights.values() for read in loaded.files)
    return [(read.source.text, read.digest()) for read in files]


def _collect_findings(error: AotcError, job: ProgramJob) -> tuple[Finding, ...]:
    """Return an entry point's findings if the build continues without it; else raise them."""
    if not job.keeps_going:
        raise error
    user_exceptions.show_cause(error)
    return error.findings


def _write_fixtures(
    entry_point: stages.CapturedEntryPoint,
    plan: CallPlan,
    manifest: BuildManifest,
    recorded: fixture_inputs.Recorded | None,
    scratch: Scratch,
    files: dict[str, str],
) -> stages.CapturedEntryPoint:
    """Write the fixtures' inputs at every profile, and their results if those were recorded.

    Returns the entry point with the profiles that its `expected` does not cover, and adds the
    digests of the files that were read to `files`. Raises CaptureError.
    """
    name = entry_point.name
    where = manifest.where("entry_points", name, "fixtures")
    unexpected: list[str] = []
    for key, frozen in entry_point.by_key.items():
        inputs = fixture_inputs.fixture_inputs(plan, manifest, frozen.sizes, recorded)
        scratch.inputs(key).write_bytes(write_tensors(inputs, where=where))
    for kind, place in (("results", scratch.results), ("expected", scratch.expected)):
        results = fixture_inputs.read_recorded(name, manifest, kind)
        if results is None:
            continue
        _note(files, results.file, results.digest)
        at = manifest.where("entry_points", name, "fixtures", kind)
        by_profile: Sequence[Mapping[str, Any] | None]
        if kind == "results":
            by_profile = fixture_inputs.results_by_profile(entry_point, results, at, exact=True)
        else:
            sizes = fixture_inputs.recorded_sizes(plan, recorded)
            rows = fixture_inputs.leading_dimensions(plan)
            by_profile = fixture_inputs.expected_by_profile(entry_point, results, sizes, rows, at)
        for key, found in zip(entry_point.by_key, by_profile, strict=True):
            if found is not None:
                place(key).write_bytes(write_tensors(found, where=at))
            else:
                unexpected.append(key.label)
    if unexpected:
        model, expected = entry_point.model, entry_point.model and entry_point.model.expected
        assert model and expected, "recorded results are a model file's"
        expected = msgspec.structs.replace(expected, not_compared=tuple(unexpected))
        entry_point = replace(entry_point, model=msgspec.structs.replace(model, expected=expected))
    return entry_point


def _require_bounded(
    captured: stages.CapturedEntryPoint,
    plan: CallPlan,
    models: Models,
    weights: Mapping[str, Weights],
    scratch: Scratch,
) -> None:
    """Raise CaptureError (AOTC-E844) for integers of a model file that 32 bits may not hold.

    Inputs have the numbers of their ranges, or else those of the fixtures, at the largest profiles.
    """
    manifest, profiles = models.manifest, captured.profiles
    if manifest.enable_x64 or captured.name not in models.opened:
        return
    ranges = manifest.entry_points[captured.name].fixtures.ranges
    for key, profile in captured.by_key.items():
        sizes = profile.sizes.items()
        if sum(all(other.sizes[name] >= size for name, size in sizes) for other in profiles) > 1:
            continue
        inputs: dict[str, tuple[float, float]] = {}
        for path, array in read_arrays(scratch.inputs(key)).items():
            if array.size and array.dtype.kind != "c":
                number = int if array.dtype.kind in "iub" else float
                low, high = ranges.get(path, (array.min(), array.max()))
                inputs[path] = number(low), number(high)
        call = flat_call(plan, weights, manifest, profile.sizes)
        with traced_shardings.on_one_device(manifest.mesh):
            raise_if(models.overflows(captured.name, call, inputs))


def _plan_trials(
    captured: stages.CapturedEntryPoint,
    plan: CallPlan,
    manifest: BuildManifest,
    weights: Mapping[str, Weights],
    wanted: Mapping[str, Sequence[ExecutableKey]],
    recorded: fixture_inputs.Recorded | None,
    scratch: Scratch,
) -> tuple[stages.CapturedEntryPoint, dict[str, EntryTrials]]:
    """Return an entry point with digests of uncompiled programs, and its trials by target.

    The inputs of their calls are written. `wanted` has the executables of each target; `recorded`
    the entry point's recorded inputs, if any. Raises CaptureError (AOTC-E829, E831) if inputs of
    such sizes cannot be made.
    """
    name, where = captured.name, manifest.where("entry_points", captured.name, "fixtures")
    spec, planned = manifest.entry_points[name], dict[str, EntryTrials]()
    precisions = (manifest.precision.get(each) for each in spec.precision)
    rounds = any(each is not None and each.rounds for each in precisions)
    for target, keys in wanted.items():
        fixtures = (read_arrays(scratch.inputs(key)) for key in captured.by_key)
        profiles = [dict(key.sizes) for key in keys if key.entry_point == name]
        found = plan_trials(captured, spec, manifest.dimensions, profiles, fixtures)
        planned[target] = msgspec.structs.replace(found, rounds=rounds)
    every = (trial.call for entry in planned.values() for trial in entry.trials)
    calls = {call.key: call.sizes for call in every if call.key not in captured.by_key}
    for key, sizes in calls.items():
        inputs = fixture_inputs.fixture_inputs(plan, manifest, sizes, recorded)
        scratch.inputs(key).write_bytes(write_tensors(inputs, where=where))
    if captured.mesh is not None and not captured.recorded:
        calls |= {key: profile.sizes for key, profile in captured.by_key.items()}
    uncompiled = {
        key.label: _digest(plan, manifest, weights, sizes) for key, sizes in sorted(calls.items())
    }
    return replace(captured, uncompiled=uncompiled), planned


def _digest(
    plan: CallPlan, manifest: BuildManifest, weights: Mapping[str, Weights], sizes: Sizes
) -> str:
    """Return the digest of the program's module and its arguments at these sizes on one device."""
    try:
        with traced_shardings.on_one_device(manifest.mesh):
            traced = trace_profile(flat_call(plan, weights, manifest, sizes), sizes, manifest.root)
            module = portable(jax_private.static_module(traced.lowered[HOST]))
    except Exception:  # noqa: BLE001 - whatever it is, the reference reports it
        return stages.UNTRACED
    return sha256(module.artifact + msgspec.msgpack.encode(traced.arguments))


def _check_evaluation(
    captured: stages.CapturedEntryPoint, models: Models, files: dict[str, str], scratch: Scratch
) -> None:
    """Check and note the files of an evaluation, and import its functions: provenance names both.

    Raises CaptureError (AOTC-E847) for arrays that do not fit, before anything is compiled.
    """
    name, manifest = captured.name, models.manifest
    if (spec := manifest.entry_points[name].evaluation) is not None:
        data = DataWriter(captured, manifest, scratch.folder)
        for at, read in read_files(name, manifest):
            _note(files, read.file, read.digest)
            data.check(read.arrays, at)
        for key, function in spec.functions.items():
            where = manifest.where("entry_points", name, "evaluation", key)
            models.resolve(function, manifest.root, where)


def _with_weights(manifest: BuildManifest, weights: Mapping[str, Weights]) -> BuildManifest:
    """Return the part of a manifest for which all weights are at hand."""
    return replace(
        manifest,
        weights={name: spec for name, spec in manifest.weights.items() if name in weights},
        entry_points={
            name: spec
            for name, spec in manifest.entry_points.items()
            if weights.keys() >= {*spec.bind.values()}
        },
    )


def _note(files: dict[str, str], name: str, digest: str) -> None:
    """Raises CaptureError (AOTC-E840) for a file that was another one when it was read before."""
    raise_if(find_changes(files, [(name, digest)]))
    files[name] = digest


def _check_x64(manifest: BuildManifest) -> None:
    """Require that the program leaves `jax_enable_x64` as the manifest states it."""
    if bool(jax.config.jax_enable_x64) != manifest.enable_x64:
        stated = str(manifest.enable_x64).lower()
        where = manifest.where("enable_x64")
        found = f"jax_enable_x64 = {str(not manifest.enable_x64).lower()}"
        cause = "program-changed-jax-enable-x64"
        raise refusal("AOTC-E828", where, found, cause=cause, expected=f"enable_x64 = {stated}")


def _is_xlas(name: str, platform: str, manifest: BuildManifest) -> bool:
    """Return whether only XLA's CPU code is built, whose order of axes is known."""
    own = manifest.overrides.get(name)
    engines = (own.engines if own is not None else ()) or manifest.engines
    return platform == HOST and {*engines} <= {"xla"}
