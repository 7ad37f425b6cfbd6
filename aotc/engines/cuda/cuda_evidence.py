"""Evidence that only the bytes of a CUDA executable hold: its memory plan, and the size of each
kernel's machine code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from aotc.base.evidence import ExecutableEvidence
from aotc.compile.binary import elf
from aotc.compile.xla import xla_objects
from aotc.compile.xla.executable_records import messages
from aotc.compile.xla.memory_plan import memory_plan
from aotc.engines.cuda.cuda_disassembly import cubins


def with_code(evidence: ExecutableEvidence, serialized: bytes) -> ExecutableEvidence:
    """The evidence with these two added; unchanged if the layout of the bytes is not known."""
    try:
        parts = list(messages(serialized))
        assignments = [xla_objects.assignment_of_module(part) for part in parts]
        plans = [memory_plan(found) for found in assignments if found is not None]
        return replace(evidence, plan=plans[0] if plans else evidence.plan, kernels=_kernels(parts))
    except ValueError:
        return evidence


def _kernels(parts: Iterable[bytes]) -> dict[str, int]:
    """Bytes of machine code by function, those of one name together. Raises ValueError."""
    sizes: Counter[str] = Counter()
    for part in parts:
        for kernel in cubins(part):
            for function in elf.functions(kernel):
                sizes[function.name] += len(function.code)
    return dict(sorted(sizes.items()))
