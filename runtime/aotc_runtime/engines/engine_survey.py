"""Facts about every installed engine, for commands without a bundle."""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from aotc_runtime.engines.engine_registry import GROUP, detect, find
from aotc_runtime.schema.bundle_manifest import XLA
from aotc_runtime.schema.host_facts import HostFacts


def detect_all(devices: int | None = None) -> HostFacts:
    """Return the facts of this process' host, with what every installed engine has here."""
    return detect(devices=devices, platforms=_every_platform())


def _every_platform() -> dict[str, Sequence[str]]:
    """Return the platforms of every engine that is installed, XLA first."""
    found = ((name, find(name)) for name in (XLA, *sorted(installed_engines() - {XLA})))
    return {name: engine.platforms for name, engine in found if engine is not None}


@cache
def installed_engines() -> frozenset[str]:
    """Return the names of the installed engines.

    It takes milliseconds; call it before forking.
    """
    return frozenset(point.name for point in entry_points(group=GROUP))
