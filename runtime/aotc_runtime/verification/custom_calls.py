"""What a bundle with custom calls needs: a runtime that serves them, and Python packages."""

from __future__ import annotations

from collections.abc import Iterator

from aotc_runtime.errors import Finding, finding
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.kernels import LAPACK, SERVED, is_served
from aotc_runtime.schema.manifest import BundleManifest


def check_served(manifest: BundleManifest, where: str) -> Iterator[Finding]:
    """requires.custom_call_targets: those this runtime can register."""
    unknown = [
        target
        for target in manifest.requires.custom_call_targets
        if not is_served(manifest.requires.platform, target)
    ]
    if unknown:
        yield finding(
            "AOTC-E504",
            where,
            ", ".join(unknown),
            expected="custom calls this runtime serves: "
            + SERVED.get(manifest.requires.platform, "none"),
        )


def check_libraries(manifest: BundleManifest, host: HostFacts, where: str) -> Iterator[Finding]:
    """Python packages behind requires.custom_call_targets, if it is known which the host has."""
    needing = [t for t in manifest.requires.custom_call_targets if t.startswith(LAPACK)]
    if needing and host.libraries is not None and "scipy" not in host.libraries:
        yield finding(
            "AOTC-E510",
            where,
            "no package of this name",
            expected=f"scipy, whose LAPACK serves {', '.join(needing)}",
        )
