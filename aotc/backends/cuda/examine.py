"""What a reviewer wants to know of an executable for CUDA and only its bytes tell: the plan of its
buffers, and the machine code of each kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from aotc.backends.cuda.disassembly import cubins
from aotc.backends.xla import elf, objects
from aotc.backends.xla.memory_plan import memory_plan
from aotc.backends.xla.records import messages
from aotc.evidence import ExecutableEvidence


def with_code(evidence: ExecutableEvidence, serialized: bytes) -> ExecutableEvidence:
    """The evidence with what an executable's bytes tell; as it is if their layout is not known."""
    try:
        parts = list(messages(serialized))
        assignments = [objects.assignment_of_module(part) for part in parts]
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
