"""From captured entry points and executables to bundle manifests, evidence and blobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from aotc.base.errors import refusal
from aotc.base.evidence import (
    EngineChoice,
    EngineRefusal,
    EntryPointEvidence,
    Evidence,
    ProfileEvidence,
    ValueTrials,
)
from aotc.base.stages import CapturedEntryPoint, CapturedProfile, CapturedProgram, Executable
from aotc.bundle.read.call_memory import call_bytes, device_weight_bytes, host_weight_bytes
from aotc.bundle.write.bundle_writer import Blob, TargetParts
from aotc.check.gates import GatedTarget
from aotc.check.parity_process import Ran
from aotc.check.trial_records import TriedEntry, tried_file
from aotc.check.trial_verdict import parity_of, proofs
from aotc.compile.compiler_registry import kind_of
from aotc.config.build_manifest import BuildManifest, EntryPointSpec
from aotc.pipeline.asset_files import AssetFiles
from aotc.pipeline.build_plan import EngineFallback
from aotc.pipeline.scratch_folder import Scratch, digest_of
from aotc_runtime.base import canonical_json
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.safetensors_reader import read_tensors
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.manifest_labels import ExecutableKey, executable_key
from aotc_runtime.system.streamed_bundle import pass_file

NOT_YET = bundle_manifest.ParityNotRun(reason="parity runs after packing")


@dataclass(frozen=True, slots=True)
class AssembledTarget:
    """A target of a build; `evidence` is the content of the evidence blob among its parts."""

    parts: TargetParts
    evidence: Evidence

    def gated(self) -> GatedTarget:
        """Return the figures that the manifest's gates limit."""
        sizes: dict[str, int] = {}
        for blob in {blob.digest: blob for blob in self.parts.blobs}.values():
            sizes[blob.media_type] = sizes.get(blob.media_type, 0) + len(blob.data)
        return GatedTarget(self.parts.manifest, sizes, self.evidence)


class Assembler:
    """Makes the parts of one target after another from the same program and weights.

    `built_with` is by platform. Raises BuildManifestError (AOTC-E817) for an asset that is a file
    of the weights.
    """

    def __init__(
        self,
        manifest: BuildManifest,
        program: CapturedProgram,
        built_with: Mapping[str, bundle_manifest.BuiltWith],
        scratch: Scratch,
        assets: AssetFiles,
    ) -> None:
        self._manifest, self._program, self._scratch = manifest, program, scratch
        self._built_with = built_with
        self._assets = assets
        self._weights = {
            name: tuple(
                Blob(pass_file(path), oci_layout.WEIGHTS_TYPE, path, digest_of(path))
                for path in scratch.weights(name)
            )
            for name in sorted(program.weights)
        }
        weights = {blob.digest for set_ in self._weights.values() for blob in set_}
        for name, asset in assets.records.items():
            if any(ref.digest in weights for ref in asset.files.values()):
                cause = "asset-is-a-weights-file"
                raise refusal("AOTC-E817", manifest.where("assets", name), "", cause=cause)

    def assemble(
        self,
        target: bundle_manifest.Target,
        executables: Mapping[ExecutableKey, Executable],
        chosen: EngineChoice | None = None,
        fallbacks: Sequence[EngineFallback] = (),
    ) -> AssembledTarget:
        """Return the bundle manifest of a target with these executables, and all its blobs.

        `executables` may be candidates, none of them checked yet. A captured profile without one
        belongs to other targets only. `chosen` is the target's engine, if it was measured;
        `fallbacks` are of targets that a later engine of their list compiled.
        """
        program, platforms = self._program, [each.platform for each in executables.values()]
        built_with = toolchain_of(self._built_with, target, platforms)
        lowered_for = kind_of(target.platform).lowered_for
        refused = [each.refusal for each in fallbacks if each.target == target.name]
        allowances = self._allowances()
        evidence = target_evidence(program, executables, allowances, refused, chosen)
        evidence_blob = Blob(canonical_json.encode(evidence), oci_layout.EVIDENCE_TYPE)
        weights = (blob for set_ in self._weights.values() for blob in set_)
        # Assets first: a blob that is something else, too, has the media type of that.
        blobs = [*self._assets.blobs, *weights, evidence_blob]
        entry_points = {}
        for name, captured in program.entry_points.items():
            records = []
            for key, profile in captured.by_key.items():
                if (executable := executables.get(captured.compiled(profile))) is not None:
                    module = Blob(profile.module_for(lowered_for).artifact, oci_layout.MODULE_TYPE)
                    code = Blob(executable.serialized, oci_layout.EXECUTABLE_TYPE)
                    fixture = Blob(self._scratch.fixture(key).read_bytes(), oci_layout.FIXTURE_TYPE)
                    blobs += (module, code, fixture)
                    refs = (module.ref(), code.ref(), fixture.ref())
                    record = _profile(profile, executable, refs, target)
                    records.append(replace(record, precision=_precision(captured)))
            entry_points[name] = _entry_point(
                captured,
                self._manifest.entry_points[name],
                allowances.get(name, 0.0),
                tuple(records),
                _symbolic(captured, blobs),
            )
        weight_sets = {
            name: _weight_set(
                set_,
                program.weights[name],
                program.shardings.get(name, {}),
                _packed_names(program, name),
            )
            for name, set_ in self._weights.items()
        }
        applied = [each.precision for each in program.entry_points.values() if each.precision]
        has_range = any(each.largest for each in program.entry_points.values())
        is_second = bool(self._assets.records or has_range) or any(
            each.weights == "int4" or each.activations != "none" for each in applied
        )
        mesh = UNSET if program.mesh is None else program.mesh
        needs = requirements(
            target, built_with, entry_points, executables.values(), weight_sets, mesh
        )
        manifest = bundle_manifest.BundleManifest(
            format_version=bundle_manifest.SECOND_VERSION
            if is_second
            else bundle_manifest.FIRST_VERSION,
            name=self._manifest.name,
            version=self._manifest.version,
            target=target,
            requires=needs,
            built_with=built_with,
            accepts_jaxlib=(built_with.jaxlib,),
            dimensions={name: spec.accepted for name, spec in self._manifest.dimensions.items()},
            weights=weight_sets,
            entry_points=entry_points,
            mesh=mesh,
            compilation=next((e.compilation for e in executables.values() if e.compilation), UNSET),
            evidence=evidence_blob.ref(),
            assets=dict(self._assets.records) or UNSET,
        )
        return AssembledTarget(TargetParts(manifest, blobs), evidence)

    def _allowances(self) -> dict[str, float]:
        """Return the largest step allowance of each entry point that has one."""
        found: dict[str, float] = {}
        for entries in tried_file(self._scratch.folder).read({}).values():
            for tried in entries:
                own = (plain.allowance for trial, plain in tried.pairs() if trial.is_fixture)
                name = tried.entry.entry_point
                found[name] = max(found.get(name, 0.0), *own)
        return {name: float(f"{largest:.2g}") for name, largest in found.items() if largest}


