"""docs/trust.md 7: the engines whose code a policy accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.schema.bundle_manifest import BundleManifest, engine_of


def accepted(
    manifests: Mapping[str, BundleManifest], engines: Sequence[str]
) -> dict[str, BundleManifest]:
    """The targets of which these engines run every executable."""
    return {name: each for name, each in manifests.items() if not _others(each, engines)}


def _others(manifest: BundleManifest, engines: Sequence[str]) -> list[str]:
    """Engines of a target beside these."""
    return [each for each in map(engine_of, manifest.platforms) if each not in engines]


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
                " and ".join(_others(manifest, engines)),
                expected=f"the engine {' or '.join(engines)}, as the trust policy says",
            )
