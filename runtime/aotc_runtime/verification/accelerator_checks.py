"""docs/trust.md 8 to 10 for accelerators: platform, device, driver, plugin and device memory."""

from __future__ import annotations

from collections.abc import Iterator

from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import DeviceRequirements
from aotc_runtime.schema.host_facts import Accelerator, HostFacts, version_numbers


def accelerator(platform: str, host: HostFacts) -> Accelerator:
    """What the host has of a platform; one without devices if nothing."""
    found = (each for each in host.accelerators if each.platform == platform)
    return next(found, Accelerator(platform=platform, devices=0))


def device_findings(
    needs: DeviceRequirements, has: Accelerator, where: str, padding_bytes: int
) -> Iterator[Finding]:
    """Every reason why these devices, if there are any, cannot run what needs them."""
    if has.plugin not in needs.accepts_plugin:
        accepted = " or ".join(needs.accepts_plugin)
        yield Finding(
            code="AOTC-E403",
            where=where,
            expected=f"{needs.plugin} {accepted}",
            found=f"{needs.plugin} {has.plugin}" if has.plugin else "none installed",
            hint=f"`pip install {needs.plugin}=={needs.accepts_plugin[-1]}`"
            if needs.accepts_plugin
            else "rebuild with the plugin installed",
        )
    if not has.devices:
        return
    strange = sorted(set(has.kinds) - set(needs.kinds))
    if strange or not has.kinds:
        yield Finding(
            code="AOTC-E508",
            where=where,
            expected=" or ".join(needs.kinds),
            found=", ".join(strange) or "unknown",
            hint="add a target for these devices and build again, or run on the expected ones",
        )
    if needs.compute_capability and needs.compute_capability != has.compute_capability:
        yield Finding(
            code="AOTC-E508",
            where=where,
            expected=f"devices of compute capability {needs.compute_capability}",
            found=has.compute_capability or "unknown",
            hint="add a target for these devices and build again, or run on the expected ones",
        )
    if needs.driver and version_numbers(has.driver) < version_numbers(needs.driver):
        yield Finding(
            code="AOTC-E509",
            where=where,
            expected=f"a driver for CUDA {needs.driver} or newer",
            found=f"{has.driver_release or 'one'} for CUDA {has.driver}"
            if has.driver
            else "no driver that says its version",
            hint="update the driver, or build with a plugin for its CUDA version",
        )
    if has.memory_bytes < needs.memory_bytes + padding_bytes:
        yield Finding(
            code="AOTC-E554",
            where=where,
            expected=f"{needs.memory_bytes + padding_bytes} bytes of free memory on each device",
            found=f"{has.memory_bytes} bytes",
            hint="free device memory, or build smaller profiles",
        )
