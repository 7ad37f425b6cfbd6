"""docs/trust.md 8 to 10 for accelerators: platform, device, driver, plugin and device memory."""

from __future__ import annotations

from collections.abc import Iterator

from aotc_runtime.errors import Finding, finding
from aotc_runtime.schema.devices import DeviceRequirements
from aotc_runtime.schema.facts import Accelerator, HostFacts
from aotc_runtime.schema.manifest import BundleManifest
from aotc_runtime.verification.compatibility import version_numbers


def accelerator(manifest: BundleManifest, host: HostFacts) -> Accelerator:
    """What the host has of the manifest's platform; one without devices if nothing."""
    platform = manifest.requires.platform
    found = (each for each in host.accelerators if each.platform == platform)
    return next(found, Accelerator(platform=platform, devices=0))


def device_findings(
    needs: DeviceRequirements, has: Accelerator, where: str, padding_bytes: int
) -> Iterator[Finding]:
    """Every reason why these devices, if there are any, cannot run what needs them."""
    if has.plugin not in needs.accepts_plugin:
        accepted = " or ".join(needs.accepts_plugin)
        yield finding(
            "AOTC-E403",
            where,
            f"{needs.plugin} {has.plugin}" if has.plugin else "none installed",
            expected=f"{needs.plugin} {accepted}",
            hint=f"`pip install {needs.plugin}=={needs.accepts_plugin[-1]}`"
            if needs.accepts_plugin
            else "rebuild with the plugin installed",
        )
    if not has.devices:
        return
    strange = sorted(set(has.kinds) - set(needs.kinds))
    if strange or not has.kinds:
        yield finding(
            "AOTC-E508", where, ", ".join(strange) or "unknown", expected=" or ".join(needs.kinds)
        )
    if needs.compute_capability and needs.compute_capability != has.compute_capability:
        yield finding(
            "AOTC-E508",
            where,
            has.compute_capability or "unknown",
            expected=f"devices of compute capability {needs.compute_capability}",
        )
    if needs.driver and version_numbers(has.driver) < version_numbers(needs.driver):
        yield finding(
            "AOTC-E509",
            where,
            f"{has.driver_release or 'one'} for CUDA {has.driver}"
            if has.driver
            else "no driver that says its version",
            expected=f"a driver for CUDA {needs.driver} or newer",
        )
    if has.memory_bytes < needs.memory_bytes + padding_bytes:
        yield finding(
            "AOTC-E554",
            where,
            f"{has.memory_bytes} bytes",
            expected=f"{needs.memory_bytes + padding_bytes} bytes of free memory on each device",
        )
