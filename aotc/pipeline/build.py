"""A build from end to end, and what it gives back. Its stages: `aotc.pipeline.build_stages`.

manifest -> capture -> (reference | compile) -> (tune) -> parity -> pack -> attest
"""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from msgspec import UNSET, structs

from aotc.base.errors import raise_if, refusal
from aotc.base.stages import Attestation, Bundle, CapturedProgram
from aotc.base.workers import worker_environment
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.build_provenance import Materials, provenance
from aotc.bundle.write import output_paths
from aotc.bundle.write.atomic_files import prepare_files
from aotc.bundle.write.bundle_writer import TargetParts, assemble, pack, require_place
from aotc.bundle.write.output_paths import Kind as FileKind
from aotc.capture.file_digests import find_changes
from aotc.capture.installed_packages import packages_behind
from aotc.config import tuning_file
from aotc.config.build_manifest import BuildManifest, read_build_manifest
from aotc.config.tuning_file import Recorded, TunedTarget, TuningFile
from aotc.pipeline import build_notes, build_stages, build_tuning, code_identity
from aotc.pipeline.asset_files import read_assets, with_card
from aotc.pipeline.build_materials import builder_id, revision_of, stated_time, time_of_build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.build_plan import resolve_candidates
from aotc.pipeline.cached_tasks import Done, Kind, Task
from aotc.pipeline.scratch_folder import Scratch
from aotc.pipeline.target_assembly import Assembler, toolchain_of
from aotc.pipeline.user_processes import runs_functions
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats.in_toto import SBOM_TYPE
from aotc_runtime.schema.bundle_manifest import XLA, engine_name, engine_of

DEFAULTS = BuildOptions()

