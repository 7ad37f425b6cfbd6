"""What a bundle with custom calls needs: a runtime that serves them, and Python packages."""

from __future__ import annotations

from collections.abc import Iterator

from aotc_runtime.errors import Finding
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
        yield Finding(
            code="AOTC-E504",
            where=where,
            expected="custom calls this runtime serves: "
            + SERVED.get(manifest.requires.platform, "none"),
            found=", ".join(unknown),
            hint="use an aotc-runtime that serves them",
        )


def check_libraries(manifest: BundleManifest, host: HostFacts, where: str) -> Iterator[Finding]:
    """Python packages behind requires.custom_call_targets, if it is known which the host has."""
    needing = [t for t in manifest.requires.custom_call_targets if t.startswith(LAPACK)]
    if needing and host.libraries is not None and "scipy" not in host.libraries:
        yield Finding(
            code="AOTC-E510",
            where=where,
            expected=f"scipy, whose LAPACK serves {', '.join(needing)}",
            found="no package of this name",
            hint="`pip install scipy`: jaxlib requires it, but it was left out here",
        )
