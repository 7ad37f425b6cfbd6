"""Descriptions of GPUs: found in a library's data, changed field by field."""

from __future__ import annotations

from pathlib import Path

from aotc.engines.cuda.gpu_descriptions import ASSUMED, changed, claims, complete, texts
from aotc_runtime.schema.bundle_manifest import CudaDevice

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
        changed(TEXT, changes, ("cub_version", "core_count"))
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
