"""Version of an engine's library, told without importing it, and this host's processor."""

import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from aotc_runtime.base.errors import BackendError
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.engines.iree import iree_engine as iree
from aotc_runtime.engines.processor_engine import Library, ProcessorEngine
from aotc_runtime.engines.xla.xla_cpu_device import target_machine

from ..samples import refused

LIBRARY = Library("abacus", "abacus-base-runtime", "beads", "the abacus")


class Abacus(Device):
    """A device that is started, and no more."""

    platform, engine = "abacus", "Abacus"

    def __init__(self, threads: int) -> None:
        self.threads = threads


Abacus.__abstractmethods__ = frozenset()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is looked into first."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def engine() -> ProcessorEngine:
    return ProcessorEngine("abacus", LIBRARY, ("beads",), Abacus)


def test_without_the_package_there_is_nothing(packages: Path) -> None:
    assert LIBRARY.installed_version() == ""
    found = engine().facts("abacus")
    assert found is not None
    assert (found.platform, found.devices, found.plugin, found.kinds) == ("abacus", 0, "", ())


def test_the_release_is_that_of_its_metadata(packages: Path) -> None:
    (packages / "abacus").mkdir()
    assert LIBRARY.installed_version() == "", "another package of this name"
    (packages / "abacus_base_compiler-9.9.9.dist-info").mkdir()
    assert LIBRARY.installed_version() == ""
    (packages / "abacus_base_runtime-3.13.0.dist-info").mkdir()
    found = engine().facts("abacus")
    assert found is not None
    assert (found.devices, found.plugin, found.kinds) == (1, "3.13.0", ("beads",))
    assert found.memory_bytes > 0
    assert "abacus" not in sys.modules


def test_other_platforms_of_an_engine_are_not_known() -> None:
    assert iree.facts("iree-vulkan") is None
    with refused("AOTC-E758"):
        engine().start("abacus-usb")


class Refusing(MetaPathFinder):
    """A finder that lets nobody look."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        raise ModuleNotFoundError(name)


def test_a_finder_that_refuses_it_hides_it(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (packages / "abacus").mkdir()
    (packages / "abacus_base_runtime-3.13.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    assert LIBRARY.installed_version() == ""


def test_there_is_one_device_with_the_threads_that_the_first_asked_for() -> None:
    one = engine()
    first = one.start("abacus", 3)
    assert one.start("abacus") is first and first.threads == 3
    with refused("AOTC-E552"):
        one.start("abacus", 2)


def test_a_library_that_cannot_be_imported_is_told_with_what_installs_it() -> None:
    def absent(threads: int) -> Device:
        raise ModuleNotFoundError("No module named 'abacus'")

    with pytest.raises(BackendError) as caught:
        ProcessorEngine("abacus", LIBRARY, ("beads",), absent).start("abacus")
    finding = caught.value.findings[0]
    assert finding.code == "AOTC-E758"
    assert "pip install abacus-base-runtime" in finding.hint


def message(*fields: tuple[int, bytes]) -> bytes:
    """A protobuf message of texts, each shorter than 128 bytes."""
    return b"".join(bytes([8 * key + 2, len(text)]) + text for key, text in fields)


@pytest.mark.parametrize("cpu", ["rocketlake", "znver4", "sapphirerapids"])
def test_target_machine_takes_a_name_of_any_length(cpu: str) -> None:
    fields = (1, b"x86_64-unknown-linux-gnu"), (2, cpu.encode()), (3, b"+avx,-sse4a")
    found = target_machine(b"\x12\x00\x2a\x7f" + message(*fields))
    assert found == ("x86_64-unknown-linux-gnu", cpu, "+avx,-sse4a")
