"""What a host must offer to run what was built for a target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from aotc.base.call_memory import call_bytes, device_weight_bytes, host_weight_bytes
from aotc.base.stages import Executable
from aotc.compile.compiler_registry import kind_of
from aotc_runtime.schema.bundle_manifest import (
    BuiltWith,
    EntryPoint,
    Mesh,
    Requirements,
    Target,
    WeightSet,
)


def requirements(
    target: Target,
    built_with: BuiltWith,
    entry_points: Mapping[str, EntryPoint],
    executables: Collection[Executable],
    weights: Mapping[str, WeightSet],
    mesh: Mesh | UnsetType,
) -> Requirements:
    """The union of what the executables need. built_with: everything that made them."""
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
    return Requirements(
        platform=target.platform,
        architecture=target.triple.partition("-")[0],
        isa=tuple(sorted({feature for e in executables for feature in e.isa})),
        devices=devices,
        custom_call_targets=tuple(sorted({t for e in executables for t in e.custom_call_targets})),
        memory_bytes=devices * largest + host_weight_bytes(weights, mesh),
        device=kind_of(target.platform).requirements(target, built_with, on_each),
        engines=engines or UNSET,
    )


def other_platforms(target: Target, platforms: Iterable[str]) -> list[str]:
    """Platforms of executables other than the target's own, for which "" stands as well; sorted."""
    return sorted({*platforms} - {"", target.platform})


def made_by(
    built_with: Mapping[str, BuiltWith], target: Target, platforms: Iterable[str]
) -> BuiltWith:
    """The toolchain of a target whose executables are for these platforms. built_with: by
    platform.
    """
    others = [built_with[platform] for platform in other_platforms(target, platforms)]
    own = built_with[target.platform]
    if not others:
        return own
    tools = {name: version for each in (*others, own) for name, version in each.tools.items()}
    return replace(own, tools=dict(sorted(tools.items())))
