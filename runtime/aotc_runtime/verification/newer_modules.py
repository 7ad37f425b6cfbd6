"""Modules that a host may have to compile for calls, which its jaxlib may be too old to read."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.verification.host_compatibility import version_numbers

READS_STABLEHLO = {"0.11.2": (1, 20, 0), "0.12.0": (1, 22, 0), "0.12.0.1": (1, 22, 0)}
"""By jaxlib version, the newest portable artifact it reads: `stablehlo.get_current_version()`.
Asking would import MLIR, which takes 160 ms. What another version reads is not known here."""


def newer_modules(manifest: BundleManifest, host: HostFacts, where: str) -> Iterator[Finding]:
    """Modules of a later version than the host's jaxlib reads."""
    reads = READS_STABLEHLO.get(host.jaxlib)
    for name, entry_point in manifest.entry_points.items():
        if entry_point.symbolic is UNSET or entry_point.symbolic.stablehlo is UNSET:
            continue
        needs = entry_point.symbolic.stablehlo
        if reads is not None and version_numbers(needs) > reads:
            yield Finding(
                code="AOTC-E404",
                where=f"{where}, {name}",
                expected=f"a jaxlib that reads StableHLO {needs}, to compile it for other sizes",
                found=f"jaxlib {host.jaxlib}, which reads {'.'.join(map(str, reads))}",
                hint="install a newer jaxlib there, or build with an older one",
            )
