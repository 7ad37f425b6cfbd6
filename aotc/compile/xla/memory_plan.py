"""XLA's buffer assignment, as an executable carries it.

Field numbers are those of openxla/xla xla/service/hlo.proto, which do not change:
BufferAssignmentProto {buffer_allocations = 3}, BufferAllocationProto {size = 2, is_thread_local =
3, is_entry_computation_parameter = 5, maybe_live_out = 7, assigned = 9, is_constant = 12},
Assigned {size = 3}.
"""

from __future__ import annotations

from aotc.base.evidence import Allocations, MemoryPlan
from aotc.compile.binary import protobuf
from aotc.compile.binary.protobuf import Field

_ALLOCATIONS = 3
_SIZE, _THREAD_LOCAL, _PARAMETER, _LIVE_OUT, _ASSIGNED, _CONSTANT = 2, 3, 5, 7, 9, 12
_ASSIGNED_SIZE = 3

TEMPORARY = "temporary"


def memory_plan(assignment: bytes) -> MemoryPlan:
    """The plan of a serialized BufferAssignmentProto. Raises ValueError for bytes that are none."""
    found: dict[str, list[int]] = {}
    values: list[int] = []
    for field in protobuf.parse(assignment):
        if field.number != _ALLOCATIONS or not isinstance(field.value, bytes):
            continue
        allocation = protobuf.parse(field.value)
        purpose = _purpose(allocation)
        found.setdefault(purpose, []).append(_integer(allocation, _SIZE))
        if purpose == TEMPORARY:
            values += [
                _integer(protobuf.parse(f.value), _ASSIGNED_SIZE)
                for f in allocation
                if f.number == _ASSIGNED and isinstance(f.value, bytes)
            ]
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
