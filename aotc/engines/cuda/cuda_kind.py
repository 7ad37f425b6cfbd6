"""Target files for NVIDIA GPUs."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from aotc.compile.compiler_protocol import Backend, TargetKind, device_target, plugin_requirements
from aotc.compile.target_model import Kinds, TargetModel, Text
from aotc.config.field_types import accepting
from aotc.engines.cuda.cuda_wheels import PLUGIN
from aotc_runtime.schema.bundle_manifest import BuiltWith, CudaDevice, DeviceRequirements, Target

DRIVER = "13.0"
"""The first release of the CUDA version that the plugin was made for: within a major version,
drivers run what newer toolkits made (CUDA's minor version compatibility).
"""

Capability = Annotated[
    str,
    accepting(
        lambda v: re.fullmatch(r"[1-9][0-9]?\.[0-9]", v) is not None,
        'a compute capability such as "9.0"',
        "NVIDIA lists them by product: developer.nvidia.com/cuda-gpus",
    ),
]


class CudaModel(TargetModel):
    """NVIDIA GPUs, as the CUDA plugin's description `device` with fields replaced by `changes`.

    `text` is a whole description, for plugins without one of that name.
    """

    platform: Literal["cuda"]
    device: Text
    changes: dict[str, str] = Field(default_factory=dict)
    text: str = ""
    compute_capability: Capability
    kinds: Kinds


class CudaKind(TargetKind[CudaModel]):
    """NVIDIA GPUs, by a description in the CUDA plugin."""

    model = CudaModel
    lowered_for = "cuda"
    checked = "run on H100"

    def target(self, model: CudaModel) -> Target:
        """Return the schema value of a target file."""
        device = CudaDevice(
            description=model.device,
            compute_capability=model.compute_capability,
            kinds=tuple(sorted(set(model.kinds))),
            changes=dict(sorted(model.changes.items())),
            text=model.text,
        )
        return device_target(model, device)

    def keys(self, target: Target) -> Mapping[str, object]:
        """Return the keys of a target file for such GPUs."""
        device = _device(target)
        return {
            "device": device.description,
            "compute_capability": device.compute_capability,
            "kinds": list(device.kinds),
            "text": device.text,
            "changes": device.changes,
        }

    def requirements(
        self, target: Target, built_with: BuiltWith, memory_bytes: int
    ) -> DeviceRequirements:
        """Return the requirements: GPU products, versions of XLA's plugin, and a driver."""
        device = _device(target)
        return plugin_requirements(
            device.kinds, PLUGIN, built_with, memory_bytes, device.compute_capability, DRIVER
        )

    def self_contained(self, target: Target) -> Target:
        """Return the target with the installed plugin's description written out."""
        from aotc.engines.cuda.cuda_compiler import self_contained

        return self_contained(target)

    def backend(self) -> Backend:
        """XLA:GPU of the installed CUDA plugin."""
        from aotc.engines.cuda.cuda_compiler import CudaBackend

        return CudaBackend()


def _device(target: Target) -> CudaDevice:
    assert isinstance(target.device, CudaDevice), "a target of the platform cuda has a CUDA device"
    return target.device
