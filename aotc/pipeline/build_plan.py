"""The plan of a build: targets, their engines in order, and a compile job for each executable."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from math import prod
from pathlib import Path

from msgspec.structs import replace

from aotc.base.errors import CompileError, refusal
from aotc.base.evidence import EngineRefusal
from aotc.base.stages import CapturedEntryPoint, CompileJob, Executable
from aotc.compile.compiler_protocol import RANGES
from aotc.compile.compiler_registry import kind_of, platforms
from aotc.compile.cpu.cpu_kind import ProcessorKind
from aotc.compile.target_files import NATIVE, read_target
from aotc.config.build_manifest import BuildManifest
from aotc.config.manifest_problem import spell
from aotc.config.manifest_specs import Tune
from aotc.config.precision_specs import FLOAT32
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.schema.bundle_manifest import Range, Target, WeightArgument, engine_name
from aotc_runtime.schema.manifest_labels import ExecutableKey

_BARE_KEY = re.compile("[A-Za-z0-9_-]+")

type Wanted = Mapping[str, Sequence[ExecutableKey]]
"""The executables of each target, by its name, in their order."""


def resolve_candidates(
    manifest: BuildManifest, override: Sequence[str] = ()
) -> tuple[tuple[Target, ...], ...]:
    """Return the targets as every engine of their lists compiles them, in order.

    `override` replaces the manifest's. Raises BuildManifestError for unknown or invalid targets.
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
            raise refusal("AOTC-E813", wheres[index], target.name)
    found = []
    for name, target in zip(names, targets, strict=True):
        engines, where = _engines_of(name, manifest)
        found.append(candidates(target, engines, where))
        _require_kernels(found[-1], manifest, where, is_listed=bool(engines))
    return tuple(found)


def _require_kernels(
    targets: Sequence[Target], manifest: BuildManifest, where: str, *, is_listed: bool
) -> None:
    """Require that one of the listed engines has kernels for the precision of each entry point.

    Of several precisions, tuning chooses by measurement. All engines need kernels for bfloat16,
    since others compute with other numbers, and for ranges. Raises BuildManifestError (AOTC-E816).
    """
    for name, entry in manifest.entry_points.items():
        has_range = any(isinstance(policy, Range) for policy in entry.out_of_profile.values())
        needed = [(RANGES, "engine-takes-no-ranges", True)] if has_range else []
        stated = manifest.precision_of(name)
        is_open = len(entry.precision) > 1 and name not in manifest.chosen
        if stated is not None and not is_open:
            is_other = stated[1].compute != FLOAT32
            if is_other or (is_listed and len(entry.precision) == 1):
                needed.append((stated[1].kernels, "engine-has-no-kernels", is_other))
        for kernels, cause, is_for_all in needed:
            lacking = [kernels not in kind_of(each.platform).kernels for each in targets]
            if not (any if is_for_all else all)(lacking):
                continue
            able = [
                engine
                for engine, each in for_engines(targets[0]).items()
                if isinstance(each, Target) and kernels in kind_of(each.platform).kernels
            ]
            found = f"{', '.join(map(engine_name, targets))} for {kernels} of {name}"
            hint = _engines_text(able)
            if len(able) < 2 and manifest.tune != Tune():  # which one engine does not take: E809
                hint += ", and remove `tune`: it chooses among several engines"
            expected = f"one of: {', '.join(able)}"
            raise refusal("AOTC-E816", where, found, cause=cause, expected=expected, hint=hint)


def _engines_of(name: str, manifest: BuildManifest) -> tuple[tuple[str, ...], str]:
    """Return the engines that the manifest names for a target, as it writes it, and where."""
    override = manifest.overrides.get(name)
    if override is not None and override.engines:
        return override.engines, manifest.where("target", name, "engines")
    return manifest.engines, manifest.where("engines")


def _with_devices(target: Target, name: str, manifest: BuildManifest, where: str) -> Target:
    """Return the target with the devices that the manifest gives it, as many as the mesh has.

    `name` is the target as written. Raises BuildManifestError (AOTC-E815).
    """
    override = manifest.overrides.get(name)
    count = target.devices
    fixed = kind_of(target.platform).fixed_devices(target)
    if override is not None and override.devices is not None:
        count = override.devices
        where = manifest.where("target", name, "devices")
        if count != target.devices and fixed:
            cause = "device-count-does-not-match-the-topology"
            expected = f"{target.devices} devices for {fixed}"
            raise refusal("AOTC-E815", where, str(count), cause=cause, expected=expected)
    wanted = prod(manifest.mesh.values()) if manifest.mesh else count
    if wanted != count:
        axes = ", ".join(f"{axis} = {size}" for axis, size in manifest.mesh.items())
        key = name if _BARE_KEY.fullmatch(name) else f'"{name}"'
        found = f"{count} devices of {target.name}"
        expected = f"{wanted} devices, for the mesh {{ {axes} }}"
        hint = f"add [target.{key}] devices = {wanted}, or change the mesh"
        if fixed:
            hint = "name a target with such a topology, or change the mesh"
        raise refusal("AOTC-E815", where, found, expected=expected, hint=hint)
    return target if count == target.devices else replace(target, devices=count)


def resolve_target(name: str, folder: Path, where: str) -> Target:
    """Return a target by name or path, looked up from a folder; `native` describes this host."""
    if name != NATIVE:
        return read_target(name, folder, where)
    from aotc.compile.xla.native_target import describe_native

    return describe_native()