def proven(
    assembled: AssembledTarget,
    ran: Ran,
    tried: Sequence[TriedEntry],
    evaluations: Mapping[str, bundle_manifest.Evaluation],
) -> TargetParts:
    """Return the parts of a target with what its executables did, and the proofs of its policies.

    `tried` has its trials in plain JAX; `evaluations` are by entry point.
    """
    parts = assembled.parts
    by = bundle_manifest.TrialRan.PLAIN_JAX if ran.not_run else bundle_manifest.TrialRan.EXECUTABLE
    fixtures = {
        o.trial.call.key: parity_of(o.difference) for o in ran.outcomes if o.trial.is_fixture
    }
    entry_points = {}
    for name, entry_point in parts.manifest.entry_points.items():
        proof = proofs([o for o in ran.outcomes if o.trial.call.key.entry_point == name], by)
        entry_points[name] = replace(
            entry_point,
            out_of_profile={
                dimension: _proven(policy, proof.get(dimension, ()))
                for dimension, policy in entry_point.out_of_profile.items()
            },
            evaluations=(evaluations[name],) if name in evaluations else UNSET,
            profiles=tuple(
                replace(
                    profile, parity=ran.not_run or fixtures[executable_key(name, profile.sizes)]
                )
                for profile in entry_point.profiles
            ),
        )
    evidence = canonical_json.encode(with_trials(assembled.evidence, ran, tried))
    blob = Blob(evidence, oci_layout.EVIDENCE_TYPE)
    blobs = [each for each in parts.blobs if each.media_type != oci_layout.EVIDENCE_TYPE]
    manifest = replace(parts.manifest, entry_points=entry_points, evidence=blob.ref())
    return TargetParts(manifest, [*blobs, blob])