TUNING_FILE = FileKind("a tuning file", lambda head: head.startswith(tuning_file.HEAD))


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build.

    Attributes:
        bundle: The bundle that was written.
        attestation: The signed provenance, if there is a signer.
        sbom: The bill of materials, CycloneDX JSON, if it was made.
        program: The captured program.
        compile_seconds: Seconds by job.
        seconds: Seconds by stage; `compile` and `reference` overlap.
        notes: Sentences for the user.
        tuning_file: The choices, if the build was tuned.
        diagnostics: Output of the compiler, by job.
        tasks: Every task, whether it was run or taken from the cache, and why.
        compared: The earlier build with which `tasks` were compared, in words.
        isolation: Measures that isolate the processes of model files, a line each.
    """

    bundle: Bundle
    attestation: Attestation | None
    sbom: bytes | None
    program: CapturedProgram
    compile_seconds: dict[str, float]
    seconds: dict[str, float]
    notes: tuple[str, ...]
    tuning_file: TuningFile | None
    diagnostics: dict[str, tuple[str, ...]]
    tasks: tuple[Done, ...]
    compared: str
    isolation: tuple[str, ...] = ()


def build(
    manifest_path: Path, output: Path | None = None, options: BuildOptions = DEFAULTS
) -> Built:
    """Build a bundle from a build manifest.

    Nothing is written unless everything succeeded; then all files are, the bundle last.

    Args:
        manifest_path: The build manifest.
        output: The path to write to; by default NAME-VERSION.aotb in the current folder.
        options: Targets, signer, cache, tuning, callbacks and so on.

    Raises BuildManifestError, CaptureError, CompileError, ParityError, UsageError, and
    BudgetExceededError: AOTC-E973 for a target's memory limit, E975 for a gate.
    """
    tuning, save_tuning = options.tuning, options.save_tuning
    stated = stated_time(os.environ)
    started = time_of_build(None)
    builder = builder_id(options.builder)
    manifest = read_build_manifest(manifest_path)
    if options.card:
        manifest = with_card(manifest, options.card)
    path = output or Path(f"{manifest.name}-{manifest.version}.aotb")
    require_place(path, options.form)
    attestations = build_notes.attestations_at(path)
    asked = ((options.sbom, output_paths.BILL_OF_MATERIALS), (save_tuning, TUNING_FILE))
    files = [(place, kind) for place, kind in asked if place]
    for place, kind in files:
        output_paths.require_file_place(place, kind)
    output_paths.require_disjoint_outputs(path, [place for place, _ in files])
    if options.precisions is not None:
        manifest = replace(manifest, chosen=options.precisions)
    elif isinstance(tuning, Recorded):
        manifest = replace(manifest, chosen=tuning_file.precisions_of(tuning, manifest))
    elif tuning is not None:
        manifest = replace(manifest, chosen=tuning.precisions(manifest, options))
    else:
        _require_one_precision(manifest)
    request = resolve(manifest, options)
    with build_stages.open_run(request, options) as run:
        program, compiled = build_stages.capture_and_compile(run)
        notes = [*build_notes.program_notes(program)]
        parts = Assembler(manifest, program, run.built_with, run.scratch, request.assets)
        if tuning and not isinstance(tuning, Recorded):
            compiled = build_stages.tune_targets(run, tuning, program, compiled, parts)
        checked, compiled = build_stages.check(run, program, compiled, parts)
        if options.before_packing:
            with run.stage("again"):
                options.on_stage("again", 0, 0)
                options.before_packing(checked)
        file = _tuning_file(run, program, compiled) if tuning else None
        assets = request.assets.digests
        raise_if(find_changes(program.made_from, assets.items()))
        shipped = replace(program, files={**program.files, **assets})
        with run.stage("pack"), run.tasks.timed(Task(Kind.PACK, "", {})):
            options.on_stage("pack", 0, 0)
            bundle, attestation, bill = _write(
                path,
                options,
                checked,
                shipped,
                partial(_materials, run, shipped, file, builder, stated, started),
                manifest=manifest,
                beside={save_tuning: tuning_file.encode(file)} if save_tuning and file else {},
            )
        isolation = _isolation(manifest, run.scratch)
        notes += build_notes.unproven(program, run.scratch)
    notes = [
        *(each.sentence for each in compiled.fallbacks),
        *notes,
        *build_notes.target_notes(bundle.manifests),
        *build_tuning.precision_notes(manifest.chosen),
        *build_tuning.notes(
            request.untuned_targets,
            compiled.executables,
            {
                target.name: engine_name(target)
                for target in compiled.whole
                if target.name in request.next_engines
            },
            compiled.chosen,
            {
                target.name: sorted({*map(engine_of, compiled.platforms(target))})
                for target in compiled.whole
            },
        ),
        *(options.cache.notes() if options.cache else ()),
        *build_notes.lost_attestations(path, attestations),
    ]
    labelled = {
        f"{compiled.jobs[target][key].label} for {target}": executable
        for target, each in compiled.executables.items()
        for key, executable in each.items()
    }
    return Built(
        bundle=bundle,
        attestation=attestation,
        sbom=bill,
        program=program,
        compile_seconds={of: executable.compile_seconds for of, executable in labelled.items()},
        seconds=run.seconds,
        notes=tuple(notes),
        tuning_file=file,
        diagnostics={of: e.diagnostics for of, e in labelled.items() if e.diagnostics},
        tasks=run.tasks.done(),
        compared=run.compared,
        isolation=isolation,
    )


def _require_one_precision(manifest: BuildManifest) -> None:
    """Raise BuildManifestError (AOTC-E805) for an entry point with several precisions."""
    for name, spec in manifest.entry_points.items():
        if len(spec.precision) > 1:
            where = manifest.where("entry_points", name, "precision")
            found, hint = ", ".join(spec.precision), "name one, or choose with `aotc build --tune`"
            raise refusal("AOTC-E805", where, found, expected="one precision", hint=hint)


def _tuning_file(
    run: build_stages.BuildRun, program: CapturedProgram, compiled: build_stages.Compiled
) -> TuningFile:
    untuned_targets, targets = run.request.untuned_targets, dict[str, TunedTarget]()
    for target in compiled.whole:
        platforms, choice = compiled.platforms(target), compiled.chosen.get(target.name, UNSET)
        engine = engine_name(target)
        has_choices = engine != XLA or choice is not UNSET or len({*platforms}) > 1
        if has_choices and target.name not in untuned_targets:
            tools = toolchain_of(run.built_with, target, platforms).tools
            targets[target.name] = TunedTarget(engine, tools, choice)
    file = tuning_file.from_build(
        {
            target: {key: e.tuned for key, e in each.items() if e.tuned is not None}
            for target, each in compiled.executables.items()
        },
        compiled.jobs,
        build_tuning.positions_of(program),
        untuned_targets,
        version("jaxlib"),
        targets,
    )
    return structs.replace(file, precisions=dict(run.request.manifest.chosen))


def _materials(
    run: build_stages.BuildRun,
    program: CapturedProgram,
    tuning: TuningFile | None,
    builder: str,
    stated: datetime | None,
    started: datetime,
) -> Materials:
    """Gather the inputs of this build for provenance.

    `stated` is the time of the environment, which makes builds reproducible.
    """
    manifest = run.request.manifest
    return Materials(
        targets=run.request.names,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        environment=worker_environment.PINNED,
        variables=run.scratch.reads.read().variables,
        code=code_identity.code_digests(),
        started=None if stated else started,
        finished=time_of_build(stated),
        revision=revision_of(manifest.root, {manifest.path.name, *program.made_from}),
        tuning=None if tuning is None else sha256(tuning_file.encode(tuning)),
        builder_id=builder,
    )


def _isolation(manifest: BuildManifest, scratch: Scratch) -> tuple[str, ...]:
    """Return how the processes of model files were isolated, if there are such files."""
    if all(spec.source is None for spec in manifest.entry_points.values()):
        return ()
    if runs_functions(manifest):
        return ("not: they run with functions of the manifest, which have all that users have",)
    return scratch.measures()


def resolve(manifest: BuildManifest, options: BuildOptions) -> build_stages.Request:
    """Return a build request. Raises the errors of `build` about targets and tuning files."""
    tuning = options.tuning
    names = tuple(options.targets) or manifest.targets
    asked = [
        build_tuning.requested_engines(tuning, each)
        for each in resolve_candidates(manifest, options.targets)
    ]
    resolved = tuple(engines[0] for engines, _ in asked)
    return build_stages.Request(
        manifest=manifest,
        assets=read_assets(manifest),
        names=names,
        targets=resolved,
        next_engines={first.name: tuple(rest) for (first, *rest), _ in asked if rest},
        beside={engines[0].name: beside for engines, beside in asked if beside},
        wanted={
            target.name: manifest.executables(name)
            for name, target in zip(names, resolved, strict=True)
        },
        tuning=tuning,
        untuned_targets=build_tuning.untuned_targets(tuning, resolved),
        keep_going=options.keep_going,
    )


def _write(
    path: Path,
    options: BuildOptions,
    parts: Sequence[TargetParts],
    program: CapturedProgram,
    gather: Callable[[], Materials],
    *,
    manifest: BuildManifest,
    beside: Mapping[Path, bytes],
) -> tuple[Bundle, Attestation | None, bytes | None]:
    """Write the bundle with its attestations and other results: all of them or none.

    So an unsigned bundle is never visible. Return it with the attestation of its provenance, if
    there is a signer, and the bill of materials, if it is signed or has a path (`sbom`).
    `gather` collects the inputs, only for a signer or a bill of materials; `beside` has other files
    by path. Raises UsageError: AOTC-E003, E004, and the signer's errors.
    """
    assembled, signer = assemble(parts), options.signer
    if signer is None and options.sbom is None:
        with prepare_files(beside) as put_in_place:
            bundle = pack(path, options.form, assembled, before=put_in_place)
        return bundle, None, None
    from aotc.bundle.sign.sbom import sbom

    root = assembled.root
    built = [part.manifest for part in parts]
    packages = {**program.packages, **packages_behind(built)}
    program = replace(program, packages=dict(sorted(packages.items())))
    materials = gather()
    bill = sbom(root.digest, manifest, program, built, materials.finished)
    data = canonical_json.encode(bill)
    attestation: Attestation | None = None
    envelopes: list[bytes] = []
    if signer is not None:
        subject = f"{manifest.name}-{manifest.version}"
        predicate = provenance(manifest, program, built, materials)
        attestation = attest(root.digest, subject, predicate, signer)
        inventory = attest(root.digest, subject, bill, signer, SBOM_TYPE)
        envelopes = [attestation.envelope, inventory.envelope]
    files = {**beside, options.sbom: data} if options.sbom else beside
    with prepare_files(files) as put_in_place:
        bundle = pack(path, options.form, assembled, envelopes, put_in_place)
    return bundle, attestation, data
