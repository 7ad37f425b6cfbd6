"""What the system lists of TPUs, as the facts that bundles are compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotc.engines.tpu.tpu_topologies import GENERATIONS
from aotc_runtime.base.errors import BackendError
from aotc_runtime.engines.engine_registry import accelerators
from aotc_runtime.engines.xla import tpu_facts as tpu
from aotc_runtime.engines.xla import xla_engine
from aotc_runtime.engines.xla.tpu_facts import CHIPS, GIB, facts, read_chips
from aotc_runtime.engines.xla.xla_tpu_device import TpuDevice
from aotc_runtime.schema.host_facts import Accelerator

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
    assert facts([V5E] * 4, "0.0.50", {}) == Accelerator(
        platform="tpu", devices=4, kinds=("TPU v5 lite",), memory_bytes=16 * GIB, plugin="0.0.50"
    )
    assert facts([TPU7X] * 4, "", {}).devices == 8
    assert facts([], "0.0.50", {}) == Accelerator(platform="tpu", devices=0, plugin="0.0.50")


@pytest.mark.parametrize("name", tpu.VISIBLE)
def test_a_process_that_may_use_some_has_those(name: str) -> None:
    assert facts([TPU7X] * 4, "", {name: "0,2"}).devices == 4
    assert facts([TPU7X] * 4, "", {name: ""}).devices == 8
    assert facts([TPU7X], "", {name: "0,1,2,3"}).devices == 2


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
    with pytest.raises(BufferError):
        device.dlpack_device()
    with pytest.raises(BufferError):
        device.to_dlpack(None)


def test_a_bundle_for_tpus_is_refused_where_xla_finds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla_engine, "_serving", None)
    monkeypatch.setattr(
        "aotc_runtime.engines.xla.xla_tpu_device.library_of",
        lambda *of: Path("/none/libtpu.so"),
    )
    with pytest.raises(BackendError) as caught:
        xla_engine.start("tpu")
    assert caught.value.findings[0].code == "AOTC-E758"
    assert xla_engine._serving is None
