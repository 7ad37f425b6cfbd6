"""From captured entry points and executables to bundle manifests and blobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import UNSET

from aotc.backends.registry import kind_of
from aotc.config.build_manifest import BuildManifest, EntryPointSpec
from aotc.packing.bundle import Blob, TargetParts
from aotc.pipeline.evidence import target_evidence
from aotc.pipeline.policies import Proofs, policies
from aotc.pipeline.requirements import requirements
from aotc.pipeline.staging import Staging
from aotc.stages import CapturedEntryPoint, CapturedProfile, CapturedProgram, Executable
from aotc_runtime import canonical
from aotc_runtime.formats import oci
from aotc_runtime.formats.tensors import read_tensors
from aotc_runtime.schema.manifest import (
    FIRST_FORMAT,
    BlobRef,
    BuiltWith,
    BundleManifest,
    Dimension,
    EntryPoint,
    Parity,
    ProfileRecord,
    Symbolic,
    Target,
    Tolerance,
    Trial,
    WeightSet,
    WeightTensor,
)
from aotc_runtime.schema.mesh import Sharding

type Executables = Mapping[tuple[str, int], Executable]
type Parities = Mapping[tuple[str, int], Parity]


def weight_blobs(program: CapturedProgram, staging: Staging) -> dict[str, tuple[Blob, ...]]:
    """The safetensors files of every weights set, by the name of the set."""
    return {
        name: tuple(Blob(path.read_bytes(), oci.WEIGHTS_TYPE) for path in staging.weights(name))
        for name in sorted(program.weights)
    }


def target_parts(
    manifest: BuildManifest,
    program: CapturedProgram,
    target: Target,
    executables: Executables,
    parities: Parities,
    weights: Mapping[str, Sequence[Blob]],
    built_with: BuiltWith,
    staging: Staging,
    proofs: Proofs,
) -> TargetParts:
    """The bundle manifest of one target, with every blob it refers to.

    executables, parities: by entry point and captured profile. A captured profile without an
    executable is one that other targets have and this one does not.
    """
    blobs: list[Blob] = [blob for set_ in weights.values() for blob in set_]
    evidence = Blob(canonical.encode(target_evidence(program, executables)), oci.EVIDENCE_TYPE)
    blobs.append(evidence)
    lowered_for = kind_of(target.platform).lowered_for
    entry_points = {}
    for name, captured in program.entry_points.items():
        records = []
        for index, profile in enumerate(captured.profiles):
            if (name, index) in executables:
                executable = executables[name, index]
                module = Blob(profile.module_for(lowered_for).artifact, oci.MODULE_TYPE)
                code = Blob(executable.serialized, oci.EXECUTABLE_TYPE)
                fixture = Blob(staging.fixture(name, index).read_bytes(), oci.FIXTURE_TYPE)
                blobs += (module, code, fixture)
                refs = (module.ref(), code.ref(), fixture.ref())
                records.append(_profile(profile, executable, refs, parities[name, index]))
        entry_points[name] = _entry_point(
            captured,
            manifest.entry_points[name],
            proofs.get(name, {}),
            tuple(records),
            _symbolic(captured, blobs),
        )
    weight_sets = {
        name: _weight_set(set_, program.weights[name], program.shardings.get(name, {}))
        for name, set_ in weights.items()
    }
    mesh = UNSET if program.mesh is None else program.mesh
    return TargetParts(
        manifest=BundleManifest(
            format_version=max(
                (each.format_version for each in entry_points.values()), default=FIRST_FORMAT
            ),
            name=manifest.name,
            version=manifest.version,
            target=target,
            requires=requirements(
                target,
                built_with,
                entry_points,
                executables.values(),
                weight_sets,
                mesh,
            ),
            built_with=built_with,
            accepts_jaxlib=(built_with.jaxlib,),
            dimensions={
                name: Dimension(
                    minimum=spec.minimum, maximum=spec.maximum, multiple_of=spec.multiple_of
                )
                for name, spec in manifest.dimensions.items()
            },
            weights=weight_sets,
            entry_points=entry_points,
            mesh=mesh,
            compilation=next((e.compilation for e in executables.values() if e.compilation), UNSET),
            evidence=evidence.ref(),
        ),
        blobs=blobs,
    )


def _profile(
    profile: CapturedProfile,
    executable: Executable,
    refs: tuple[BlobRef, BlobRef, BlobRef],
    parity: Parity,
) -> ProfileRecord:
    """refs: of the module, the executable and the fixture."""
    module, code, fixture = refs
    return ProfileRecord(
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
        parity=parity,
        memory=executable.memory,
        cost=executable.cost,
        custom_call_targets=executable.custom_call_targets,
        thunks=executable.thunks,
        tuned=UNSET if executable.tuned is None else executable.tuned,
    )


def _entry_point(
    captured: CapturedEntryPoint,
    spec: EntryPointSpec,
    proofs: Mapping[str, tuple[Trial, ...]],
    profiles: tuple[ProfileRecord, ...],
    symbolic: Symbolic | None,
) -> EntryPoint:
    return EntryPoint(
        function=captured.function,
        parameters=captured.parameters,
        inputs=captured.inputs,
        result=captured.result,
        outputs=captured.outputs,
        dimensions=captured.dimensions,
        relations=spec.relations,
        out_of_profile=policies(spec.out_of_profile, proofs),
        bound=captured.bound,
        static=captured.static,
        tolerance=Tolerance(rtol=repr(spec.rtol), atol=repr(spec.atol)),
        lifted=captured.lifted,
        profiles=profiles,
        specialized=captured.specialized,
        symbolic=UNSET if symbolic is None else symbolic,
    )


def _symbolic(captured: CapturedEntryPoint, blobs: list[Blob]) -> Symbolic | None:
    if captured.symbolic is None:
        return None
    blob = Blob(captured.symbolic.module.artifact, oci.MODULE_TYPE)
    blobs.append(blob)
    return Symbolic(
        module=blob.ref(),
        arguments=captured.symbolic.arguments,
        stablehlo=captured.symbolic.module.stablehlo_version,
    )


def _weight_set(blobs: Sequence[Blob], origin: str, shardings: Mapping[str, Sharding]) -> WeightSet:
    return WeightSet(
        blobs=tuple(blob.ref() for blob in blobs),
        origin=origin,
        tensors=tuple(
            WeightTensor(
                name=name,
                dtype=info.dtype,
                shape=info.shape,
                sharding=shardings.get(name, ()),
            )
            for blob in blobs
            for name, info in read_tensors(memoryview(blob.data), where="weights").items()
        ),
    )
