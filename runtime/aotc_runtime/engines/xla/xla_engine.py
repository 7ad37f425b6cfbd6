"""XLA as an engine.

It holds the process's processor, which other devices need too, and the platform that bundles run
on.
"""

import threading

from aotc_runtime.base.errors import refusal
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.engines.xla import xla_cpu_device as cpu
from aotc_runtime.engines.xla.xla_client import XlaDevice
from aotc_runtime.engines.xla.xla_cpu_device import Processor
from aotc_runtime.schema.host_facts import Accelerator, Machine
from aotc_runtime.system import host_probe

platforms = ("cuda", "tpu")
"""The platforms beside the processor's of which facts can be gathered."""

_processor: Processor | None = None
_serving: XlaDevice | None = None
_processor_lock = threading.Lock()
_serving_lock = threading.Lock()


def facts(platform: str) -> Accelerator | None:
    """Return the devices of an accelerator's platform, as their driver or the system says."""
    from aotc_runtime.engines.xla.xla_platforms import facts

    return facts(platform)


def machine(threads: int | None, devices: int | None) -> Machine | None:
    """Return the processor as XLA detects it; None without jaxlib.

    Raises what `processor` raises.
    """
    found = processor(threads, devices).machine() if host_probe.is_installed("jaxlib") else None
    if found is None or found.architecture == "x86_64":
        return found
    from aotc_runtime.system.cpu_features import describe_machine

    return describe_machine(found)


def start(platform: str, threads: int | None = None, devices: int | None = None) -> Device:
    """Return the devices that bundles of this platform run on, the only platform of the process.

    Raises BackendError (AOTC-E758) where there is no such device that XLA can use, or bundles of
    another platform run in the process; and what `processor` raises.
    """
    global _serving
    with _serving_lock:
        if _serving is None:
            started = processor(threads, devices)
            if platform != cpu.PLATFORM:
                from aotc_runtime.engines.xla.xla_platforms import open_accelerator

                _serving = open_accelerator(platform, started)
            else:
                _serving = started
    if _serving.platform != platform:
        cause = "another-platform-is-already-loaded"
        raise refusal("AOTC-E758", "load", platform, cause=cause, expected=_serving.platform)
    if platform == cpu.PLATFORM:
        return processor(threads, devices)
    _serving.require_unforked()
    return _serving


def processor(threads: int | None = None, devices: int | None = None) -> Processor:
    """Return this process' processor.

    `threads` is the size of XLA's pool, `devices` the number of devices to make of the processor.
    The first call decides both, since a process has one client.
    Raises BackendError: AOTC-E754 in a process forked after first use, E750 if XLA refuses the
    flags of the environment; ResourceError (AOTC-E552) for another number of threads than there
    are.
    """
    global _processor
    with _processor_lock:
        if _processor is None:
            _processor = Processor(threads, devices or 1)
        current = _processor
    if threads is not None and threads != current.threads:
        raise refusal("AOTC-E552", "load threads, XLA", str(threads), expected=str(current.threads))
    current.require_unforked()
    return current
