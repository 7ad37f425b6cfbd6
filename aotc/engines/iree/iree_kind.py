"""Target files for processors that IREE compiles for."""

from typing import Literal

from aotc.compile.compiler_protocol import DEFAULT, Backend, Candidate
from aotc.compile.cpu.cpu_kind import ProcessorKind, ProcessorModel
from aotc.engines.iree.iree_job import COMPILER, DRIVER
from aotc_runtime.engines.iree.iree_names import DRIVERS, IREE, RUNTIME
from aotc_runtime.schema.bundle_manifest import BuiltWith, DeviceRequirements, Target


class IreeModel(ProcessorModel):
    """A processor that IREE compiles for."""

    platform: Literal["iree"]


class IreeKind(ProcessorKind[IreeModel]):
    """Processors that IREE compiles for, on whatever host."""

    model = IreeModel
    platform = IREE
    checked = "run; Arm in emulation"
    kernels = ("8-bit activations",)

    def requirements(
        self, target: Target, built_with: BuiltWith, memory_bytes: int
    ) -> DeviceRequirements:
        """Return the drivers that executables may ask for, and the compiler's release.

        The runtime of another release may not read the modules. Memory counts once, as the host's.
        """
        version = built_with.tools.get(COMPILER)
        return DeviceRequirements(
            kinds=DRIVERS,
            memory_bytes=0,
            plugin=RUNTIME,
            accepts_plugin=(version,) if version else (),
        )

    def candidates(self) -> tuple[Candidate, ...]:
        """Return each driver, which says whether calls run in threads."""
        return (Candidate(DEFAULT), *(Candidate(driver, {DRIVER: driver}) for driver in DRIVERS))

    def backend(self) -> Backend:
        """Return the installed compiler of IREE."""
        from aotc.engines.iree.iree_compiler import IreeBackend

        return IreeBackend()
