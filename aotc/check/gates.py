"""Compares a build's figures by target, entry point and profile with the gates of its manifest."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import UNSET, Struct

from aotc.base.errors import finding, shorten
from aotc.base.evidence import XLA, Coverage, Evidence, ExecutableEvidence, ProfileEvidence
from aotc.base.source_locations import EntryPointLines
from aotc.config.build_manifest import BuildManifest
from aotc.config.manifest_specs import Gates
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats import oci_layout
from aotc_runtime.schema.bundle_manifest import BundleManifest, ProfileRecord
from aotc_runtime.schema.manifest_labels import label, sizes_text

type Sizes = Mapping[str, int]

type _Excess = tuple[str, str, str, str]
"""Gate, what is allowed, what was found, hint."""


class GatedTarget(Struct, frozen=True):
    """A target of a build before packing; `blob_bytes` counts each blob once, by media type."""

    manifest: BundleManifest
    blob_bytes: Mapping[str, int]
    evidence: Evidence


def check(
    manifest: BuildManifest,
    targets: Sequence[GatedTarget],
    lines: Mapping[str, EntryPointLines] = MappingProxyType({}),
) -> Iterator[Finding]:
    """Yield AOTC-E975 for everything that exceeds a gate.

    Profiles of one entry point and target that exceed it for the same reason are one finding.
    `lines` has the source lines of functions, by entry point.
    """
    gates = manifest.gates
    if not any(gates.in_use()):
        return

    def beyond(place: str, excess: _Excess) -> Finding:
        gate, expected, found, hint = excess
        where = manifest.where("gates", gate)
        return finding("AOTC-E975", where, f"{place}: {found}", expected=expected, hint=hint)

    for each in targets:
        target = each.manifest.target.name
        for excess in _target_excess(gates, each.blob_bytes):
            yield beyond(target, excess)
        for name, entry_point in each.manifest.entry_points.items():
            known = each.evidence.entry_points[name]
            # The program is one for all targets.
            if each is targets[0]:
                at = lines.get(name, EntryPointLines())
                for excess in _coverage_excess(gates, known.coverage, at):
                    yield beyond(name, excess)
            by_cause: dict[tuple[str, str, str], dict[str, list[Sizes]]] = {}
            for profile, evidence in zip(entry_point.profiles, known.profiles, strict=True):
                for gate, expected, found, hint in _executable_excess(gates, profile, evidence):
                    same = by_cause.setdefault((gate, expected, hint), {})
                    same.setdefault(found, []).append(profile.sizes)
            for (gate, expected, hint), profiles in by_cause.items():
                place, found = _place_and_found(name, target, profiles)
                yield beyond(place, (gate, expected, found, hint))


def _place_and_found(
    name: str, target: str, profiles: Mapping[str, Sequence[Sizes]]
) -> tuple[str, str]:
    """Return the place where a gate was exceeded, and the values found at these profiles."""
    every = [sizes for group in profiles.values() for sizes in group]
    if len(every) == 1:
        return f"{label(name, every[0])} for {target}", next(iter(profiles))
    parts = (f"{found} ({', '.join(map(sizes_text, at))})" for found, at in profiles.items())
    return f"{name} for {target}", "; ".join(parts)


def _target_excess(gates: Gates, sizes: Mapping[str, int]) -> Iterator[_Excess]:
    limit = gates.max_artifact_size
    if limit is not None and (total := sum(sizes.values())) > limit:
        kinds = (
            ("weights", oci_layout.WEIGHTS_TYPE),
            ("executables", oci_layout.EXECUTABLE_TYPE),
            ("modules", oci_layout.MODULE_TYPE),
            ("fixtures", oci_layout.FIXTURE_TYPE),
            ("evidence", oci_layout.EVIDENCE_TYPE),
            ("assets", oci_layout.ASSET_TYPE),
        )
        shown = ", ".join(f"{sizes.get(media_type, 0)} of {kind}" for kind, media_type in kinds)
        yield (
            "max_artifact_size",
            f"at most {limit} bytes for a target",
            f"{total}: {shown}",
            "leave out profiles or weights, or raise the gate",
        )


def _coverage_excess(gates: Gates, coverage: Coverage, lines: EntryPointLines) -> Iterator[_Excess]:
    limit = gates.min_coverage
    if limit is None:
        return
    hint = "remove lines that this program never needs, or lower the gate"
    if coverage.lines == 0:
        found = "no traced function outside of installed packages"
        yield "min_coverage", f"at least {limit} of the lines traced", found, hint
    elif coverage.traced / coverage.lines < limit:
        missed = [
            f"{':'.join([file, *([','.join(at.missed)] if at else [])])} in {function.name}"
            for file, functions in coverage.files.items()
            for function, at in zip(functions, lines.lines_in(file, functions), strict=True)
            if function.traced < function.lines
        ]
        shown = shorten(missed, 4, "; ")
        found = f"{coverage.shown_part:.3f}, {coverage.traced} of {coverage.lines}; not {shown}"
        yield "min_coverage", f"at least {limit} of the lines traced", found, hint


def _executable_excess(
    gates: Gates, profile: ProfileRecord, evidence: ProfileEvidence
) -> Iterator[_Excess]:
    limit = gates.max_executable_size
    if limit is not None and profile.executable.size > limit:
        yield (
            "max_executable_size",
            f"at most {limit} bytes for an executable",
            f"{profile.executable.size}, {profile.memory.code_bytes} of them object files",
            "reduce constants and loops, or raise the gate",
        )
    limit = gates.max_temp_memory
    if limit is not None and profile.memory.temp_bytes > limit:
        yield (
            "max_temp_memory",
            f"at most {limit} bytes of temporaries in a call",
            str(profile.memory.temp_bytes),
            "make the profile smaller, or raise the gate",
        )
    if evidence.compiled is not UNSET:
        yield from _work_excess(gates, evidence.compiled)
    elif blind := sorted(set(gates.in_use()) & _NEED_COMPILED):
        for gate in blind:
            hint = "remove the gate, or the target, whose backend reports no evidence"
            yield gate, "evidence of what was compiled", "none", hint


_NEED_COMPILED = {
    "max_custom_calls",
    "max_generated_kernels",
    "forbid_libraries",
    "forbid_operations",
}


def _work_excess(gates: Gates, compiled: ExecutableEvidence) -> Iterator[_Excess]:
    calls = compiled.optimized.custom_calls
    if gates.max_custom_calls is not None and sum(calls.values()) > gates.max_custom_calls:
        yield (
            "max_custom_calls",
            f"at most {gates.max_custom_calls} custom calls in an executable",
            f"{sum(calls.values())}: {_counts(calls)}",
            "express the operations in plain jax, or raise the gate",
        )
    steps = {place.name: place.steps for place in compiled.placement}
    generated = sum(steps.get(XLA, {}).values())
    limit = gates.max_generated_kernels
    if limit is not None and generated > limit:
        yield (
            "max_generated_kernels",
            f"at most {limit} generated kernels in an executable",
            str(generated),
            "simplify the program, or raise the gate",
        )
    for library in gates.forbid_libraries:
        if library in steps:
            yield (
                "forbid_libraries",
                f"no work done by {library}",
                _counts(steps[library]),
                "use other operations or XLA options, or allow the library",
            )
    for operation in gates.forbid_operations:
        if number := compiled.operations.get(operation):
            yield (
                "forbid_operations",
                f"no {operation}",
                f"{number} of them",
                "express the function without it, or allow the operation",
            )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