def _profile(
    profile: CapturedProfile,
    executable: Executable,
    refs: tuple[bundle_manifest.BlobRef, bundle_manifest.BlobRef, bundle_manifest.BlobRef],
    target: bundle_manifest.Target,
) -> bundle_manifest.ProfileRecord:
    """Return the record of a profile; `refs` are its module, executable and fixture."""
    module, code, fixture = refs
    return bundle_manifest.ProfileRecord(
        sizes=profile.sizes,
        input_shapes=profile.input_shapes,
        output_shapes=profile.output_shapes,
        arguments=tuple(
            argument
            for place, argument in enumerate(profile.arguments)
            if place not in executable.captured
        ),
        module=module,
        executable=code,
        fixture=fixture,
        parity=NOT_YET,
        memory=executable.memory,
        cost=executable.cost,
        custom_call_targets=executable.custom_call_targets,
        thunks=executable.thunks,
        tuned=UNSET if executable.tuned is None else executable.tuned,
        platform=UNSET if executable.platform in ("", target.platform) else executable.platform,
    )


def _precision(captured: CapturedEntryPoint) -> bundle_manifest.Precision | UnsetType:
    if captured.precision is None:
        return UNSET
    applied = captured.precision
    activations = UNSET if applied.activations == "none" else applied.activations
    return bundle_manifest.Precision(
        name=applied.name, weights=applied.weights, activations=activations
    )


def _entry_point(
    captured: CapturedEntryPoint,
    spec: EntryPointSpec,
    allowance: float,
    profiles: tuple[bundle_manifest.ProfileRecord, ...],
    symbolic: bundle_manifest.Symbolic | None,
) -> bundle_manifest.EntryPoint:
    atol = spec.tolerance.atol
    if allowance:
        atol = float(f"{atol + allowance:.3g}")
    return bundle_manifest.EntryPoint(
        function=captured.function,
        parameters=captured.parameters,
        inputs=captured.inputs,
        result=captured.result,
        outputs=captured.outputs,
        dimensions=captured.dimensions,
        relations=spec.relations,
        out_of_profile=dict(spec.out_of_profile),
        bound=captured.bound,
        static=captured.static,
        tolerance=bundle_manifest.Tolerance(rtol=repr(spec.tolerance.rtol), atol=repr(atol)),
        lifted=captured.lifted,
        profiles=profiles,
        specialized=captured.specialized,
        symbolic=UNSET if symbolic is None else symbolic,
        numerics="finite" if spec.numerics == "finite" else UNSET,
    )


def _symbolic(captured: CapturedEntryPoint, blobs: list[Blob]) -> bundle_manifest.Symbolic | None:
    if captured.symbolic is None:
        return None
    blob = Blob(captured.symbolic.module.artifact, oci_layout.MODULE_TYPE)
    blobs.append(blob)
    return bundle_manifest.Symbolic(
        module=blob.ref(),
        arguments=captured.symbolic.arguments,
        stablehlo=captured.symbolic.module.stablehlo_version,
    )


def _packed_names(program: CapturedProgram, name: str) -> set[str]:
    """Return the tensors of a weights set whose bytes hold two numbers."""
    precisions = (each.precision for each in program.entry_points.values())
    return {
        weight.values
        for precision in precisions
        for weight in (precision.quantized if precision else ())
        if weight.set == name and weight.dtype == "int4"
    }


def _weight_set(
    blobs: Sequence[Blob],
    origin: str,
    shardings: Mapping[str, bundle_manifest.Sharding],
    packed: Collection[str],
) -> bundle_manifest.WeightSet:
    return bundle_manifest.WeightSet(
        blobs=tuple(blob.ref() for blob in blobs),
        origin=origin,
        tensors=tuple(
            bundle_manifest.WeightTensor(
                name=name,
                dtype=info.dtype,
                shape=info.shape,
                sharding=shardings.get(name, ()),
                packed="int4" if name in packed else UNSET,
            )
            for blob in blobs
            for name, info in read_tensors(memoryview(blob.data), where="weights").items()
        ),
    )


def target_evidence(
    program: CapturedProgram,
    executables: Mapping[ExecutableKey, Executable],
    allowances: Mapping[str, float],
    refused: Sequence[EngineRefusal] = (),
    chosen: EngineChoice | None = None,
) -> Evidence:
    """Return the evidence of one target.

    `allowances` are by entry point that has one. `refused` has earlier engines' reasons, `chosen`
    the target's engine if it was measured.
    """
    return Evidence(
        entry_points={
            name: EntryPointEvidence(
                coverage=entry_point.coverage,
                profiles=tuple(
                    ProfileEvidence(
                        sizes=profile.sizes,
                        control_flow=profile.control_flow,
                        compiled=executables[key].evidence or UNSET,
                    )
                    for profile in entry_point.profiles
                    for key in [entry_point.compiled(profile)]
                    if key in executables
                ),
                reference="recorded" if entry_point.recorded else UNSET,
                model=entry_point.model or UNSET,
                precision=entry_point.precision or UNSET,
                allowance=repr(allowances[name]) if name in allowances else UNSET,
                tried=entry_point.tried or UNSET,
            )
            for name, entry_point in program.entry_points.items()
        },
        refused=tuple(refused) or UNSET,
        chosen=UNSET if chosen is None else chosen,
    )


