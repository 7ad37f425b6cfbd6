"""NVIDIA GPUs of this host, as their driver describes them: asked only for bundles that need some.

From the driver's own libraries, libcuda.so.1 (CUDA driver API) and libnvidia-ml.so.1 (NVML), which
come with the driver and with nothing else. Which devices there are is for CUDA_VISIBLE_DEVICES to
say, as libcuda reads it. No context is made, and nothing is allocated on a device.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from aotc_runtime.engines.xla.xla_accelerator import version_of
from aotc_runtime.schema.host_facts import Accelerator

PLATFORM = "cuda"
PLUGIN = "jax-cuda13-pjrt"

CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR in cuda.h."""

NAME_BYTES = 96


class Gpu(Struct, frozen=True):
    """A GPU: compute capability (major, minor), and free memory.

    `free_bytes` is all of its memory if NVML gives no free memory.
    """

    name: str
    capability: tuple[int, int]
    free_bytes: int


class Driver(Struct, frozen=True):
    """The driver's versions.

    `cuda` is the supported CUDA version, as cuDriverGetVersion gives it (13000 for 13.0). `release`
    is its own version, "" if NVML gives none.
    """

    cuda: int
    release: str
    gpus: tuple[Gpu, ...]


def detect() -> Accelerator:
    """Return the GPUs that this process may use; without devices where there is no driver."""
    return facts(read_driver(), version_of(PLUGIN))


def facts(driver: Driver | None, plugin: str) -> Accelerator:
    """Return the host's GPUs; `driver` is None if none is installed."""
    if driver is None:
        return Accelerator(platform=PLATFORM, devices=0, plugin=plugin)
    capability = min((gpu.capability for gpu in driver.gpus), default=None)
    return Accelerator(
        platform=PLATFORM,
        devices=len(driver.gpus),
        kinds=tuple(sorted({gpu.name for gpu in driver.gpus})),
        memory_bytes=min((gpu.free_bytes for gpu in driver.gpus), default=0),
        plugin=plugin,
        compute_capability="" if capability is None else "{}.{}".format(*capability),
        driver=f"{driver.cuda // 1000}.{driver.cuda % 1000 // 10}",
        driver_release=driver.release,
    )


def read_driver() -> Driver | None:
    """Ask libcuda and NVML; None without a driver that starts."""
    cuda = _library("libcuda.so.1")
    if cuda is None or cuda.cuInit(0) != 0:
        return None
    nvml = _library("libnvidia-ml.so.1")
    if nvml is not None and nvml.nvmlInit_v2() != 0:
        nvml = None
    supported, count = ctypes.c_int(), ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(supported)) != 0:
        return None
    if cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return None
    try:
        gpus = [_gpu(cuda, nvml, ordinal) for ordinal in range(count.value)]
        release = "" if nvml is None else _text(nvml.nvmlSystemGetDriverVersion, ())
    finally:
        if nvml is not None:
            nvml.nvmlShutdown()
    return Driver(supported.value, release, tuple(gpu for gpu in gpus if gpu is not None))


def _library(name: str) -> Any:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _gpu(cuda: Any, nvml: Any, ordinal: int) -> Gpu | None:
    device, total = ctypes.c_int(), ctypes.c_size_t()
    if cuda.cuDeviceGet(ctypes.byref(device), ordinal) != 0:
        return None
    if cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device) != 0:
        return None
    capability = [ctypes.c_int(), ctypes.c_int()]
    for value, attribute in zip(capability, (CAPABILITY_MAJOR, CAPABILITY_MINOR), strict=True):
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) != 0:
            return None
    buffer = ctypes.create_string_buffer(NAME_BYTES)
    if cuda.cuDeviceGetName(buffer, NAME_BYTES, device) != 0:
        return None
    major, minor = (value.value for value in capability)
    free = _free_bytes(cuda, nvml, device)
    return Gpu(_decode(buffer), (major, minor), total.value if free is None else free)


class _NvmlMemory(ctypes.Structure):
    """`nvmlMemory_t`, bytes."""

    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


def _free_bytes(cuda: Any, nvml: Any, device: ctypes.c_int) -> int | None:
    """NVML numbers devices in another way; both know them by their place on the bus."""
    if nvml is None:
        return None
    place = ctypes.create_string_buffer(NAME_BYTES)
    if cuda.cuDeviceGetPCIBusId(place, NAME_BYTES, device) != 0:
        return None
    handle, memory = ctypes.c_void_p(), _NvmlMemory()
    if nvml.nvmlDeviceGetHandleByPciBusId_v2(place, ctypes.byref(handle)) != 0:
        return None
    if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
        return None
    return int(memory.free)


def _text(ask: Callable[..., int], before: Sequence[Any]) -> str:
    buffer = ctypes.create_string_buffer(NAME_BYTES)
    return "" if ask(*before, buffer, NAME_BYTES) != 0 else _decode(buffer)


def _decode(buffer: Any) -> str:
    return bytes(buffer.value).decode("utf-8", errors="replace")
