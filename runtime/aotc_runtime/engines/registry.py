"""Finds engines: XLA by itself, others by the Python entry-point group `aotc_runtime.engines`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import cast

from aotc_runtime.engines.protocol import Device, Engine
from aotc_runtime.errors import refusal
from aotc_runtime.schema.engine import XLA, engine_name

GROUP = "aotc_runtime.engines"


@cache
def find(name: str) -> Engine | None:
    """An engine by its name; None if no distribution brings it."""
    if name == XLA:
        # What importlib.metadata would find costs milliseconds of every load.
        from aotc_runtime.engines.xla import engine

        return engine
    from importlib.metadata import entry_points

    points = [*entry_points(group=GROUP, name=name)]
    return cast(Engine, points[0].load()) if points else None


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
