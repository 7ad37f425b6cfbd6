"""Target files for AMD GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from aotc.compile.compiler_protocol import Backend, TargetKind, device_target, plugin_requirements
from aotc.compile.target_model import Kinds, TargetModel, Text
from aotc_runtime.schema.bundle_manifest import BuiltWith, DeviceRequirements, RocmDevice, Target

PLATFORM = "rocm"
PLUGIN = "jax-rocm7-pjrt"

HINT = (
    "compiling for AMD GPUs needs a machine with ROCm, to whose libraries XLA's plugin for them "
    f"({PLUGIN}) links; add a backend for it there: an entry point of aotc.engines"
)


class RocmModel(TargetModel):
    """AMD GPUs. architecture: LLVM's name for their instructions, "gfx942"."""

    platform: Literal["rocm"]
    architecture: Text
    kinds: Kinds


class RocmKind(TargetKind[RocmModel]):
    """AMD GPUs, whose target files are read and not built for."""

    model = RocmModel
    lowered_for = PLATFORM
    checked = "not compiled"

    def target(self, model: RocmModel) -> Target:
        """The schema value of a target file."""
        kinds = tuple(sorted(set(model.kinds)))
        return device_target(model, RocmDevice(architecture=model.architecture, kinds=kinds))

    def keys(self, target: Target) -> Mapping[str, object]:
        """The keys of a target file for such GPUs."""
        assert isinstance(target.device, RocmDevice), "a target of the platform rocm has one"
        return {"architecture": target.device.architecture, "kinds": list(target.device.kinds)}

    def requirements(
        self, target: Target, built_with: BuiltWith, memory_bytes: int
    ) -> DeviceRequirements:
        """The kinds of GPUs, and the version of XLA's plugin for them."""
        assert isinstance(target.device, RocmDevice), "a target of the platform rocm has one"
        return plugin_requirements(target.device.kinds, PLUGIN, built_with, memory_bytes)

    def backend(self) -> Backend:
        """Raises CompileError (AOTC-E909)."""
        from aotc.compile.compile_refusals import no_backend

        raise no_backend(PLATFORM, HINT)
