"""GPUs: their descriptions, custom calls that are served, and wheels that compile for them."""

import sys
from pathlib import Path

import pytest

from aotc.base.errors import CompileError
from aotc.compile.xla.plugin_jobs import steps
from aotc.engines.cuda import cuda_wheels
from aotc.engines.cuda.cuda_compiler import is_allowed
from aotc.engines.cuda.gpu_descriptions import ASSUMED, claims, complete, set_fields, texts
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import CudaDevice
from aotc_runtime.schema.served_kernels import cuda_module
from tests.refusals import error_of
from tests.unit.engines.lowering import install

TEXT = """\
gpu_device_info {
  core_count: 132
  cuda_compute_capability {
    major: 9
    feature_extension: ACCELERATED_FEATURES
  }
  name: "NVIDIA H900"
  dnn_version: "9.23.0"
  cub_version: "3.1.2"
}
platform_name: "CUDA"
device_description_str: "NVIDIA H900"
"""


def test_every_cuda_description_in_a_library_is_found_and_no_other(tmp_path: Path) -> None:
    other = TEXT.replace('"CUDA"', '"ROCM"').replace("H900", "MI900")
    nameless = TEXT.replace("device_description_str", "something")
    library = tmp_path / "plugin.so"
    data = b"\x7fELF\0\xff" + TEXT.encode() + b"\n\0\0# License\n" + other.encode() + b"\0"
    library.write_bytes(data + nameless.encode() + b"\0gpu_device_info\0")
    assert texts(library) == {"NVIDIA H900": TEXT}


def test_fields_are_set_where_they_stand_or_added_to_their_block() -> None:
    changes = {
        "core_count": "114",
        "cuda_compute_capability.minor": "1",
        "clock_rate_ghz": "1.5",
        "dnn_version": "9.12.0",
        "device_description_str": "NVIDIA H901",
    }
    assert (
        set_fields(TEXT, changes, ("cub_version", "core_count"))
        == """\
gpu_device_info {
  core_count: 114
  cuda_compute_capability {
    major: 9
    feature_extension: ACCELERATED_FEATURES
    minor: 1
  }
  name: "NVIDIA H900"
  dnn_version: "9.12.0"
  clock_rate_ghz: 1.5
}
platform_name: "CUDA"
device_description_str: "NVIDIA H901"
"""
    )


def test_a_description_claims_no_more_than_the_plugin_needs_anyway() -> None:
    device = CudaDevice(description="NVIDIA H900", compute_capability="9.0", kinds=("H900",))
    text = complete(TEXT, device)
    assert claims(TEXT) == {"CUB": "3.1.2", "cuDNN": "9.23.0"}
    assert claims(text) == {"CUDA driver": "13.0.0", "CUDA runtime": "13.0.0", "cuDNN": "9.12.0"}
    assert set(claims(text).values()) <= set(ASSUMED.values())


def test_a_target_may_claim_otherwise() -> None:
    changes = {"dnn_version": "9.20.0", "cub_version": "3.0.0"}
    device = CudaDevice(
        description="NVIDIA H900", compute_capability="9.0", kinds=("H900",), changes=changes
    )
    assert claims(complete(TEXT, device))["cuDNN"] == "9.20.0"
    assert claims(complete(TEXT, device))["CUB"] == "3.0.0"


HLO = """\
HloModule jit_f, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

%fused (param_0: f32[4]) -> f32[4] {
  %param_0 = f32[4]{0} parameter(0)
  ROOT %add = f32[4]{0} add(%param_0, %param_0)
}

ENTRY %main.3 (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %loop = f32[4]{0} fusion(%x), kind=kLoop, calls=%fused
  %call = (f32[4]{0}, s8[9]{0}) custom-call(%loop), custom_call_target="__cublas$gemm"
  %first = f32[4]{0} get-tuple-element(%call), index=0
  ROOT %again = f32[4]{0} fusion(%first), kind=kLoop, calls=%fused
}
"""


