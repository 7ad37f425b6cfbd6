"""What this host is: the system and the engines are asked."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from aotc_runtime.engines import registry
from aotc_runtime.schema.engine import XLA, engine_name
from aotc_runtime.schema.facts import NOT_INSTALLED, Accelerator, HostFacts
from aotc_runtime.system import host, processor


def detect(
    memory_limit: int | None = None,
    devices: int | None = None,
    platforms: Collection[str] = (),
    engines: Collection[str] = (XLA,),
) -> HostFacts:
    """The facts of this process' host.

    Of the processor jaxlib is asked where it is installed, since its compiler decides what it calls
    a feature; without it the system is, which is enough to verify bundles. Starts XLA on the
    processor if it is installed; raises what `xla.engine`'s `processor` raises, and before jaxlib
    is touched IncompatibleHostError (AOTC-E506) where it cannot run.

    memory_limit: bytes that a bundle may need; without it, what this process may still allocate.
    devices: how many a bundle wants to run on here, if one does; there are then as many as XLA was
    started with, now or before.  platforms: those beside the processor's whose devices are looked
    for.  engines: that a bundle needs; without XLA among them, jaxlib is left alone.
    """
    found = accelerators(platforms)
    if XLA not in engines or not host.is_installed("jaxlib"):
        return host.facts(host.machine(), NOT_INSTALLED, devices or 1, memory_limit, found)
    processor.require()
    # It imports numpy, which dies of SIGILL on processors that the line above refuses.
    from aotc_runtime.engines.xla import engine

    device = engine.processor(devices=devices)
    triple, cpu, features = device.machine()
    machine = host.Machine(triple.partition("-")[0], cpu, features, device.kind)
    facts = host.facts(machine, device.jaxlib, device.device_count, memory_limit, found)
    return facts if devices is None else replace(facts, devices_fixed=True)


def accelerator(platform: str) -> Accelerator | None:
    """The devices of a platform that this process may use. Without devices where there are none;
    None for a platform that no engine knows. May start the driver of these devices.
    """
    engine = registry.find(engine_name(platform))
    return None if engine is None else engine.facts(platform)


def accelerators(platforms: Collection[str]) -> tuple[Accelerator, ...]:
    """The devices of each of these platforms of which there is a device or a plugin."""
    found = (accelerator(platform) for platform in platforms)
    return tuple(each for each in found if each and (each.devices or each.plugin))


def detect_all(devices: int | None = None) -> HostFacts:
    """The facts of this process' host, with what every installed engine has here."""
    every = [platform for engine in registry.engines() for platform in engine.platforms]
    return detect(devices=devices, platforms=every)
