"""Facts of GPUs by their driver, and of TPUs by the system, as bundles are compared with them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.engines.tpu.tpu_topologies import GENERATIONS
from aotc_runtime.base.errors import BackendError
from aotc_runtime.engines.engine_registry import accelerators
from aotc_runtime.engines.xla import cuda_facts as cuda
from aotc_runtime.engines.xla import tpu_facts as tpu
from aotc_runtime.engines.xla import xla_engine
from aotc_runtime.engines.xla.cuda_facts import Driver, Gpu
from aotc_runtime.engines.xla.tpu_facts import CHIPS, GIB, read_chips
from aotc_runtime.engines.xla.xla_cuda_device import CudaDevice
from aotc_runtime.engines.xla.xla_tpu_device import TpuDevice
from aotc_runtime.schema.host_facts import Accelerator
from tests.refusals import error_of

H200 = Gpu("NVIDIA H200", (9, 0), 150_000_000_000)
A100 = Gpu("NVIDIA A100-SXM4-80GB", (8, 0), 80_000_000_000)


def test_the_least_of_several_devices_counts() -> None:
    assert cuda.facts(Driver(13020, "580.82.07", (H200, A100, H200)), "0.12.0") == Accelerator(
        platform="cuda",
        devices=3,
        kinds=("NVIDIA A100-SXM4-80GB", "NVIDIA H200"),
        memory_bytes=80_000_000_000,
        plugin="0.12.0",
        compute_capability="8.0",
        driver="13.2",
        driver_release="580.82.07",
    )


@pytest.mark.parametrize(("number", "version"), [(13000, "13.0"), (12080, "12.8"), (11040, "11.4")])
def test_versions_of_cuda_are_read_from_its_numbers(number: int, version: str) -> None:
    assert cuda.facts(Driver(number, "", (H200,)), "").driver == version


def test_a_driver_without_devices_and_no_driver_are_no_devices() -> None:
    assert cuda.facts(None, "0.12.0") == Accelerator(platform="cuda", devices=0, plugin="0.12.0")
    idle = cuda.facts(Driver(13000, "580.1", ()), "")
    assert (idle.devices, idle.kinds, idle.compute_capability) == (0, (), "")
    assert idle.driver_release == "580.1"


class Cuda:
    """libcuda with two devices, as its functions answer; 0 is CUDA_SUCCESS."""

    NAMES = (b"NVIDIA H200", b"NVIDIA B200")

    def cuInit(self, _: int) -> int:
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 13010
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        device._obj.value = ordinal
        return 0

    def cuDeviceTotalMem_v2(self, total: Any, device: Any) -> int:
        total._obj.value = 1000 + device.value
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: Any) -> int:
        value._obj.value = {75: (9, 10), 76: (0, 3)}[attribute][device.value]
        return 0

    def cuDeviceGetName(self, buffer: Any, _: int, device: Any) -> int:
        buffer.value = self.NAMES[device.value]
        return 0

    def cuDeviceGetPCIBusId(self, buffer: Any, _: int, device: Any) -> int:
        buffer.value = b"0000:0%d:00.0" % device.value
        return 0


class Nvml:
    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlShutdown(self) -> int:
        return 0

    def nvmlSystemGetDriverVersion(self, buffer: Any, _: int) -> int:
        buffer.value = b"580.95.05"
        return 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, place: Any, handle: Any) -> int:
        handle._obj.value = 7 if place.value == b"0000:01:00.0" else 5
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        memory._obj.free = 100 * handle.value
        return 0


def libraries(**found: Any) -> Callable[[str], Any]:
    return lambda name: found.get(name.removeprefix("lib").partition(".")[0].replace("-", "_"))


def test_devices_are_those_of_libcuda_with_nvml_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_library", libraries(cuda=Cuda(), nvidia_ml=Nvml()))
    gpus = (Gpu("NVIDIA H200", (9, 0), 500), Gpu("NVIDIA B200", (10, 3), 700))
    assert cuda.read_driver() == Driver(13010, "580.95.05", gpus)


def test_without_nvml_all_memory_counts_as_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_library", libraries(cuda=Cuda()))
    driver = cuda.read_driver()
    assert driver is not None and driver.release == ""
    assert [gpu.free_bytes for gpu in driver.gpus] == [1000, 1001]


def test_a_driver_that_does_not_start_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Cuda):
        def cuInit(self, _: int) -> int:
            return 100  # CUDA_ERROR_NO_DEVICE

    monkeypatch.setattr(cuda, "_library", libraries(cuda=Broken()))
    assert cuda.read_driver() is None
    monkeypatch.setattr(cuda, "_library", libraries())
    assert cuda.read_driver() is None


def test_only_platforms_that_are_known_are_asked_about() -> None:
    assert xla_engine.facts("rocm") is None
    found = xla_engine.facts("cuda")
    assert found is not None and found.platform == "cuda"


@pytest.mark.parametrize("platform", ["rocm", "tpu"])
def test_unstartable_platform_is_refused(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla_engine, "_serving", None)
    library = "aotc_runtime.engines.xla.xla_tpu_device.library_of"
    monkeypatch.setattr(library, lambda *of: Path("/none/libtpu.so"))
    assert error_of(BackendError, xla_engine.start, platform).findings[0].code == "AOTC-E758"
    assert xla_engine._serving is None


def test_dlpack_is_told_that_arrays_are_on_a_gpu() -> None:
    assert CudaDevice.__new__(CudaDevice).features.dlpack_device() == (2, 0)


V5E, TPU7X = CHIPS["0x0063"], CHIPS["0x0076"]


def attach(folder: Path, place: str, vendor: str, number: str) -> None:
    (folder / place).mkdir()
    (folder / place / "vendor").write_text(f"{vendor}\n")
    (folder / place / "device").write_text(f"{number}\n")


def test_chips_are_found_among_the_devices_of_the_bus(tmp_path: Path) -> None:
    attach(tmp_path, "0000:00:01.0", "0x8086", "0x0063")
    attach(tmp_path, "0000:00:02.0", "0x1ae0", "0x0042")
    attach(tmp_path, "0000:00:04.0", "0x1ae0", "0x0063")
    attach(tmp_path, "0000:00:04.1", "0x1ae0", "0x0063")
    attach(tmp_path, "0000:00:05.0", "0x1ae0", "0x0063")
    (tmp_path / "0000:00:06.0").mkdir()
    assert read_chips(tmp_path) == [V5E, V5E]
    assert read_chips(tmp_path / "none") == []


def test_devices_are_counted_as_libtpu_shows_them() -> None:
    assert tpu.facts([V5E] * 4, "0.0.50", {}) == Accelerator(
        platform="tpu", devices=4, kinds=("TPU v5 lite",), memory_bytes=16 * GIB, plugin="0.0.50"
    )
    assert tpu.facts([TPU7X] * 4, "", {}).devices == 8
    assert tpu.facts([], "0.0.50", {}) == Accelerator(platform="tpu", devices=0, plugin="0.0.50")


@pytest.mark.parametrize("name", tpu.VISIBLE)
def test_a_process_that_may_use_some_has_those(name: str) -> None:
    assert tpu.facts([TPU7X] * 4, "", {name: "0,2"}).devices == 4
    assert tpu.facts([TPU7X] * 4, "", {name: ""}).devices == 8
    assert tpu.facts([TPU7X], "", {name: "0,1,2,3"}).devices == 2


def test_kinds_and_devices_are_those_that_targets_are_compiled_for() -> None:
    known = {generation.kind: generation.cores for generation in GENERATIONS.values()}
    assert all(known[chip.kind] == chip.devices for chip in CHIPS.values())


def test_a_host_is_asked_for_tpus_like_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpu, "read_chips", lambda _: [V5E])
    found = xla_engine.facts("tpu")
    assert found is not None and found.devices == 1
    assert "tpu" in [each.platform for each in accelerators({"xla": ("cuda", "tpu")})]


def test_arrays_on_a_tpu_have_no_dlpack() -> None:
    device = TpuDevice.__new__(TpuDevice)
    error_of(BufferError, device.features.dlpack_device)
    error_of(BufferError, device.features.to_dlpack, None)
