"""The packages that run a target's executables, with the versions that it accepts by itself."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from aotc_runtime.schema.bundle_manifest import XLA, BundleManifest, engine_of
from aotc_runtime.schema.certified_releases import JAXLIB


def accepted_versions(manifest: BundleManifest) -> Mapping[str, tuple[str, ...]]:
    """By package, one for each engine of the target."""
    requires = manifest.requires
    needs = {requires.platform: requires.device, **(requires.engines or {})}
    found: dict[str, tuple[str, ...]] = {}
    for platform, device in needs.items():
        if engine_of(platform) == XLA or device is UNSET:
            found[JAXLIB] = manifest.accepts_jaxlib
        else:
            found[device.plugin] = device.accepts_plugin
    return found
