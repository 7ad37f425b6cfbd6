"""The build's side of a kind of targets: the keys of its target files, what a host has to offer,
and a compiler. An executable is a line of text, which says what the engine is to compute.
"""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Literal

from abacus_engine import COMPUTES, DISTRIBUTION, KIND
from msgspec.structs import replace

from aotc.base.stages import CompileJob, Executable
from aotc.compile.compiler_protocol import Backend, TargetKind, device_target, plugin_requirements
from aotc.compile.target_model import TargetModel
from aotc.compile.xla.xla_compiler import built_with
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import BuiltWith, Cost, DeviceRequirements, Memory, Target


class AbacusModel(TargetModel):
    """Beads. rods: how many the abacus has."""

    platform: Literal["abacus"]
    rods: int


class AbacusKind(TargetKind[AbacusModel]):
    """Targets that compute one function."""

    model = AbacusModel
    checked = "run"

    def target(self, model: AbacusModel) -> Target:
        target = device_target(model)
        return replace(target, options={**target.options, "rods": str(model.rods)})

    def keys(self, target: Target) -> Mapping[str, object]:
        return {"rods": int(target.options["rods"])}

    def requirements(
        self, target: Target, built_with: BuiltWith, memory_bytes: int
    ) -> DeviceRequirements:
        return plugin_requirements((KIND,), DISTRIBUTION, built_with, 0)

    def backend(self) -> Backend:
        return AbacusBackend()


class AbacusBackend:
    """Compiles every program to the one function."""

    platform = "abacus"

    def toolchain(self) -> BuiltWith:
        return built_with({DISTRIBUTION: version(DISTRIBUTION)})

    def compile(self, job: CompileJob) -> Executable:
        serialized = f"{job.target.options['rods']} rods compute {COMPUTES}".encode()
        return Executable(
            serialized=serialized,
            digest=sha256(serialized),
            isa=(),
            tuning=(),
            custom_call_targets=(),
            memory=Memory(
                argument_bytes=0, output_bytes=0, temp_bytes=0, alias_bytes=0, code_bytes=0
            ),
            cost=Cost(flops=1, transcendentals=0, bytes_accessed=0),
            thunks={},
            compile_seconds=0.0,
        )

    def stop(self) -> None:
        pass
