"""The build's side of two kinds of targets: the keys of their target files, what a host has to
offer, and a compiler. An executable is a line of text, which says what the engine is to compute.
"""

import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Literal

from abacus_engine import COMPUTES, DISTRIBUTION, KIND
from msgspec.structs import replace

from aotc.base.errors import CompileError
from aotc.base.stages import CompileJob, Executable
from aotc.compile.compiler_protocol import Backend, TargetKind, device_target, plugin_requirements
from aotc.compile.cpu import cpu_isa
from aotc.compile.cpu.cpu_kind import ProcessorKind, ProcessorModel
from aotc.compile.target_model import TRIPLES, TargetModel
from aotc.compile.xla.xla_compiler import built_with
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import BuiltWith, Cost, DeviceRequirements, Memory, Target

REFUSES = "SLATE_REFUSES"


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
        serialized = f"{job.target.options.get('rods', 9)} rods compute {COMPUTES}".encode()
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


class SlateModel(ProcessorModel):
    """A processor that numpy runs on."""

    platform: Literal["slate"]


class SlateKind(ProcessorKind[SlateModel]):
    """Processors that numpy runs on, which engine lists may name."""

    model = SlateModel
    platform = "slate"
    triples = (*TRIPLES, cpu_isa.ARM_TRIPLE)
    checked = "run"
    requirements = AbacusKind.requirements

    def backend(self) -> Backend:
        return SlateBackend()


class SlateBackend(AbacusBackend):
    """Compiles every program to the one function, unless the environment says not to."""

    platform = "slate"

    def compile(self, job: CompileJob) -> Executable:
        if REFUSES in os.environ:
            finding = Finding("AOTC-E901", job.label, "a program for a slate", "a long one", "")
            raise CompileError(finding)
        return super().compile(job)
