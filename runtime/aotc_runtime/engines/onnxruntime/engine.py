"""ONNX Runtime as an engine (`aotc_runtime.engines.protocol.Engine`): the processor, in this
process.
"""

from __future__ import annotations

import os
import threading

from aotc_runtime.engines.asked import other_platform, other_threads
from aotc_runtime.engines.device import Device
from aotc_runtime.engines.onnxruntime.device import OnnxDevice
from aotc_runtime.engines.onnxruntime.names import ENGINE, RUNTIME
from aotc_runtime.errors import refusal
from aotc_runtime.schema.facts import Accelerator

platforms = (ENGINE,)

_device: OnnxDevice | None = None
_lock = threading.Lock()


def facts(platform: str) -> Accelerator | None:
    """The processor as ONNX Runtime runs on it; None for other platforms of that name."""
    if platform != ENGINE:
        return None
    from aotc_runtime.engines.onnxruntime.facts import detect

    return detect()


def machine(threads: int | None, devices: int | None) -> None:
    """The system knows the processor as well."""


def start(platform: str, threads: int | None = None, devices: int | None = None) -> Device:
    """The processor, started with so many threads by the first who asks.

    Raises BackendError: AOTC-E758 where ONNX Runtime is missing or of an unknown kind, E754 in a
    process forked after the first use; ResourceError (AOTC-E552) for another number of threads.
    """
    global _device
    if platform != ENGINE:
        raise other_platform(platform, ENGINE)
    with _lock:
        if _device is None:
            _device = _started(threads)
    if threads is not None and threads != _device.threads:
        raise other_threads(_device, threads)
    _device.require_unforked()
    return _device


def _started(threads: int | None) -> OnnxDevice:
    try:
        import onnxruntime
    except ImportError as error:
        raise refusal(
            "AOTC-E758",
            ENGINE,
            f"{RUNTIME} cannot be imported: {error}",
            expected="ONNX Runtime",
            hint=f"`pip install {RUNTIME}`, or the extra `{RUNTIME}` of aotc-runtime",
        ) from error
    return OnnxDevice(onnxruntime, threads or len(os.sched_getaffinity(0)))
