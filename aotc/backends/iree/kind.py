"""Target files for processors that IREE compiles for."""

from __future__ import annotations

from typing import Literal

from aotc.backends.cpu import arm
from aotc.backends.cpu.kind import ProcessorKind, ProcessorModel
from aotc.backends.iree.packages import COMPILER
from aotc.backends.protocol import Backend
from aotc.backends.target_model import TRIPLES
from aotc_runtime.engines.iree.names import DRIVERS, IREE, RUNTIME
from aotc_runtime.schema.manifest import BuiltWith, DeviceRequirements, Target


class IreeModel(ProcessorModel):
    """A processor that IREE compiles for."""

    platform: Literal["iree"]


class IreeKind(ProcessorKind[IreeModel]):
    """Processors that IREE compiles for, on whatever host."""

    model = IreeModel
    platform = IREE
    triples = (*TRIPLES, arm.TRIPLE)
    checked = "run; Arm in emulation"

    def requirements(
        self, target: Target, built_with: BuiltWith, memory_bytes: int
    ) -> DeviceRequirements:
        """The drivers that the executables may ask for, and the runtime of the compiler's release,
        which reads no other's modules for sure. The processor's memory counts once, as the host's.
        """
        version = built_with.tools.get(COMPILER)
        return DeviceRequirements(
            kinds=DRIVERS,
            memory_bytes=0,
            plugin=RUNTIME,
            accepts_plugin=(version,) if version else (),
        )

    def backend(self) -> Backend:
        """The installed compiler of IREE."""
        from aotc.backends.iree.compile import IreeBackend

        return IreeBackend()
