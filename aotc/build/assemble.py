"""From captured entry points and executables to bundle manifests and blobs."""

from __future__ import annotations

from collections.abc import Mapping

from aotc.build.staging import Staging
from aotc.config.build_manifest import BuildManifest
from aotc.packing.bundle import Blob, TargetParts
from aotc.stages import CapturedEntryPoint, CapturedProgram, Executable
from aotc_runtime.formats import oci
from aotc_runtime.formats.tensors import read_tensors
from aotc_runtime.schema.manifest import (
    FORMAT_VERSION,
    BuiltWith,
    BundleManifest,
    Dimension,
    EntryPoint,
    OutOfProfilePolicy,
    Parity,
    ProfileRecord,
    Requirements,
    Target,
    WeightSet,
    WeightTensor,
)

type Executables = Mapping[tuple[str, int], Executable]
type Parities = Mapping[tuple[str, int], Parity]


def weight_blobs(program: CapturedProgram, staging: Staging) -> dict[str, Blob]:
    """The weights sets' safetensors blobs by set name."""
    return {
        name: Blob(staging.weights(name).read_bytes(), oci.WEIGHTS_TYPE)
        for name in sorted(program.weights)
    }


def target_parts(
    manifest: BuildManifest,
    program: CapturedProgram,
    target: Target,
    executables: Executables,
    parities: Parities,
    weights: Mapping[str, Blob],
    built_with: BuiltWith,
    staging: Staging,
) -> TargetParts:
    """The bundle manifest of one target, with every blob it refers to."""
    blobs: list[Blob] = list(weights.values())
    entry_points = {}
    for name, captured in program.entry_points.items():
        records = []
        for index, profile in enumerate(captured.profiles):
            executable = executables[name, index]
            parts = (
                Blob(profile.module.artifact, oci.MODULE_TYPE),
                Blob(executable.serialized, oci.EXECUTABLE_TYPE),
                Blob(staging.fixture(name, index).read_bytes(), oci.FIXTURE_TYPE),
            )
            blobs.extend(parts)
            records.append(
                ProfileRecord(
                    sizes=profile.sizes,
                    input_shapes=profile.input_shapes,
                    output_shapes=profile.output_shapes,
                    arguments=profile.arguments,
                    module=parts[0].ref(),
                    executable=parts[1].ref(),
                    fixture=parts[2].ref(),
                    parity=parities[name, index],
                    memory=executable.memory,
                    cost=executable.cost,
                    custom_call_targets=executable.custom_call_targets,
                    thunks=executable.thunks,
                )
            )
        entry_points[name] = _entry_point(captured, tuple(records))
    return TargetParts(
        manifest=BundleManifest(
            format_version=FORMAT_VERSION,
            name=manifest.name,
            version=manifest.version,
            target=target,
            requires=_requirements(target, executables, weights),
            built_with=built_with,
            accepts_jaxlib=(built_with.jaxlib,),
            dimensions={
                name: Dimension(minimum=spec.minimum, maximum=spec.maximum)
                for name, spec in manifest.dimensions.items()
            },
            weights={
                name: _weight_set(blob, program.weights[name]) for name, blob in weights.items()
            },
            entry_points=entry_points,
        ),
        blobs=blobs,
    )


def _entry_point(captured: CapturedEntryPoint, profiles: tuple[ProfileRecord, ...]) -> EntryPoint:
    return EntryPoint(
        function=captured.function,
        parameters=captured.parameters,
        inputs=captured.inputs,
        result=captured.result,
        outputs=captured.outputs,
        dimensions=captured.dimensions,
        out_of_profile=OutOfProfilePolicy.FAIL,
        bound=captured.bound,
        static=captured.static,
        tolerance=captured.tolerance,
        lifted=captured.lifted,
        profiles=profiles,
    )


def _weight_set(blob: Blob, origin: str) -> WeightSet:
    tensors = read_tensors(memoryview(blob.data), where="weights")
    return WeightSet(
        blob=blob.ref(),
        origin=origin,
        tensors=tuple(
            WeightTensor(name=name, dtype=info.dtype, shape=info.shape)
            for name, info in tensors.items()
        ),
    )


def _requirements(
    target: Target, executables: Executables, weights: Mapping[str, Blob]
) -> Requirements:
    """What a host must offer: the union of what the executables need."""
    every = executables.values()
    run_bytes = max(
        e.memory.argument_bytes + e.memory.output_bytes + e.memory.temp_bytes for e in every
    )
    return Requirements(
        platform=target.platform,
        architecture=target.triple.partition("-")[0],
        isa=tuple(sorted({feature for e in every for feature in e.isa})),
        devices=1,
        custom_call_targets=tuple(sorted({t for e in every for t in e.custom_call_targets})),
        memory_bytes=run_bytes + sum(len(blob.data) for blob in weights.values()),
    )