@pytest.mark.parametrize(
    ("target", "module"),
    [
        ("cusolver_potrf_ffi", "_solver"),
        ("cu_lu_pivots_to_permutation", "_linalg"),
        ("cu_tridiagonal_solve_perturbed", "_linalg"),
        ("cu_threefry2x32_ffi", "_prng"),
        ("cusparse_gtsv2_ffi", "_sparse"),
    ],
)
def test_jaxs_kernels_are_served_by_their_module(target: str, module: str) -> None:
    assert is_allowed(target) and cuda_module(target) == module


@pytest.mark.parametrize("target", ["__cublas$lt$matmul", "__cudnn$convForward", "__gpu$TopK"])
def test_what_xla_serves_itself_needs_no_module(target: str) -> None:
    assert is_allowed(target) and cuda_module(target) is None


@pytest.mark.parametrize(
    "target",
    [
        *("xla_ffi_python_gpu_callback", "xla_python_gpu_callback", "lapack_spotrf_ffi"),
        *("cuhybrid_eig_real", "__gpu$xla.gpu.triton", "cusolver_potrf_ffi2", "my_cublas"),
    ],
)
def test_nothing_else_is(target: str) -> None:
    assert not is_allowed(target)


def test_the_steps_of_the_entry_computation_are_counted() -> None:
    assert steps(HLO) == {"custom-call": 1, "kernel": 2}
    assert steps("HloModule empty\n") == {}


FILES = {
    cuda_wheels.PLUGIN: "jax_plugins/xla_cuda13/xla_cuda_plugin.so",
    cuda_wheels.KERNELS: "jax_cuda13_plugin/cuda_plugin_extension.so",
    cuda_wheels.ASSEMBLER: "nvidia/cu13/bin/ptxas",
    cuda_wheels.LIBRARY: "nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
}


EVERY = {**FILES, cuda_wheels.UNPACKER: None}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, and no others."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_what_is_there_is_found_with_its_versions(site: Path) -> None:
    for name, file in FILES.items():
        install(site, name, "0.12.0" if name.startswith("jax") else "13.5.37", file)
    install(site, cuda_wheels.UNPACKER, "2.14.0", None)
    found = cuda_wheels.find("0.12.0")
    assert found.plugin == site / FILES[cuda_wheels.PLUGIN]
    assert found.versions == {
        "jax-cuda13-pjrt": "0.12.0",
        "jax-cuda13-plugin": "0.12.0",
        "nvidia-cuda-nvcc": "13.5.37",
        "nvidia-nvvm": "13.5.37",
    }
    install(site, cuda_wheels.LINKER, "13.1.0", None)
    assert cuda_wheels.find("0.12.0").versions[cuda_wheels.LINKER] == "13.1.0"


def refused() -> tuple[Finding, ...]:
    return error_of(CompileError, cuda_wheels.find, "0.12.0").findings


@pytest.mark.usefixtures("site")
def test_without_any_all_are_named_with_the_extra() -> None:
    findings = refused()
    assert [finding.where for finding in findings] == [*FILES, cuda_wheels.UNPACKER]
    assert {finding.code for finding in findings} == {"AOTC-E907"}
    assert all("'.[cuda13]'" in finding.hint for finding in findings)


@pytest.mark.parametrize("name", FILES)
def test_a_wheel_whose_file_is_gone_is_as_if_it_were_missing(site: Path, name: str) -> None:
    for each, file in EVERY.items():
        install(site, each, "0.12.0", file)
    (site / FILES[name]).unlink()
    assert [finding.where for finding in refused()] == [name]


@pytest.mark.parametrize("name", [cuda_wheels.PLUGIN, cuda_wheels.KERNELS])
def test_the_plugin_has_to_be_of_jaxlibs_version(site: Path, name: str) -> None:
    for each, file in EVERY.items():
        install(site, each, "0.11.2" if each == name else "0.12.0", file)
    (finding,) = refused()
    assert (finding.code, finding.where, finding.found) == ("AOTC-E907", name, "0.11.2")
    assert "jax-cuda13-pjrt==0.12.0 jax-cuda13-plugin==0.12.0" in finding.hint
