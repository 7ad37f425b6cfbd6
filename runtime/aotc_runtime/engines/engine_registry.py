"""The engines of this host, and its facts.

XLA is built in; others are found by the entry-point group `aotc_runtime.engines`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from aotc_runtime.engines.engine_device import Device
from aotc_runtime.schema.bundle_manifest import XLA, engine_of
from aotc_runtime.schema.host_facts import PROCESSOR_DEVICES_MAX, Accelerator, HostFacts, Wanted
from aotc_runtime.system import host_probe, processor_check

if TYPE_CHECKING:
    from aotc_runtime.engines.engine_protocol import Engine

GROUP = "aotc_runtime.engines"

_PROCESSOR: Mapping[str, Collection[str]] = {XLA: ()}


@cache
def find(name: str) -> Engine | None:
    """Return an engine by its name; None if no distribution brings it."""
    if name == XLA:
        # It imports numpy, which dies of SIGILL on processors that this refuses. What
        # importlib.metadata would find costs milliseconds of every load.
        processor_check.require()
        from aotc_runtime.engines.xla import xla_engine as xla

        return xla
    if name in ("iree", "onnxruntime", "openvino"):
        engine: Engine = import_module(f"aotc_runtime.engines.{name}.{name}_engine")
        return engine
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        found: Engine = point.load()
        return found
    return None


def start(platform: str, threads: int | None = None, devices: int | None = None) -> Device:
    """Return the devices that executables for a platform run on in this process.

    Raises BackendError (AOTC-E758) where no engine for it is installed, and what `Engine.start`
    raises.
    """
    engine = find(engine_of(platform))
    if engine is None:
        from aotc_runtime.engines.engine_options import no_engine

        raise no_engine(platform, GROUP)
    return engine.start(platform, threads, devices)


def prepare(
    wanted: Wanted, threads: int | None, devices: int | None, memory_limit: int | None
) -> HostFacts:
    """Return the facts of this host for a trusted bundle.

    Engines that describe the processor are started first. `wanted` is what the bundle needs; the
    others are arguments of `load`. Raises what `detect` raises, and ResourceError (AOTC-E555) for
    more devices than exist.
    """
    count = wanted.devices if devices is None else devices
    if count > PROCESSOR_DEVICES_MAX:
        from aotc_runtime.engines.engine_options import invalid_devices

        raise invalid_devices(count)
    facts = detect(memory_limit, count, wanted.platforms, threads)
    if devices is not None and facts.devices < devices:
        from aotc_runtime.engines.engine_options import other_devices

        raise other_devices(facts.devices, devices)
    return facts


def detect(
    memory_limit: int | None = None,
    devices: int | None = None,
    platforms: Mapping[str, Collection[str]] = _PROCESSOR,
    threads: int | None = None,
) -> HostFacts:
    """Return the facts of this process' host.

    An engine describes the processor if its compiler decides what a feature is; otherwise the
    system does, which is enough to verify bundles. Starts XLA on the processor if it is installed
    and asked; raises what its start raises, and before jaxlib is touched IncompatibleHostError
    (AOTC-E506) where it cannot run.

    Args:
        memory_limit: Bytes that a bundle may need; by default what this process may still allocate.
        devices: The number of devices that a bundle wants, if one does; there are then as many as
            the processor was divided into, now or before.
        platforms: Platforms of accelerators to detect, by engine; no other engine is asked.
        threads: The number of threads of the engine that is started.
    """
    found = accelerators(platforms)
    for name in sorted(platforms, key=lambda name: (name != XLA, name)):
        engine = find(name)
        machine = engine.machine(threads, devices) if engine is not None else None
        if machine is not None:
            return host_probe.facts(machine, devices, memory_limit, found)
    from aotc_runtime.system import cpu_features

    return host_probe.facts(cpu_features.machine(), devices, memory_limit, found)


def accelerators(platforms: Mapping[str, Collection[str]]) -> tuple[Accelerator, ...]:
    """Return the devices of these platforms with a device or a plugin.

    This may start the driver of these devices.
    """
    found = (
        engine.facts(platform)
        for name, known in platforms.items()
        if known and (engine := find(name)) is not None
        for platform in known
    )
    return tuple(each for each in found if each and (each.devices or each.plugin))
