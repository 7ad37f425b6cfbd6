"""Reads the optimized HLO module and the buffer assignment of an executable without jaxlib.

Field numbers are those of openxla/xla xla/service/hlo.proto, which do not change: HloModuleProto
{computations = 3}, HloComputationProto {instructions = 2}, HloInstructionProto {name = 1, opcode =
2, fusion_kind = 11, custom_call_target = 28, backend_config = 43}; BufferAssignmentProto
{buffer_allocations = 3}, BufferAllocationProto {size = 2, is_thread_local = 3,
is_entry_computation_parameter = 5, maybe_live_out = 7, assigned = 9, is_constant = 12}, Assigned
{size = 3}.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from aotc.base.evidence import Allocations, MemoryPlan, Optimized
from aotc.compile.binary import protobuf
from aotc.compile.binary.protobuf import Field

_COMPUTATIONS = 3
_INSTRUCTIONS = 2
_NAME, _OPCODE, _FUSION_KIND, _CUSTOM_CALL_TARGET, _BACKEND_CONFIG = 1, 2, 11, 28, 43


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; the last three fields are empty if it has none."""

    name: str
    opcode: str
    fusion_kind: str
    custom_call_target: str
    backend_config: bytes


def instructions(module: bytes) -> Iterator[Instruction]:
    """Yield the instructions of a serialized HloModuleProto's computations, or raise ValueError."""
    for computation in _messages(protobuf.parse(module), _COMPUTATIONS):
        for fields in _messages(computation, _INSTRUCTIONS):
            values = {f.number: f.value for f in fields if isinstance(f.value, bytes)}
            yield Instruction(
                name=_text(values, _NAME),
                opcode=_text(values, _OPCODE),
                fusion_kind=_text(values, _FUSION_KIND),
                custom_call_target=_text(values, _CUSTOM_CALL_TARGET),
                backend_config=values.get(_BACKEND_CONFIG, b""),
            )


def describe_module(module: bytes) -> Optimized:
    """Return what is in a module, counted. Raises ValueError."""
    found = tuple(instructions(module))
    return Optimized(
        instructions=_count(i.opcode for i in found),
        fusions=_count(i.fusion_kind for i in found if i.opcode == "fusion"),
        custom_calls=_count(i.custom_call_target for i in found if i.opcode == "custom-call"),
    )


def _messages(fields: list[Field], number: int) -> Iterator[list[Field]]:
    for field in fields:
        if field.number == number and isinstance(field.value, bytes):
            yield protobuf.parse(field.value)


def _text(values: dict[int, bytes], number: int) -> str:
    return values.get(number, b"").decode(errors="replace")


def _count(words: Iterator[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


_ALLOCATIONS = 3
_SIZE, _THREAD_LOCAL, _PARAMETER, _LIVE_OUT, _ASSIGNED, _CONSTANT = 2, 3, 5, 7, 9, 12
_ASSIGNED_SIZE = 3

TEMPORARY = "temporary"


def memory_plan(assignment: bytes) -> MemoryPlan:
    """Parse the plan of a serialized BufferAssignmentProto. Raises ValueError."""
    found: dict[str, list[int]] = {}
    values: list[int] = []
    for allocation in _messages(protobuf.parse(assignment), _ALLOCATIONS):
        purpose = _purpose(allocation)
        found.setdefault(purpose, []).append(_integer(allocation, _SIZE))
        if purpose == TEMPORARY:
            values += [_integer(f, _ASSIGNED_SIZE) for f in _messages(allocation, _ASSIGNED)]
    return MemoryPlan(
        allocations={
            purpose: Allocations(count=len(sizes), size_bytes=sum(sizes))
            for purpose, sizes in sorted(found.items())
        },
        values=len(values),
        value_bytes=sum(values),
    )


def _purpose(allocation: list[Field]) -> str:
    # An aliased parameter is live out as well: it is a parameter first, as XLA's own statistics
    # have it.
    for number, purpose in (
        (_PARAMETER, "parameter"),
        (_THREAD_LOCAL, "thread-local"),
        (_CONSTANT, "constant"),
        (_LIVE_OUT, "output"),
    ):
        if _integer(allocation, number):
            return purpose
    return TEMPORARY


def _integer(fields: list[Field], number: int) -> int:
    return next((f.value for f in fields if f.number == number and isinstance(f.value, int)), 0)
