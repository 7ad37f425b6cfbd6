"""Why executables may not run on a host, in words; and checks of what few bundles need. Imported
where a host does not fit, or a bundle has custom calls or modules for other sizes.

The findings bring words of their own instead of the catalogue's, which takes milliseconds to
import: a load that succeeds judges all targets of a bundle, those that cannot run here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import UNSET

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.host_facts import NOT_INSTALLED, HostFacts, version_numbers
from aotc_runtime.schema.served_kernels import LAPACK, SERVED, is_served


def place(manifest: BundleManifest) -> str:
    """Where findings about a target are: "digits 1.0.0 for cpu-x86-64-v3"."""
    return f"{manifest.name} {manifest.version} for {manifest.target.name}"


def other_jaxlib(manifest: BundleManifest, host: HostFacts) -> Finding:
    """AOTC-E405 for a host without jaxlib, E401 for one with a version that is not accepted."""
    accepted, built_with = manifest.accepts_jaxlib, manifest.built_with.jaxlib
    if host.jaxlib == NOT_INSTALLED:
        version = f"=={accepted[-1]}" if accepted else ""
        return Finding(
            code="AOTC-E405",
            where=place(manifest),
            expected="the engine of its executables, jaxlib: the extra `xla` of aotc-runtime",
            found=f"jaxlib {NOT_INSTALLED}",
            hint=f"in a clone of aotc, `pip install './runtime[xla]' jaxlib{version}`; a bundle is "
            "verified without it, but cannot be loaded",
        )
    hint = f"rebuild with jaxlib {host.jaxlib}"
    return Finding(
        code="AOTC-E401",
        where=place(manifest),
        expected=f"jaxlib {' or '.join(accepted)} (built with {built_with})",
        found=f"jaxlib {host.jaxlib}",
        hint=f"`pip install jaxlib=={accepted[-1]}`, or {hint}" if accepted else hint,
    )


READS_STABLEHLO = {"0.11.2": (1, 20, 0), "0.12.0": (1, 22, 0), "0.12.0.1": (1, 22, 0)}
"""By jaxlib version, the newest portable artifact it reads: `stablehlo.get_current_version()`.
Asking would import MLIR, which takes 160 ms. What another version reads is not known here."""


def newer_modules(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """Modules of a later version than the host's jaxlib reads."""
    reads = READS_STABLEHLO.get(host.jaxlib)
    for name, entry_point in manifest.entry_points.items():
        if entry_point.symbolic is UNSET or entry_point.symbolic.stablehlo is UNSET:
            continue
        needs = entry_point.symbolic.stablehlo
        if reads is not None and version_numbers(needs) > reads:
            yield Finding(
                code="AOTC-E404",
                where=f"{place(manifest)}, {name}",
                expected=f"a jaxlib that reads StableHLO {needs}, to compile it for other sizes",
                found=f"jaxlib {host.jaxlib}, which reads {'.'.join(map(str, reads))}",
                hint="install a newer jaxlib there, or build with an older one",
            )


def newer_format(manifest: BundleManifest, host: HostFacts) -> Finding:
    """AOTC-E402."""
    return Finding(
        code="AOTC-E402",
        where=place(manifest),
        expected=f"a runtime that reads bundle format {manifest.format_version}",
        found=f"aotc-runtime {host.runtime}, which reads {host.bundle_format}",
        hint="update aotc-runtime there, or rebuild the bundle with the aotc of its release",
    )


def other_platform(manifest: BundleManifest, needs: Sequence[str], has: Sequence[str]) -> Finding:
    """AOTC-E501."""
    return Finding(
        code="AOTC-E501",
        where=place(manifest),
        expected=" ".join(needs),
        found=" ".join(has),
        hint="deploy to such a host, or build for a target of this one",
    )


def older_libc(floor: Sequence[int], host: HostFacts) -> Finding:
    """AOTC-E507."""
    return Finding(
        code="AOTC-E507",
        where="this host's C library",
        expected="glibc " + ".".join(map(str, floor)) + " or newer, for jaxlib",
        found=host.libc,
        hint="run on a newer system, or in a container of one",
    )


def missing_features(manifest: BundleManifest, host: HostFacts, missing: Sequence[str]) -> Finding:
    """AOTC-E502."""
    return Finding(
        code="AOTC-E502",
        where=place(manifest),
        expected=f"a processor with {', '.join(missing)}",
        found=f"{host.cpu}, which lacks them",
        hint="add a target that this host has (`aotc targets list`) and build again, "
        "or run on a host that has these features",
    )


def too_few_devices(manifest: BundleManifest, has: int) -> Finding:
    """AOTC-E503."""
    needs, hint = manifest.requires.devices, "run where that many devices are visible"
    if manifest.requires.device is UNSET:
        hint = "a process starts XLA once: load the bundle that needs the most devices first, or "
        hint += f"pass devices={needs} to the first load"
    return Finding(
        code="AOTC-E503",
        where=place(manifest),
        expected=f"{needs} devices",
        found=str(has),
        hint=hint,
    )


def unserved_calls(manifest: BundleManifest) -> Iterator[Finding]:
    """Custom calls that this runtime cannot register."""
    unknown = [
        target
        for target in manifest.requires.custom_call_targets
        if not is_served(manifest.requires.platform, target)
    ]
    if unknown:
        yield Finding(
            code="AOTC-E504",
            where=place(manifest),
            expected="custom calls this runtime serves: "
            + SERVED.get(manifest.requires.platform, "none"),
            found=", ".join(unknown),
            hint="use an aotc-runtime that serves them",
        )


def missing_libraries(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """Python packages behind custom calls that the host lacks, if it is known which it has."""
    needing = [t for t in manifest.requires.custom_call_targets if t.startswith(LAPACK)]
    if needing and host.libraries is not None and "scipy" not in host.libraries:
        yield Finding(
            code="AOTC-E510",
            where=place(manifest),
            expected=f"scipy, whose LAPACK serves {', '.join(needing)}",
            found="no package of this name",
            hint="`pip install scipy`: jaxlib requires it, but it was left out here",
        )


def too_little_memory(manifest: BundleManifest, host: HostFacts, needs: int) -> Finding:
    """AOTC-E551. needs: bytes."""
    return Finding(
        code="AOTC-E551",
        where=place(manifest),
        expected=f"{needs} bytes of free memory",
        found=f"{host.memory_bytes} bytes",
        hint="raise the limit of the container or of load (`memory_limit`), free memory, or "
        "build smaller profiles",
    )


def missing_target(
    manifests: Mapping[str, BundleManifest], wanted: str, absent: Sequence[str]
) -> Finding:
    """AOTC-E505 for a target that is not there: left out of this copy, or never in the bundle."""
    if wanted in absent:
        return finding(
            "AOTC-E505",
            wanted,
            "a target that was left out of it (`aotc extract`)",
            expected="a target that this copy of the bundle holds: " + ", ".join(sorted(manifests)),
            hint="take the whole bundle, or extract this target from it",
        )
    otherwise = "`aotc inspect` shows a bundle's targets; without one, this host's best is chosen"
    return finding(
        "AOTC-E505",
        wanted,
        "no such target",
        expected="one of the bundle's targets: " + ", ".join(sorted(manifests)),
        hint=did_you_mean(wanted, manifests, otherwise),
    )
