"""docs/trust.md 7: the engines whose code a policy accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aotc_runtime.errors import Finding, finding
from aotc_runtime.schema.manifest import BundleManifest, engine_name


def accepted(
    manifests: Mapping[str, BundleManifest], engines: Sequence[str]
) -> dict[str, BundleManifest]:
    """The targets that these engines run."""
    return {name: each for name, each in manifests.items() if engine_name(each.target) in engines}


def check_engines(
    manifests: Mapping[str, BundleManifest], engines: Sequence[str], target: str | None
) -> Iterator[Finding]:
    """AOTC-E322, for a target that was named, and otherwise for all where there is no other."""
    left = accepted(manifests, engines)
    for name, manifest in manifests.items():
        if name not in left and (name == target or not left):
            yield finding(
                "AOTC-E322",
                f"{manifest.name} {manifest.version} for {name}",
                engine_name(manifest.target),
                expected=f"the engine {' or '.join(engines)}, as the trust policy says",
            )
