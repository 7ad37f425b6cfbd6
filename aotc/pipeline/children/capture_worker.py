"""Traces a program into a scratch folder, in a process of `program_worker`.

The process is separate because it imports jax and the user's code, and because its jax must take
closed-over constants as arguments.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from msgspec import structs

from aotc.base.errors import CaptureError, raise_if, refusal
from aotc.base.stages import (
    CapturedEntryPoint,
    CapturedProfile,
    CapturedProgram,
    CapturedSymbolic,
    Module,
    Tensor,
)
from aotc.base.workers.worker_child import Progress
from aotc.bundle.write.safetensors_writer import shards, write_tensors
from aotc.capture import (
    fixture_inputs,
    jax_private,
    project_files,
    source_imports,
    trace_errors,
    traced_shardings,
    user_exceptions,
)
from aotc.capture.call_arguments import CallPlan
from aotc.capture.file_digests import changed, read_source
from aotc.capture.installed_packages import imported_packages
from aotc.capture.model_entry_points import Models, open_models
from aotc.capture.model_files.custom_call_checks import require_known_calls
from aotc.capture.portable_stablehlo import portable
from aotc.capture.profile_trace import HOST, Platforms, TracedProfile
from aotc.capture.traced_entry_points import TracedEntryPoint, trace_entry_point
from aotc.capture.weight_layouts import laid_out
from aotc.capture.weight_sets import CLOSURE, Weights, read_shards
from aotc.check import plain_jax
from aotc.check.padding import trial_files
from aotc.compile.compiler_registry import kind_of
from aotc.compile.xla import constant_nan
from aotc.config.build_manifest import BuildManifest, at_once
from aotc.pipeline.children.calibration import Calibrator
from aotc.pipeline.children.quantized_capture import Quantizer, array_of, written_wrongly
from aotc.pipeline.children.trial_capture import plan_and_trace
from aotc.pipeline.children.user_process import runs_users_code
from aotc.pipeline.scratch_folder import ProgramJob, Scratch
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.bundle_manifest import Mesh
from aotc_runtime.schema.manifest_labels import label
from aotc_runtime.schema.shard_layout import mesh_of

TOOLCHAIN = ("aotc", "aotc-runtime", "jax", "jaxlib", "msgspec", "numpy", "scipy")
"""Packages whose code shapes a bundle's bytes, whether or not the capture imports them."""