def compile_jobs(
    entry_points: Iterable[CapturedEntryPoint], targets: Sequence[Target], wanted: Wanted
) -> dict[str, dict[ExecutableKey, CompileJob]]:
    """Return a job for each executable of these entry points, by target."""
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
                dimension=next(iter(entry_point.largest), ""),
                artifacts=_at_sizes(entry_point, key, kind_of(target.platform).lowered_for),
            )
            for key, (entry_point, profile) in captured.items()
            if key in chosen[target.name] and entry_point.compiled(profile) == key
        }
        for target in targets
    }


def _at_sizes(captured: CapturedEntryPoint, key: ExecutableKey, platform: str) -> dict[int, bytes]:
    """Return the modules of an executable for a range by size, the largest first.

    At size 1, programs may have other operations: only trials compare the executable there.
    """
    return {
        profile.sizes[dimension]: profile.module_for(platform).artifact
        for dimension in captured.largest
        for profile in reversed(captured.profiles)
        if captured.compiled(profile) == key and profile.sizes[dimension] > 1
    }


REFUSALS = frozenset(["AOTC-E901", "AOTC-E902", "AOTC-E903", "AOTC-E904", "AOTC-E916"])
"""What a compiler finds wrong with a program, for which the next engine of a list is asked. A
toolchain that is missing is none of it."""


_FAILURES = {"AOTC-E951": "computes wrong results of", "AOTC-E953": "cannot run"}


@dataclass(frozen=True, slots=True)
class EngineFallback:
    """A target that an engine could not compile or run right, so that the next one was taken.

    `findings` are about the first executable that failed.
    """

    target: str
    engine: str
    taken: str
    findings: tuple[Finding, ...]

    @property
    def sentence(self) -> str:
        """Return a sentence about what happened."""
        first = self.findings[0]
        found = first.found.splitlines()[0]
        does = _FAILURES.get(first.code, "cannot compile")
        return (
            f"{self.engine} {does} {first.where} ({first.code}, {first.title}: {found}), "
            f"so {self.target} goes to {self.taken}"
        )

    @property
    def refusal(self) -> EngineRefusal:
        """The refusal as evidence for reviewers: its first finding."""
        one = self.findings[0]
        return EngineRefusal(engine=self.engine, where=one.where, code=one.code, found=one.found)


def candidates(target: Target, engines: Sequence[str], where: str) -> tuple[Target, ...]:
    """Return a target as each of these engines compiles it, without those that cannot.

    Without engines, it stays as in its file. Raises BuildManifestError (AOTC-E816) for an unknown
    engine, and where none is left.
    """
    if not engines:
        return (target,)
    known = for_engines(target)
    unknown = [name for name in engines if name not in known]
    if unknown:
        found, expected = ", ".join(map(spell, unknown)), f"one of: {', '.join(known)}"
        hint = did_you_mean(unknown[0], known, "correct the name, or install its package")
        raise refusal(
            "AOTC-E816", where, found, cause="unknown-engine", expected=expected, hint=hint
        )
    able = {name: each for name, each in known.items() if isinstance(each, Target)}
    left = [able[name] for name in engines if name in able]
    if not left:
        reasons = "; ".join(f"{name}: {known[name]}" for name in engines)
        expected = f"one of: {', '.join(able)}" if able else ""
        hint = _engines_text(able) if able else "name another target"
        raise refusal("AOTC-E816", where, reasons, expected=expected, hint=hint)
    return tuple(left)


def first_refusal(futures: Sequence[Future[Executable]]) -> tuple[Finding, ...]:
    """Return why an engine rejects a target's program, once all its jobs have ended.

    Empty if it does not, or if something other than the program failed.
    """
    wait(futures)
    for future in futures:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, CompileError) and error.findings[0].code in REFUSALS:
            return error.findings
    return ()


def _installed_engines(target: Target) -> Iterator[tuple[str, str]]:
    """Yield every installed engine that can compile for targets, with a platform of it.

    The engine of the target has the target's own platform.
    """
    for platform in sorted(platforms(), key=lambda p: isinstance(kind_of(p), ProcessorKind)):
        yield engine_name(replace(target, platform=platform)), platform
    if not isinstance(kind_of(target.platform), ProcessorKind):
        yield engine_name(target), target.platform


def for_engines(target: Target) -> dict[str, Target | str]:
    """Return a target as each installed engine compiles it, or why it cannot, by engine."""
    found: dict[str, Target | str] = {}
    for name, platform in sorted(dict(_installed_engines(target)).items()):
        try:
            found[name] = _as_for(target, platform)
        except ValueError as error:
            found[name] = str(error)
    return found


def _engines_text(engines: Iterable[str]) -> str:
    return f"engines = {[*engines]}".replace("'", '"')


def _as_for(target: Target, platform: str) -> Target:
    """Return the same machine's target for a platform. Raises ValueError with a reason."""
    if platform == target.platform:
        return target
    kind, own = kind_of(platform), kind_of(target.platform)
    if not isinstance(own, ProcessorKind):
        raise ValueError(f"it has no code for {target.platform}")
    if not isinstance(kind, ProcessorKind):
        raise ValueError("it has no code for processors")
    return kind.for_processor(target)
