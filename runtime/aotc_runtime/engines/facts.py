"""What this host has beside its processor: engines are asked, none is started."""

from __future__ import annotations

from msgspec.structs import replace

from aotc_runtime.engines import registry
from aotc_runtime.schema.engine import engine_name
from aotc_runtime.schema.facts import Accelerator, HostFacts
from aotc_runtime.system import host


def accelerator(platform: str) -> Accelerator | None:
    """The devices of a platform that this process may use. Without devices where there are none;
    None for a platform that no engine knows. May start the driver of these devices.
    """
    engine = registry.find(engine_name(platform))
    return None if engine is None else engine.facts(platform)


def accelerators() -> tuple[Accelerator, ...]:
    """Those of every platform of which there is a device or a plugin."""
    found = (
        engine.facts(platform) for engine in registry.engines() for platform in engine.platforms
    )
    return tuple(each for each in found if each and (each.devices or each.plugin))


def detect_all(devices: int | None = None) -> HostFacts:
    """As `host.detect`, with what there is beside the processor."""
    return replace(host.detect(devices=devices), accelerators=accelerators())