def with_trials(evidence: Evidence, ran: Ran, tried: Sequence[TriedEntry]) -> Evidence:
    """Return the evidence of a target with the value trials of its executables."""
    values = [o for o in ran.outcomes if not (o.trial.dimensions or o.trial.is_fixture)]
    skipped: dict[ExecutableKey, dict[str, str]] = {}
    for trial, plain in (pair for each in tried for pair in each.pairs()):
        if plain.skipped and not trial.is_fixture:
            skipped.setdefault(trial.call.key, {})[trial.call.inputs] = plain.skipped
    found = {
        repeat.key: ValueTrials(
            ran=tuple(o.trial.call.inputs for o in own),
            skipped=skipped.get(repeat.key, {}),
            truth=tuple(o.trial.call.inputs for o in own if o.truth),
            state="identical" if repeat.is_identical else "within",
        )
        for repeat in ran.repeats
        for own in [[o for o in values if o.trial.call.key == repeat.key]]
    }
    entry_points = {
        name: replace(
            entry_point,
            profiles=tuple(
                replace(profile, trials=found.get(executable_key(name, profile.sizes), UNSET))
                for profile in entry_point.profiles
            ),
        )
        for name, entry_point in evidence.entry_points.items()
    }
    return replace(evidence, entry_points=entry_points)


def requirements(
    target: bundle_manifest.Target,
    built_with: bundle_manifest.BuiltWith,
    entry_points: Mapping[str, bundle_manifest.EntryPoint],
    executables: Collection[Executable],
    weights: Mapping[str, bundle_manifest.WeightSet],
    mesh: bundle_manifest.Mesh | UnsetType,
) -> bundle_manifest.Requirements:
    """Return the requirements of all executables together; `built_with` covers their compilers."""
    largest = max(
        call_bytes(profile, entry_point.inputs, mesh)
        for entry_point in entry_points.values()
        for profile in entry_point.profiles
    )
    devices = 1 if mesh is UNSET else len(mesh.devices)
    on_each = largest + device_weight_bytes(weights, mesh)
    engines = {
        platform: needs
        for platform in other_platforms(target, [each.platform for each in executables])
        if (needs := kind_of(platform).requirements(target, built_with, 0)) is not UNSET
    }
    return bundle_manifest.Requirements(
        platform=target.platform,
        architecture=target.triple.partition("-")[0],
        isa=tuple(sorted({feature for e in executables for feature in e.isa})),
        devices=devices,
        custom_call_targets=tuple(sorted({t for e in executables for t in e.custom_call_targets})),
        memory_bytes=devices * largest + host_weight_bytes(weights, mesh),
        device=kind_of(target.platform).requirements(target, built_with, on_each),
        engines=engines or UNSET,
    )


def other_platforms(target: bundle_manifest.Target, platforms: Iterable[str]) -> list[str]:
    """Return other platforms of executables, sorted; "" also stands for the target's own."""
    return sorted({*platforms} - {"", target.platform})


def toolchain_of(
    built_with: Mapping[str, bundle_manifest.BuiltWith],
    target: bundle_manifest.Target,
    platforms: Iterable[str],
) -> bundle_manifest.BuiltWith:
    """Return the toolchain of a target with executables for these platforms, from each one's."""
    others = [built_with[platform] for platform in other_platforms(target, platforms)]
    own = built_with[target.platform]
    if not others:
        return own
    tools = {name: version for each in (*others, own) for name, version in each.tools.items()}
    return replace(own, tools=dict(sorted(tools.items())))


def _proven(
    policy: bundle_manifest.DimensionPolicy, proof: tuple[bundle_manifest.Trial, ...]
) -> bundle_manifest.DimensionPolicy:
    if isinstance(policy, bundle_manifest.Pad | bundle_manifest.Split):
        return replace(policy, proof=proof)
    if isinstance(policy, bundle_manifest.Range) or policy.meanwhile is UNSET:
        return policy
    return replace(policy, meanwhile=replace(policy.meanwhile, proof=proof))
