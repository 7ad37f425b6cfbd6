"""What a host has of IREE, told without importing it."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import numpy as np
import pytest

from aotc_runtime.engines.iree import elements, facts
from aotc_runtime.engines.iree.engine import facts as asked
from aotc_runtime.engines.iree.names import DRIVERS


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is looked into first."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "iree", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_without_the_package_there_is_nothing(packages: Path) -> None:
    assert facts.installed() == ""
    found = facts.detect()
    assert (found.platform, found.devices, found.plugin, found.kinds) == ("iree", 0, "", ())


def test_the_release_is_that_of_its_metadata(packages: Path) -> None:
    (packages / "iree").mkdir()
    assert facts.installed() == "", "another package of this name"
    (packages / "iree_base_compiler-9.9.9.dist-info").mkdir()
    assert facts.installed() == ""
    (packages / "iree_base_runtime-3.13.0.dist-info").mkdir()
    assert facts.installed() == "3.13.0"
    found = facts.detect()
    assert (found.devices, found.plugin, found.kinds) == (1, "3.13.0", DRIVERS)
    assert found.memory_bytes > 0
    assert "iree" not in sys.modules
    again = asked("iree")
    assert again is not None and again.plugin == "3.13.0"
    assert asked("iree-vulkan") is None


class Refusing(MetaPathFinder):
    """A finder that lets nobody look."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        raise ModuleNotFoundError(name)


def test_a_finder_that_refuses_it_hides_it(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    assert facts.installed() == ""


def test_types_are_told_in_the_words_of_a_modules_declaration() -> None:
    assert elements.tensor_word((4, 8), np.dtype("float32")) == "4x8xf32"
    assert elements.tensor_word((), np.dtype("uint8")) == "i8"
    assert elements.tensor_word((2,), np.dtype("complex128")) == "2xcomplex128"
    assert elements.element(np.dtype("complex128")) is None
