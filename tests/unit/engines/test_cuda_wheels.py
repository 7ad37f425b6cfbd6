"""What is missing to compile for CUDA devices is named with the command that brings it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from aotc.engines.cuda import cuda_wheels

FILES = {
    cuda_wheels.PLUGIN: "jax_plugins/xla_cuda13/xla_cuda_plugin.so",
    cuda_wheels.KERNELS: "jax_cuda13_plugin/cuda_plugin_extension.so",
    cuda_wheels.ASSEMBLER: "nvidia/cu13/bin/ptxas",
    cuda_wheels.LIBRARY: "nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
}


EVERY = {**FILES, cuda_wheels.UNPACKER: None}


def install(folder: Path, name: str, version: str, file: str | None) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text(f"{file or 'other.txt'},,\n")
    if file:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, and no others."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_what_is_there_is_found_with_its_versions(site: Path) -> None:
    for name, file in FILES.items():
        install(site, name, "0.12.0" if name.startswith("jax") else "13.5.37", file)
    install(site, cuda_wheels.UNPACKER, "2.14.0", None)
    found, findings = cuda_wheels.find("0.12.0")
    assert findings == [] and found is not None
    assert found.plugin == site / FILES[cuda_wheels.PLUGIN]
    assert found.versions == {
        "jax-cuda13-pjrt": "0.12.0",
        "jax-cuda13-plugin": "0.12.0",
        "nvidia-cuda-nvcc": "13.5.37",
        "nvidia-nvvm": "13.5.37",
    }
    install(site, cuda_wheels.LINKER, "13.1.0", None)
    linking, _ = cuda_wheels.find("0.12.0")
    assert linking is not None and linking.versions[cuda_wheels.LINKER] == "13.1.0"


@pytest.mark.usefixtures("site")
def test_without_any_all_are_named_with_the_extra() -> None:
    found, findings = cuda_wheels.find("0.12.0")
    assert found is None
    assert [finding.where for finding in findings] == [*FILES, cuda_wheels.UNPACKER]
    assert {finding.code for finding in findings} == {"AOTC-E907"}
    assert all("'.[cuda13]'" in finding.hint for finding in findings)


@pytest.mark.parametrize("name", FILES)
def test_a_wheel_whose_file_is_gone_is_as_if_it_were_missing(site: Path, name: str) -> None:
    for each, file in EVERY.items():
        install(site, each, "0.12.0", file)
    (site / FILES[name]).unlink()
    assert [finding.where for finding in cuda_wheels.find("0.12.0")[1]] == [name]


@pytest.mark.parametrize("name", [cuda_wheels.PLUGIN, cuda_wheels.KERNELS])
def test_the_plugin_has_to_be_of_jaxlibs_version(site: Path, name: str) -> None:
    for each, file in EVERY.items():
        install(site, each, "0.11.2" if each == name else "0.12.0", file)
    (finding,) = cuda_wheels.find("0.12.0")[1]
    assert (finding.code, finding.where, finding.found) == ("AOTC-E907", name, "0.11.2")
    assert "jax-cuda13-pjrt==0.12.0 jax-cuda13-plugin==0.12.0" in finding.hint
