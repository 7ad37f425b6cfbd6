"""What is missing to compile for TPUs is named with the command that brings it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from aotc.engines.tpu import tpu_wheels


def install(folder: Path, name: str, version: str, *lines: str) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    text = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *lines, ""]
    (info / "METADATA").write_text("\n".join(text))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with a jax that was made for libtpu 0.0.50, and no others."""
    pin = 'Requires-Dist: libtpu==0.0.50.*; extra == "tpu"'
    install(tmp_path, "jax", "0.12.0.1", 'Requires-Dist: requests; extra == "tpu"', pin)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def install_libtpu(site: Path, version: str) -> Path:
    install(site, "libtpu", version)
    (site / "libtpu").mkdir()
    library = site / "libtpu" / "libtpu.so"
    library.touch()
    return library


@pytest.mark.parametrize("version", ["0.0.50", "0.0.50.1"])
def test_the_release_that_jax_names_is_found(site: Path, version: str) -> None:
    library = install_libtpu(site, version)
    assert tpu_wheels.find() == (library, version, [])


@pytest.mark.parametrize("version", ["0.0.48", "0.0.5", "0.0.500", "0.0.51"])
def test_another_release_is_refused_with_the_one_that_jax_names(site: Path, version: str) -> None:
    install_libtpu(site, version)
    library, _, (finding,) = tpu_wheels.find()
    assert library is None
    assert (finding.code, finding.where, finding.found) == ("AOTC-E907", "libtpu", version)
    assert finding.expected == "libtpu 0.0.50, for jax 0.12.0.1"
    assert finding.hint == "`pip install libtpu==0.0.50`"


@pytest.mark.usefixtures("site")
def test_none_is_refused_with_the_extra() -> None:
    library, _, (finding,) = tpu_wheels.find()
    assert library is None
    assert (finding.code, finding.found) == ("AOTC-E907", "it is not installed")
    assert "'.[tpu]'" in finding.hint


def test_one_whose_library_is_gone_is_refused(site: Path) -> None:
    install_libtpu(site, "0.0.50").unlink()
    library, _, (finding,) = tpu_wheels.find()
    assert library is None
    assert finding.found == "no libtpu.so in it"
    assert "--force-reinstall libtpu==0.0.50" in finding.hint
