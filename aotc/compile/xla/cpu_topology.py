"""Reads and replaces the target machine in a serialized CPU topology, which XLA compiles for.

XLA describes a host as a topology. Compile-only devices made from an edited topology compile for
the machine that was put into it. The machine is the one message of three texts {1: triple, 2:
processor, 3: features}; it is found by its contents, since its place may change with jaxlib (seen
at 9.2.5 in 0.11.2, 0.12.0 and 0.12.0.1).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from aotc.compile.binary import protobuf
from aotc.compile.binary.protobuf import Field
from aotc_runtime.formats.protobuf_wire import BYTES

_TRIPLE = re.compile(rb"\A[a-z0-9_]+-[a-z0-9_]+-[a-z0-9_.-]+\Z")

_TEXTS = ([(1, BYTES), (2, BYTES)], [(1, BYTES), (2, BYTES), (3, BYTES)])

type Texts = tuple[bytes, bytes, bytes]
"""Triple, processor and features of a machine."""


class UnknownTopologyError(ValueError):
    """The topology holds no target machine in the form that the versions above give it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A target machine of LLVM; `features` is its feature string, "+avx2,-avx512f,…"."""

    triple: str
    cpu: str
    features: str


def read_machine(topology: bytes) -> Machine:
    """Return the machine of a serialized CPU topology. Raises UnknownTopologyError."""
    _, texts = _target_machine(_parse(topology))
    return Machine(*(text.decode() for text in texts))


def with_machine(topology: bytes, machine: Machine) -> bytes:
    """Return the topology with another machine. Raises UnknownTopologyError."""
    fields = _parse(topology)
    path, _ = _target_machine(fields)
    return _with_texts(fields, path, machine.triple, machine.cpu, machine.features)


def with_host(topology: bytes, triple: str, cpu: str) -> bytes:
    """Return the topology of an accelerator with another host.

    The host is {1: triple, 2: processor}, and perhaps features, which are dropped (seen at 9.2.9 of
    CUDA topologies in 0.11.2 and 0.12.0.1). Raises UnknownTopologyError for a topology without one.
    """
    fields = _parse(topology)
    for path, _ in _machines(fields):
        return _with_texts(fields, path, triple, cpu)
    raise UnknownTopologyError("no host in the topology")


def _with_texts(fields: list[Field], path: list[int], *texts: str) -> bytes:
    replacement = [Field(number, BYTES, text.encode()) for number, text in enumerate(texts, 1)]
    return protobuf.serialize(_replace(fields, path, replacement))


def _parse(topology: bytes) -> list[Field]:
    try:
        return protobuf.parse(topology)
    except ValueError as error:
        raise UnknownTopologyError(f"no protobuf message: {error}") from error


def _target_machine(fields: list[Field]) -> tuple[list[int], Texts]:
    """Indices down to the message of the machine with features, and its texts."""
    for path, texts in _machines(fields):
        if texts[2][:1] in (b"+", b"-"):
            return path, texts
    raise UnknownTopologyError("no target machine in the topology")


def _machines(fields: list[Field]) -> Iterator[tuple[list[int], Texts]]:
    """Yield every nested message that describes a machine: indices down to it, and its texts."""
    for index, field in enumerate(fields):
        if texts := machine_texts(field):
            yield [index], texts
        for path, deeper in _machines(protobuf.message(field) or []):
            yield [index, *path], deeper


def machine_texts(field: Field) -> Texts | None:
    """Return what a field says of a machine, perhaps without features; None for other fields."""
    inner = protobuf.message(field) or []
    if [(each.number, each.wire) for each in inner] not in _TEXTS:
        return None
    triple, cpu, features = [*(bytes(each.value) for each in inner), b""][:3]
    return (triple, cpu, features) if _TRIPLE.match(triple) else None


def _replace(fields: list[Field], path: list[int], replacement: list[Field]) -> list[Field]:
    index, *rest = path
    inner = replacement
    if rest:
        nested = protobuf.message(fields[index])
        assert nested is not None, "the path was found in these fields"
        inner = _replace(nested, rest, replacement)
    edited = Field(fields[index].number, BYTES, protobuf.serialize(inner))
    return [*fields[:index], edited, *fields[index + 1 :]]
