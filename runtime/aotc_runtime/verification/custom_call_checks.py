"""What a bundle with custom calls needs: a runtime that serves them, and Python packages."""

from __future__ import annotations

from collections.abc import Iterator

from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.served_kernels import LAPACK, SERVED, is_served


def unserved_calls(manifest: BundleManifest, where: str) -> Iterator[Finding]:
    """Custom calls that this runtime cannot register."""
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


def missing_libraries(manifest: BundleManifest, host: HostFacts, where: str) -> Iterator[Finding]:
    """Python packages behind custom calls that the host lacks, if it is known which it has."""
    needing = [t for t in manifest.requires.custom_call_targets if t.startswith(LAPACK)]
    if needing and host.libraries is not None and "scipy" not in host.libraries:
        yield Finding(
            code="AOTC-E510",
            where=where,
            expected=f"scipy, whose LAPACK serves {', '.join(needing)}",
            found="no package of this name",
            hint="`pip install scipy`: jaxlib requires it, but it was left out here",
        )
