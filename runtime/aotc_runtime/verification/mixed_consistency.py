"""Whether the manifest of a target whose executables are of several engines agrees with itself."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.schema.bundle_manifest import (
    XLA,
    XLA_PLATFORMS,
    BundleManifest,
    engine_name,
    engine_of,
)


def check_mixed(manifest: BundleManifest, where: str) -> Iterator[Finding]:
    """Every contradiction about the engines of its executables (AOTC-E118)."""

    def wrong(place: str, expected: str, found: str) -> Finding:
        return finding("AOTC-E118", f"{where} {place}".rstrip(), found, expected=expected)

    target, others = manifest.target, manifest.requires.engines or {}
    if target.device is not UNSET or target.devices > 1 or manifest.mesh is not UNSET:
        yield wrong("target", "one processor, where engines are several", "other devices")
    if engine_name(target) == XLA and target.platform != "cpu":
        yield wrong("target", "a processor, where engines are several", target.platform)
    engines = [engine_of(platform) for platform in manifest.platforms]
    if len({*engines}) < len(engines):
        yield wrong("requires engines", "each engine once", ", ".join(engines))
    if not others:
        yield wrong("requires engines", "another engine than the target's", "none")
    for platform in sorted({*others} & {*XLA_PLATFORMS}):
        yield wrong("requires engines", "XLA as the target's own engine", platform)
    stated = {
        f"{name} profile {number}": profile
        for name, entry_point in manifest.entry_points.items()
        for number, profile in enumerate(entry_point.profiles)
    }
    for place, profile in stated.items():
        if profile.platform is not UNSET and profile.platform not in others:
            expected = f"one of {', '.join(others) or 'no other platforms'}, of requires.engines"
            yield wrong(place, expected, profile.platform)
        if profile.platform is not UNSET and profile.custom_call_targets:
            found = ", ".join(profile.custom_call_targets)
            yield wrong(place, f"no custom calls, which {profile.platform} lacks", found)
    used = {manifest.platform_of(profile) for profile in stated.values()}
    for platform in manifest.platforms:
        if platform not in used:
            yield wrong("requires", f"an executable for {platform}", "none")
