"""The platforms of XLA beside the processor's: each has a folder, imported when it is asked for."""

from __future__ import annotations

from aotc_runtime.engines.xla.client import XlaDevice
from aotc_runtime.engines.xla.cpu.device import Processor
from aotc_runtime.engines.xla.refusals import first_line, no_device
from aotc_runtime.schema.facts import Accelerator


def facts(platform: str) -> Accelerator | None:
    """The devices of a platform, as their driver or the system says; None for others."""
    match platform:
        case "cuda":
            from aotc_runtime.engines.xla.cuda import facts as cuda

            return cuda.detect()
        case "tpu":
            from aotc_runtime.engines.xla.tpu import facts as tpu

            return tpu.detect()
    return None


def accelerated(platform: str, started: Processor) -> XlaDevice:
    """The devices of a platform. started: the processor, without which no plugin runs."""
    try:
        match platform:
            case "cuda":
                from aotc_runtime.engines.xla.cuda.device import CudaDevice

                return CudaDevice()
            case "tpu":
                from aotc_runtime.engines.xla.tpu.device import TpuDevice

                return TpuDevice()
    except (OSError, started.error) as error:
        raise no_device(platform, first_line(error)) from error
    raise no_device(platform, "a platform that this runtime cannot start")
