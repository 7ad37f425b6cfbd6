"""The engines of this host: XLA is found by itself, others by the Python entry-point group
`aotc_runtime.engines`; they and the system are asked what this host is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from aotc_runtime.engines.device import Device
from aotc_runtime.errors import refusal
from aotc_runtime.schema.devices import XLA, engine_name
from aotc_runtime.schema.facts import NOT_INSTALLED, Accelerator, HostFacts
from aotc_runtime.system import host, processor

if TYPE_CHECKING:
    from aotc_runtime.engines.protocol import Engine

GROUP = "aotc_runtime.engines"


@cache
def find(name: str) -> Engine | None:
    """An engine by its name; None if no distribution brings it."""
    if name == XLA:
        # What importlib.metadata would find costs milliseconds of every load.
        from aotc_runtime.engines.xla import engine as xla

        return xla
    from importlib.metadata import entry_points

    points = [*entry_points(group=GROUP, name=name)]
    if not points:
        return None
    engine: Engine = points[0].load()
    return engine


def engines() -> Iterator[Engine]:
    """Every engine that is installed, XLA first."""
    from importlib.metadata import entry_points

    names = {point.name for point in entry_points(group=GROUP)} - {XLA}
    for name in (XLA, *sorted(names)):
        if (engine := find(name)) is not None:
            yield engine


def start(platform: str, threads: int | None = None, devices: int | None = None) -> Device:
    """The devices that bundles of a platform run on in this process.

    Raises BackendError (AOTC-E758) where no engine for it is installed, and what `Engine.start`
    raises.
    """
    name = engine_name(platform)
    engine = find(name)
    if engine is None:
        raise refusal(
            "AOTC-E758",
            platform,
            "none installed",
            expected=f"the engine {name}, which runs executables for {platform}",
            hint=f"install the package that brings it (an entry point of {GROUP})",
        )
    return engine.start(platform, threads, devices)


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
    engine = find(engine_name(platform))
    return None if engine is None else engine.facts(platform)


def accelerators(platforms: Collection[str]) -> tuple[Accelerator, ...]:
    """The devices of each of these platforms of which there is a device or a plugin."""
    found = (accelerator(platform) for platform in platforms)
    return tuple(each for each in found if each and (each.devices or each.plugin))


def detect_all(devices: int | None = None) -> HostFacts:
    """The facts of this process' host, with what every installed engine has here."""
    every = [platform for engine in engines() for platform in engine.platforms]
    return detect(devices=devices, platforms=every)
