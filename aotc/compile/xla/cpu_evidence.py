"""The evidence of an executable for reviewers, read from its bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from aotc.base.evidence import CompilerRecord, ExecutableEvidence, MemoryPlan
from aotc.compile.binary import elf
from aotc.compile.xla import hlo_module, work_placement
from aotc.compile.xla.memory_plan import memory_plan
from aotc.compile.xla.xla_objects import Contents, UnknownLayoutError


def examine(
    inside: Contents, operations: Mapping[str, int], compilation: CompilerRecord
) -> ExecutableEvidence:
    """The evidence of an executable. operations: of the module it was compiled from, by name.

    Raises UnknownLayoutError.
    """
    try:
        optimized = hlo_module.optimized(inside.module)
        return ExecutableEvidence(
            operations=dict(sorted(operations.items())),
            compilation=compilation,
            optimized=optimized,
            placement=work_placement.of_thunks(inside.thunks, optimized.custom_calls),
            plan=memory_plan(inside.assignment),
            kernels=kernels(inside),
        )
    except ValueError as error:
        raise UnknownLayoutError(str(error)) from error


def examine_module(
    module: bytes, operations: Mapping[str, int], options: Mapping[str, str]
) -> ExecutableEvidence:
    """The evidence of an executable for an accelerator, of which only the optimized module is
    known, a serialized HloModuleProto. Raises ValueError.
    """
    return ExecutableEvidence(
        operations=dict(sorted(operations.items())),
        compilation=CompilerRecord(
            options=dict(sorted(options.items())), debug_options=None, pipelines=()
        ),
        optimized=hlo_module.optimized(module),
        placement=work_placement.of_instructions(hlo_module.instructions(module)),
        plan=MemoryPlan(allocations={}, values=0, value_bytes=0),
        kernels={},
    )


def kernels(inside: Contents) -> dict[str, int]:
    """Bytes of machine code by function, those of one name together. Raises ValueError."""
    sizes: Counter[str] = Counter()
    for data in inside.objects:
        for function in elf.functions(data):
            sizes[function.name] += len(function.code)
    return dict(sorted(sizes.items()))
