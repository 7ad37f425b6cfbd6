"""IREE as an engine (`aotc_runtime.engines.protocol.Engine`): the processor, in this process."""

from __future__ import annotations

import os
import threading

from aotc_runtime.engines.asked import other_platform, other_threads
from aotc_runtime.engines.device import Device
from aotc_runtime.engines.iree.device import IreeDevice
from aotc_runtime.engines.iree.names import IREE, RUNTIME
from aotc_runtime.errors import refusal
from aotc_runtime.schema.facts import Accelerator

platforms = (IREE,)

_device: IreeDevice | None = None
_lock = threading.Lock()


def facts(platform: str) -> Accelerator | None:
    """The processor as IREE's drivers run it; None for IREE's other platforms."""
    if platform != IREE:
        return None
    from aotc_runtime.engines.iree.facts import detect

    return detect()


def machine(threads: int | None, devices: int | None) -> None:
    """The system knows the processor as well."""


def start(platform: str, threads: int | None = None, devices: int | None = None) -> Device:
    """The processor, started with so many threads by the first who asks.

    Raises BackendError: AOTC-E758 where IREE's runtime is missing or of an unknown kind, E754 in a
    process forked after the first use; ResourceError (AOTC-E552) for another number of threads.
    """
    global _device
    if platform != IREE:
        raise other_platform(platform, IREE)
    with _lock:
        if _device is None:
            _device = _started(threads)
    if threads is not None and threads != _device.threads:
        raise other_threads(_device, threads)
    _device.require_unforked()
    return _device


def _started(threads: int | None) -> IreeDevice:
    try:
        from iree._runtime_libs import _runtime
    except ImportError as error:
        raise refusal(
            "AOTC-E758",
            IREE,
            f"{RUNTIME} cannot be imported: {error}",
            expected="IREE's runtime",
            hint=f"`pip install {RUNTIME}`, or the extra `iree` of aotc-runtime",
        ) from error
    return IreeDevice(_runtime, threads or len(os.sched_getaffinity(0)))
