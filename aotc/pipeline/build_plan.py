"""What a build will make: its targets and one compile job per entry point, profile and target."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

from msgspec.structs import replace

from aotc.base.errors import refusal
from aotc.base.stages import CapturedEntryPoint, CompileJob
from aotc.compile.compiler_registry import kind_of
from aotc.compile.target_files import NATIVE, read_target
from aotc.config.build_manifest import BuildManifest
from aotc.pipeline.cache.cache_keys import Kind
from aotc.pipeline.engine_order import candidates
from aotc_runtime.schema.bundle_manifest import Target, WeightArgument
from aotc_runtime.schema.manifest_labels import ExecutableKey

_BARE_KEY = re.compile("[A-Za-z0-9_-]+")

type Wanted = Mapping[str, Sequence[ExecutableKey]]
"""The executables of each target, by its name, in their order."""


def wanted_executables(
    manifest: BuildManifest, names: Sequence[str], targets: Sequence[Target]
) -> Wanted:
    """What each target is compiled for. names: the targets as written, in order."""
    return {
        target.name: manifest.executables(name) for name, target in zip(names, targets, strict=True)
    }


def planned_tasks(wanted: Wanted) -> Iterator[tuple[Kind, str]]:
    """The tasks of a build of all this: kinds, and what each makes."""
    yield Kind.CAPTURE, ""
    yield Kind.REFERENCE, ""
    for target, keys in wanted.items():
        for key in keys:
            yield Kind.EXECUTABLE, f"{key.label} for {target}"
        yield Kind.PARITY, f"of {target}"
    yield Kind.PACK, ""


def resolve_targets(manifest: BuildManifest, override: Sequence[str] = ()) -> tuple[Target, ...]:
    """The targets of a manifest, or those given instead, each for the first engine that has code
    for it. Raises BuildManifestError.
    """
    return tuple(each[0] for each in resolve_candidates(manifest, override))


def resolve_candidates(
    manifest: BuildManifest, override: Sequence[str] = ()
) -> tuple[tuple[Target, ...], ...]:
    """The targets of a manifest, or those given instead, each as every engine of its list compiles
    it, in their order. Raises BuildManifestError.
    """
    names = tuple(override) or manifest.targets
    wheres = [
        "--target" if override else manifest.where("targets", index) for index in range(len(names))
    ]
    targets = tuple(
        _with_devices(resolve_target(name, manifest.root, where), name, manifest, where)
        for name, where in zip(names, wheres, strict=True)
    )
    for index, target in enumerate(targets):
        if target.name in [other.name for other in targets[:index]]:
            raise refusal("AOTC-E813", wheres[index], f"{target.name} twice")
    return tuple(
        candidates(target, *_engines_of(name, manifest))
        for name, target in zip(names, targets, strict=True)
    )


def _engines_of(name: str, manifest: BuildManifest) -> tuple[tuple[str, ...], str]:
    """The engines that the manifest names for a target, as it writes it, and where."""
    override = manifest.overrides.get(name)
    if override is not None and override.engines:
        return override.engines, manifest.where("target", name, "engines")
    return manifest.engines, manifest.where("engines")


def _with_devices(target: Target, name: str, manifest: BuildManifest, where: str) -> Target:
    """The target with the devices that the manifest gives it, as many as the mesh has.

    name: as written. Raises BuildManifestError (AOTC-E815).
    """
    override = manifest.overrides.get(name)
    count = target.devices
    fixed = kind_of(target.platform).fixed_devices(target)
    if override is not None and override.devices is not None:
        count = override.devices
        where = manifest.where("target", name, "devices")
        if count != target.devices and fixed:
            raise refusal(
                "AOTC-E815",
                where,
                str(count),
                expected=f"{target.devices} devices, which {fixed} has",
                hint="name a target with another topology",
            )
    wanted = prod(manifest.mesh.values()) if manifest.mesh else count
    if wanted != count:
        axes = ", ".join(f"{axis} = {size}" for axis, size in manifest.mesh.items())
        key = name if _BARE_KEY.fullmatch(name) else f'"{name}"'
        raise refusal(
            "AOTC-E815",
            where,
            f"{target.name} with {count}",
            expected=f"{wanted} devices, for the mesh {{ {axes} }}",
            hint="name a target with such a topology, or change the mesh"
            if fixed
            else f"add [target.{key}] devices = {wanted}, or change the mesh",
        )
    return target if count == target.devices else replace(target, devices=count)


def resolve_target(name: str, folder: Path, where: str) -> Target:
    """A target by name or path, looked up from a folder; `native` describes this host."""
    if name != NATIVE:
        return read_target(name, folder, where)
    from aotc.compile.xla.native_target import describe_native

    return describe_native()


def compile_jobs(
    entry_points: Iterable[CapturedEntryPoint], targets: Sequence[Target], wanted: Wanted
) -> dict[str, dict[ExecutableKey, CompileJob]]:
    """A job for each executable of these entry points that a target is to have, by target."""
    captured = {key: (each, p) for each in entry_points for key, p in each.by_key.items()}
    chosen = {target.name: frozenset(wanted[target.name]) for target in targets}
    return {
        target.name: {
            key: CompileJob(
                label=key.label,
                module=profile.module_for(kind_of(target.platform).lowered_for),
                target=target,
                mesh=entry_point.mesh,
                calls=entry_point.calls,
                weights=tuple(
                    place
                    for place, argument in enumerate(profile.arguments)
                    if isinstance(argument, WeightArgument)
                ),
            )
            for key, (entry_point, profile) in captured.items()
            if key in chosen[target.name]
        }
        for target in targets
    }
