"""Reads and replaces the target machine in a serialized CPU topology, which XLA compiles for.

XLA describes a host as a topology. Compile-only devices made from an edited topology compile for
the machine that was put into it. The machine is the one message of three texts {1: triple, 2:
processor, 3: features}; it is found by its contents, since its place may change with jaxlib (seen
at 9.2.5 in 0.11.2, 0.12.0 and 0.12.0.1).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from aotc.compile.binary import protobuf
from aotc.compile.binary.protobuf import Field
from aotc_runtime.formats.protobuf_wire import BYTES

_TRIPLE = re.compile(rb"\A[a-z0-9_]+-[a-z0-9_]+-[a-z0-9_-]+\Z")


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
    _, machine = _locate(_parse(topology))
    return machine


def with_machine(topology: bytes, machine: Machine) -> bytes:
    """Return the topology with another machine. Raises UnknownTopologyError."""
    fields = _parse(topology)
    path, _ = _locate(fields)
    return _with_texts(fields, path, machine.triple, machine.cpu, machine.features)


def with_host(topology: bytes, triple: str, cpu: str) -> bytes:
    """Return the topology of an accelerator with another host.

    The host is {1: triple, 2: processor}, and perhaps features, which are dropped (seen at 9.2.9 of
    CUDA topologies in 0.11.2 and 0.12.0.1). Raises UnknownTopologyError for a topology without one.
    """
    fields = _parse(topology)
    found = _search(fields, _host)
    if found is None:
        raise UnknownTopologyError("no host in the topology")
    return _with_texts(fields, found[0], triple, cpu)


def _with_texts(fields: list[Field], path: list[int], *texts: str) -> bytes:
    replacement = [Field(number, BYTES, text.encode()) for number, text in enumerate(texts, 1)]
    return protobuf.serialize(_replace(fields, path, replacement))


def _parse(topology: bytes) -> list[Field]:
    try:
        return protobuf.parse(topology)
    except ValueError as error:
        raise UnknownTopologyError(f"no protobuf message: {error}") from error


def _locate(fields: list[Field]) -> tuple[list[int], Machine]:
    """Indices down to the machine's message, and the machine."""
    found = _search(fields, _machine)
    if found is None:
        raise UnknownTopologyError("no target machine in the topology")
    return found


def _search[T](
    fields: list[Field], read: Callable[[list[Field]], T | None]
) -> tuple[list[int], T] | None:
    """Return the first nested message that `read` parses: its indices and the result."""
    for index, field in enumerate(fields):
        inner = protobuf.message(field)
        if inner is None:
            continue
        found = read(inner)
        if found is not None:
            return [index], found
        deeper = _search(inner, read)
        if deeper is not None:
            return [index, *deeper[0]], deeper[1]
    return None


def _host(fields: list[Field]) -> bytes | None:
    """Return the triple of an accelerator's host."""
    numbers = [(field.number, field.wire) for field in fields]
    if numbers not in ([(1, BYTES), (2, BYTES)], [(1, BYTES), (2, BYTES), (3, BYTES)]):
        return None
    triple = bytes(fields[0].value)
    return triple if _TRIPLE.match(triple) else None


def _machine(fields: list[Field]) -> Machine | None:
    if [(field.number, field.wire) for field in fields] != [(1, BYTES), (2, BYTES), (3, BYTES)]:
        return None
    triple, cpu, features = (bytes(field.value) for field in fields if field.wire == BYTES)
    if triple.count(b"-") < 2 or features[:1] not in (b"+", b"-"):
        return None
    return Machine(triple.decode(), cpu.decode(), features.decode())


def _replace(fields: list[Field], path: list[int], replacement: list[Field]) -> list[Field]:
    index, *rest = path
    inner = replacement
    if rest:
        nested = protobuf.message(fields[index])
        assert nested is not None, "the path was found in these fields"
        inner = _replace(nested, rest, replacement)
    edited = Field(fields[index].number, BYTES, protobuf.serialize(inner))
    return [*fields[:index], edited, *fields[index + 1 :]]
