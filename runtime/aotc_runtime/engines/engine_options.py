"""The options of `load` for engines, and their errors."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.schema.bundle_manifest import engine_of
from aotc_runtime.schema.host_facts import PROCESSOR_DEVICES_MAX


def require_numbers(threads: int | None, devices: int | None, memory_limit: int | None) -> None:
    """Raise ResourceError (AOTC-E552, E555, E556) for numbers that are invalid."""
    if threads is not None and not _is_number(threads, 1):
        where, found, cause = "load threads", repr(threads)[:80], "thread-count-is-invalid"
        raise refusal("AOTC-E552", where, found, cause=cause, expected="an int of at least 1")
    if memory_limit is not None and not _is_number(memory_limit, 0):
        raise refusal("AOTC-E556", "load memory_limit", repr(memory_limit)[:80])
    if devices is not None and not (_is_number(devices, 1) and devices <= PROCESSOR_DEVICES_MAX):
        raise invalid_devices(devices)


def invalid_devices(found: object) -> AotcError:
    """Return the error (AOTC-E555) for a number of devices that no process can have."""
    cause, expected = "device-count-is-invalid", f"an int from 1 to {PROCESSOR_DEVICES_MAX}"
    return refusal("AOTC-E555", "load devices", repr(found)[:80], cause=cause, expected=expected)


def other_devices(started: int, devices: int) -> AotcError:
    """Return the error (AOTC-E555) for a number of devices other than the engine's."""
    return refusal("AOTC-E555", "load devices", str(devices), expected=str(started))


def _is_number(value: Any, least: int) -> bool:
    """Return whether a value is an integer of any type, numpy's included, of at least `least`."""
    return hasattr(value, "__index__") and not isinstance(value, bool) and value >= least


def no_engine(platform: str, group: str) -> AotcError:
    """Return the error (AOTC-E758) for a platform whose engine is not installed.

    `group` is the group of the engines' entry points.
    """
    found, expected = f"no entry point of {group}", f"the engine {engine_of(platform)}"
    return refusal("AOTC-E758", platform, found, cause="engine-is-not-installed", expected=expected)


def other_platform(platform: str, known: str) -> AotcError:
    """Return the error (AOTC-E758) for another platform than the only one that an engine has."""
    return refusal("AOTC-E758", platform, "", cause="unsupported-platform", expected=known)


def other_threads(engine: str, started: int, threads: int) -> AotcError:
    """Return the error (AOTC-E552) for a number of threads other than the engine's."""
    return refusal("AOTC-E552", f"load threads, {engine}", str(threads), expected=str(started))


def fork_error(engine: str, parent: int) -> AotcError:
    """Return the error (AOTC-E754) for a fork of the process where an engine was started."""
    where = f"process {os.getpid()}"
    return refusal("AOTC-E754", where, f"a fork of process {parent}, where {engine} was started")


def only_profiles(where: str, platform: str) -> AotcError:
    """Return the error (AOTC-E756) for a platform whose engine compiles nothing for calls."""
    return refusal("AOTC-E756", where, f"platform {platform}", cause="module-is-for-cpus-only")


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for as long as this lasts."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