@runs_users_code
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
            failed += _collected(error, job)
    manifest = _with_weights(models.manifest, weights)
    if not manifest.entry_points:
        raise_if(failed)
    platforms = tuple(sorted({kind_of(platform).lowered_for for platform in job.targets.values()}))
    mesh = mesh_of(manifest.mesh) if manifest.mesh else None
    cuts = traced_shardings.weight_shardings(manifest, weights)
    files: dict[str, str] = {}

    def tensor(name: tuple[str, str]) -> Any:
        if name[0] == CLOSURE:
            return next(each[name[1]] for each in closures.values() if name[1] in each)
        return array_of(weights[name[0]].tensors[name[1]])

    calibrator = Calibrator(manifest, scratch.folder, files, models.resolve, tensor)
    quantizer = Quantizer(manifest, weights, calibrator.calibrate)
    captured: dict[str, CapturedEntryPoint] = {}
    trials: trial_files.Plans = {target: [] for target in job.wanted}
    plans: dict[str, CallPlan] = {}
    closures: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    for name, spec in manifest.entry_points.items():
        progress.started(f"tracing {name} ({spec.function})")
        sizes = [dict(key.sizes) for key in job.executables if key.entry_point == name]
        lowered_for = Platforms(platforms, is_recorded=spec.fixtures.results is not None)
        try:
            with traced_shardings.under_mesh(manifest.mesh):
                traced = trace_entry_point(
                    name, manifest, weights, sizes, cuts, lowered_for, models.resolve
                )
            _check_x64(manifest)
            closures[name] = {k: v for p in traced.profiles for k, v in p.lifted.items()}
            _note_evaluation(name, manifest, models, files)
            captured[name] = quantizer.quantized(_freeze(traced, mesh, manifest.root, models))
        except AotcError as error:
            failed += _collected(error, job)
            continue
        plans[name] = replace(traced.plan, initial=models.initial(name))
        scratch.write_entry_point(captured[name])
        progress.finished(name)
    raise_if(() if failed else quantizer.unmatched())
    for file, digest in models.files():
        _note(files, file, digest)
    # Sources of weights are hashed beside all that follows; a failure does not wait for that.
    hashing = ThreadPoolExecutor(1, "aotc-hash").submit(_digests, weights)
    # Compilers are at work by now; making fixtures runs the program's own functions, which
    # takes long.
    for name, entry_point in [*captured.items()]:
        progress.started(f"making fixtures of {name} ({entry_point.function})")
        try:
            recorded = fixture_inputs.recorded(name, manifest, "file")
            if recorded:
                _note(files, recorded.file, recorded.digest)
            captured[name] = _write_fixtures(
                entry_point, plans[name], manifest, recorded, scratch, files
            )
            captured[name], planned = plan_and_trace(
                captured[name], plans[name], manifest, weights, job.wanted, recorded, scratch
            )
            _check_x64(manifest)
        except AotcError as error:
            failed += _collected(error, job)
            del captured[name]
            continue
        for target, entry in planned.items():
            trials[target].append(entry)
    if not captured:
        raise_if(failed)
    sets: dict[str, Mapping[str, Tensor]] = {
        name: loaded.tensors for name, loaded in weights.items()
    }
    origins = {name: loaded.origin for name, loaded in weights.items()}
    if closure := {key: value for name in captured for key, value in closures[name].items()}:
        sets[CLOSURE], origins[CLOSURE] = closure, CLOSURE
    for name, tensors in sets.items():
        where = f"weights.{name}" if name == CLOSURE else manifest.where("weights", name)
        stored = quantizer.stored(name, tensors, captured)
        scratch.write_weights(name, shards(stored, where=where))
        replaced = {key: tensor for key, tensor in tensors.items() if key not in stored}
        if replaced:
            scratch.write_originals(name, shards(replaced, where=where))
        written = read_shards(scratch.weights(name))
        if name in weights and weights[name].made is not None:
            kept = {key: tensor for key, tensor in written.items() if key in tensors}
            raise_if(plain_jax.misrecorded(weights[name].made, kept, where, replaced))
        raise_if(written_wrongly(name, tensors, written, captured, where))
    for file, digest in hashing.result():
        _note(files, file, digest)
    for loaded in weights.values():
        for read in loaded.files:
            read.require_unchanged()
    trial_files.write_plans(scratch.folder, trials)
    scratch.write_program(
        CapturedProgram(
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


def _collected(error: AotcError, job: ProgramJob) -> tuple[Finding, ...]:
    """Return an entry point's findings if the build continues without it; else raise them."""
    if not job.keeps_going:
        raise error
    user_exceptions.show_cause(error)
    return error.findings


def _write_fixtures(
    entry_point: CapturedEntryPoint,
    plan: CallPlan,
    manifest: BuildManifest,
    recorded: fixture_inputs.Recorded | None,
    scratch: Scratch,
    files: dict[str, str],
) -> CapturedEntryPoint:
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
        results = fixture_inputs.recorded(name, manifest, kind)
        if results is None:
            continue
        _note(files, results.file, results.digest)
        at = manifest.where("entry_points", name, "fixtures", kind)
        by_profile: Sequence[Mapping[str, Any] | None]
        if kind == "results":
            by_profile = fixture_inputs.results_by_profile(entry_point, results, at, exact=True)
        else:
            sizes, rows = (
                fixture_inputs.recorded_sizes(plan, recorded),
                fixture_inputs.leading_dimensions(plan),
            )
            by_profile = fixture_inputs.expected_by_profile(entry_point, results, sizes, rows, at)
        for key, found in zip(entry_point.by_key, by_profile, strict=True):
            if found is not None:
                place(key).write_bytes(write_tensors(found, where=at))
            else:
                unexpected.append(key.label)
    return replace(entry_point, unexpected=tuple(unexpected))


def _note_evaluation(
    name: str, manifest: BuildManifest, models: Models, files: dict[str, str]
) -> None:
    """Note the files of an evaluation, and import its functions: provenance names both."""
    for file in manifest.evaluation_files(name):
        where = manifest.where("entry_points", name, "evaluation", "data")
        _note(files, file.text, read_source(file, where)[1])
    if (spec := manifest.entry_points[name].evaluation) is not None:
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
    raise_if(changed(files, [(name, digest)]))
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


def _symbolic(traced: TracedEntryPoint) -> CapturedSymbolic | None:
    """Return the module that hosts compile for sizes outside of all profiles."""
    if traced.exported is None:
        return None
    module = traced.exported.module
    # The host cannot look for known NaN in what XLA makes of it.
    constant_nan.guard(module)
    return CapturedSymbolic(portable(module), traced.exported.arguments)


def _frozen(profile: TracedProfile, where: str, root: Path, *, is_file: bool) -> CapturedProfile:
    """Return a traced profile with its modules; `is_file` is whether it is a model file's.

    Raises CaptureError (AOTC-E841) for a module that cannot be written, E844 for calls of a model
    file that do not match their kernels.
    """
    modules: dict[str, Module] = {}
    for platform, lowered in profile.lowered.items():
        try:
            module = jax_private.static_module(lowered)
            if is_file:
                with module.context:
                    require_known_calls(module, where, static=True)
            modules[platform] = portable(module, platform)
        except AotcError:
            raise
        except jax_private.SizesError as error:
            raise refusal(
                "AOTC-E846", where, str(error), cause="sizes-are-excluded-by-the-export"
            ) from error
        except Exception as error:
            raise CaptureError(trace_errors.not_lowered(error, platform, where, root)) from error
    first = next(iter(modules.values()))
    return CapturedProfile(
        sizes=profile.sizes,
        input_shapes=profile.shapes().inputs,
        output_shapes=profile.shapes().outputs,
        arguments=profile.arguments,
        module=first,
        others={name: other for name, other in modules.items() if other != first},
        control_flow=profile.control_flow,
    )


def _freeze(
    traced: TracedEntryPoint, mesh: Mesh | None, root: Path, models: Models
) -> CapturedEntryPoint:
    plan, spec = traced.plan, traced.spec
    is_file = plan.name in models.opened
    if is_file and traced.exported is not None:
        # Callers' hosts fill in its sizes, and run it.
        with traced.exported.module.context:
            where = f"{plan.name} at sizes outside of its profiles"
            require_known_calls(traced.exported.module, where, static=True)
    return CapturedEntryPoint(
        name=plan.name,
        function=spec.function,
        parameters=traced.parameters,
        inputs=traced.inputs,
        result=traced.result,
        outputs=traced.outputs,
        dimensions=traced.dimensions,
        bound=dict(plan.bound),
        static={**plan.defaulted, **{key: repr(value) for key, value in plan.fixed.items()}},
        lifted=traced.lifted,
        mesh=mesh,
        specialized={name: each.what for name, each in traced.symbolic.specialized.items()},
        undetermined=traced.symbolic.undetermined,
        counted={
            name: place
            for name, place in traced.symbolic.counted.items()
            if at_once(spec.out_of_profile.get(name))
        },
        coverage=traced.coverage,
        lines=structs.replace(traced.lines, layers=models.lines(plan.name)),
        symbolic=_symbolic(traced),
        profiles=tuple(
            _frozen(profile, label(plan.name, profile.sizes), root, is_file=is_file)
            for profile in traced.profiles
        ),
        calls={k: v for p in reversed(traced.profiles) for k, v in p.calls.items()},
        recorded=spec.fixtures.results is not None,
        model=models.origin(plan.name, traced.profiles[0].traced.jaxpr.jaxpr),
    )
