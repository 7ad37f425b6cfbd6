"""The platforms of XLA beside the processor's, each imported when it is asked for."""

from aotc_runtime.base import first_line
from aotc_runtime.base.errors import refusal
from aotc_runtime.engines.xla.xla_client import XlaDevice
from aotc_runtime.engines.xla.xla_cpu_device import Processor
from aotc_runtime.schema.host_facts import Accelerator


def facts(platform: str) -> Accelerator | None:
    """Return the devices of a platform, as their driver or the system says; None for others."""
    match platform:
        case "cuda":
            from aotc_runtime.engines.xla import cuda_facts as cuda

            return cuda.detect()
        case "tpu":
            from aotc_runtime.engines.xla import tpu_facts as tpu

            return tpu.detect()
    return None


def open_accelerator(platform: str, started: Processor) -> XlaDevice:
    """Return the devices of a platform; no plugin runs without the processor, `started`."""
    try:
        match platform:
            case "cuda":
                from aotc_runtime.engines.xla.xla_cuda_device import CudaDevice

                return CudaDevice()
            case "tpu":
                from aotc_runtime.engines.xla.xla_tpu_device import TpuDevice

                return TpuDevice()
    except (OSError, started.error) as error:
        raise refusal("AOTC-E758", platform, first_line(error)) from error
    raise refusal("AOTC-E758", platform, "", cause="unsupported-platform")
