"""The build's side: a kind of targets for processors, which engine lists may name, and a compiler
that knows one function.
"""

import os
from importlib.metadata import version
from typing import Literal

from slate_engine import COMPUTES, DISTRIBUTION, PLATFORM

from aotc.base.errors import CompileError
from aotc.base.stages import CompileJob, Executable
from aotc.compile.compiler_protocol import Backend, plugin_requirements
from aotc.compile.cpu import cpu_isa
from aotc.compile.cpu.cpu_kind import ProcessorKind, ProcessorModel
from aotc.compile.target_model import TRIPLES
from aotc.compile.xla.xla_compiler import built_with
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import BuiltWith, Cost, DeviceRequirements, Memory, Target

REFUSES = "SLATE_REFUSES"


class SlateModel(ProcessorModel):
    """A processor that numpy runs on."""

    platform: Literal["slate"]


class SlateKind(ProcessorKind[SlateModel]):
    """Processors that numpy runs on."""

    model = SlateModel
    platform = PLATFORM
    triples = (*TRIPLES, cpu_isa.ARM_TRIPLE)
    checked = "run"

    def requirements(
        self, target: Target, built_with: BuiltWith, memory_bytes: int
    ) -> DeviceRequirements:
        return plugin_requirements((PLATFORM,), DISTRIBUTION, built_with, 0)

    def backend(self) -> Backend:
        return SlateBackend()


class SlateBackend:
    """Compiles every program to the one function."""

    platform = PLATFORM

    def toolchain(self) -> BuiltWith:
        return built_with({DISTRIBUTION: version(DISTRIBUTION)})

    def compile(self, job: CompileJob) -> Executable:
        if REFUSES in os.environ:
            finding = Finding("AOTC-E901", job.label, "a program for a slate", "a long one", "")
            raise CompileError(finding)
        return Executable(
            serialized=COMPUTES,
            digest=sha256(COMPUTES),
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
