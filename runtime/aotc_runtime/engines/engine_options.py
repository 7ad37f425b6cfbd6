"""What a caller of `load` asks of engines, where it asks for anything, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.schema.bundle_manifest import engine_of
from aotc_runtime.schema.host_facts import PROCESSOR_DEVICES_MAX


def require_numbers(threads: int | None, devices: int | None, memory_limit: int | None) -> None:
    """Raises ResourceError: AOTC-E552, E555, E556 for anything else than a number that
    makes sense.
    """
    if threads is not None and not _is_number(threads, 1):
        hint = "pass a number, or leave it out for one thread per processor"
        raise _refused("AOTC-E552", "threads", "at least 1 thread, as an int", threads, hint)
    if memory_limit is not None and not _is_number(memory_limit, 0):
        hint = "pass a number of bytes, such as 2 * 2**30, or leave it out"
        raise _refused(
            "AOTC-E556", "memory_limit", "a number of bytes, as an int", memory_limit, hint
        )
    if devices is not None and not (_is_number(devices, 1) and devices <= PROCESSOR_DEVICES_MAX):
        raise refused_devices(f"1 to {PROCESSOR_DEVICES_MAX} devices, as an int", devices)


def refused_devices(expected: str, found: object) -> AotcError:
    """AOTC-E555 for the number of devices that `load` is asked for."""
    hint = "pass `devices` to the first load of the process, or leave it out"
    return refusal("AOTC-E555", "load devices", repr(found)[:80], expected=expected, hint=hint)


def _is_number(value: Any, least: int) -> bool:
    """Whether a value is an integer of any type, numpy's included, and not below `least`."""
    return hasattr(value, "__index__") and not isinstance(value, bool) and value >= least


def _refused(code: str, argument: str, expected: str, found: object, hint: str) -> AotcError:
    return refusal(code, f"load {argument}", repr(found)[:80], expected=expected, hint=hint)


def no_engine(platform: str, group: str) -> AotcError:
    """AOTC-E758 for a platform whose engine is not installed. group: of the entry points."""
    expected = f"the engine {engine_of(platform)}, which runs executables for {platform}"
    hint = f"install the package that brings it (an entry point of {group})"
    return refusal("AOTC-E758", platform, "none installed", expected=expected, hint=hint)


def other_platform(platform: str, known: str) -> AotcError:
    """AOTC-E758 for a platform of an engine that has the processor alone, under the known name."""
    found = "none that this runtime can start"
    expected = f"the platform {known}, which is this host's processor"
    hint = "update aotc-runtime, or load a bundle for processors"
    return refusal("AOTC-E758", platform, found, expected=expected, hint=hint)


def other_threads(engine: str, started: int, threads: int) -> AotcError:
    """AOTC-E552 for a number of threads with which an engine was not started."""
    found = f"{started}, with which {engine} was started in this process"
    expected = f"{threads} threads for {engine}"
    hint = "pass `threads` to the first load of the process"
    return refusal("AOTC-E552", "load", found, expected=expected, hint=hint)


def forked(engine: str, parent: int) -> AotcError:
    """AOTC-E754 for a fork of the process where an engine was started."""
    return refusal(
        "AOTC-E754",
        f"process {os.getpid()}",
        f"a fork of process {parent}, where {engine} was started; its threads are gone here",
    )


def only_profiles(where: str, platform: str) -> AotcError:
    """AOTC-E756 for a platform whose engine compiles nothing for calls."""
    found = "others: the bundled module is for processors"
    return refusal("AOTC-E756", where, found, expected=f"sizes of a profile, on {platform}")


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
