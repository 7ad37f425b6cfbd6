"""Parts of a serialized XLA:CPU executable, and their canonical order.

Layout (jaxlib 0.11.2 to 0.12.0.1): a length-delimited IFRT header, then a message {1: compilation
result, 2: compile options}. The compilation result holds, among others, the thunk sequence, the
kernels' symbols, their object files (ELF), and the target machine. Field numbers differ between
jaxlib versions, so fields are recognized by their contents.
"""

import re
from collections import Counter
from dataclasses import dataclass

from aotc.compile.binary import protobuf
from aotc.compile.binary.protobuf import Field
from aotc.compile.xla.cpu_topology import machine_texts
from aotc_runtime.formats.protobuf_wire import BYTES, VARINT, read_varint

_WORD = re.compile(rb"\A[a-z][a-z0-9-]*\Z")


_THUNK_DEPTH_MAX = 200
"""A loop within a loop is some four levels deeper; each is taken apart once for every level."""


class UnknownLayoutError(ValueError):
    """The bytes are not laid out as in any jaxlib this was seen with."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The readable parts of an executable.

    `objects` are the ELF files of the generated kernels. `thunks` counts the steps of each kind,
    each once however often a loop repeats it. `features` are the target machine's, with "+" or "-".
    """

    triple: str
    cpu: str
    features: tuple[str, ...]
    objects: tuple[bytes, ...]
    thunks: dict[str, int]
    module: bytes
    assignment: bytes


def _split(serialized: bytes) -> tuple[bytes, list[Field], list[Field], int]:
    """Return header, outer fields, compilation result's fields, and its index in the outer ones."""
    try:
        length, start = read_varint(serialized, 0, len(serialized))
        outer = protobuf.parse(serialized[start + length :])
    except ValueError as error:
        raise UnknownLayoutError(f"no header and message: {error}") from error
    for index, field in enumerate(outer):
        inner = protobuf.message(field)
        if inner and any(machine_texts(candidate) for candidate in inner):
            return serialized[: start + length], outer, inner, index
    raise UnknownLayoutError("no compilation result with a target machine")


def _object_file(field: Field) -> bytes | None:
    for part in protobuf.message(field) or ():
        if isinstance(part.value, bytes) and part.value.startswith(b"\x7fELF"):
            return part.value
    return None


def _is_symbol(field: Field) -> bool:
    inner = protobuf.message(field)
    return inner is not None and [(f.number, f.wire) for f in inner] == [(1, VARINT), (2, BYTES)]


def _thunk_kind(field: Field) -> str | None:
    """Return the kind of a thunk, which is {1: kind, 2: {1: operation, 2: module, …}, …}."""
    inner = protobuf.message(field)
    if not inner or [(f.number, f.wire) for f in inner[:2]] != [(1, BYTES), (2, BYTES)]:
        return None
    kind, info = inner[0].value, protobuf.message(inner[1])
    if not info or [(f.number, f.wire) for f in info[:2]] != [(1, BYTES), (2, BYTES)]:
        return None
    return kind.decode() if isinstance(kind, bytes) and _WORD.match(kind) else None


def _is_thunk_sequence(field: Field) -> bool:
    # Beside the steps, programs over several devices list what their collectives share.
    steps = [step for step in protobuf.message(field) or () if step.number == 1]
    return bool(steps) and all(map(_thunk_kind, steps))


def _count_thunks(field: Field, counts: Counter[str], depth: int = 0) -> None:
    """Count a thunk sequence and those nested in it: bodies of loops, branches of conditionals.

    Raises UnknownLayoutError.
    """
    if depth > _THUNK_DEPTH_MAX:
        raise UnknownLayoutError(f"messages nested more than {_THUNK_DEPTH_MAX} deep")
    for inner in protobuf.message(field) or ():
        if kind := _thunk_kind(inner):
            counts[kind] += 1
        _count_thunks(inner, counts, depth + 1)


def _module(field: Field) -> bytes | None:
    """Return the HloModuleProto of {1: module, 2: configuration}."""
    inner = protobuf.message(field)
    if not inner or [(f.number, f.wire) for f in inner] != [(1, BYTES), (2, BYTES)]:
        return None
    # {1: name, 2: name of the entry computation, 3: computation, …}
    named = protobuf.message(inner[0])
    shown = [f.number for f in named[:3]] if named else []
    return inner[0].value if shown == [1, 2, 3] and isinstance(inner[0].value, bytes) else None


def _assignment(field: Field) -> bytes | None:
    """Return a BufferAssignmentProto: logical buffers as 1, allocations as 3, statistics."""
    inner = protobuf.message(field)
    if not inner or isinstance(field.value, int):
        return None
    numbers = [f.number for f in inner]
    is_ordered = numbers == sorted(numbers) and numbers[0] == 1 and 3 in numbers
    are_messages = is_ordered and all(protobuf.message(each) is not None for each in inner)
    return field.value if are_messages else None


def contents(serialized: bytes) -> Contents:
    """Take an executable apart. Raises UnknownLayoutError."""
    _, _, result, _ = _split(serialized)
    module = next((found for field in result if (found := _module(field))), None)
    assignment = next((found for field in result if (found := _assignment(field))), None)
    if module is None or assignment is None:
        raise UnknownLayoutError("no optimized module with its buffer assignment")
    machine = next(machine for field in result if (machine := machine_texts(field)))
    thunks: Counter[str] = Counter()
    for field in filter(_is_thunk_sequence, result):
        _count_thunks(field, thunks)
    try:
        triple, cpu, features = (part.decode() for part in machine)
    except UnicodeDecodeError as error:
        raise UnknownLayoutError(f"a target machine that is no text: {error}") from error
    return Contents(
        triple=triple,
        cpu=cpu,
        features=tuple(features.split(",")) if features else (),
        objects=tuple(elf for field in result if (elf := _object_file(field))),
        thunks=dict(sorted(thunks.items())),
        module=module,
        assignment=assignment,
    )


def assignment_of_module(message: bytes) -> bytes | None:
    """Return the BufferAssignmentProto in a message that holds an optimized module as well."""
    try:
        fields = protobuf.parse(message)
    except ValueError:
        return None
    if not any(map(_module, fields)):
        return None
    return next((found for field in fields if (found := _assignment(field))), None)


def compile_options(serialized: bytes) -> bytes:
    """Return an executable's CompileOptionsProto. Raises UnknownLayoutError."""
    _, outer, _, index = _split(serialized)
    for field in outer[index + 1 :]:
        if isinstance(field.value, bytes):
            return field.value
    raise UnknownLayoutError("no compile options")


def canonical(serialized: bytes) -> bytes:
    """Return a serialized executable with its object files and symbols in sorted order.

    XLA generates kernels in parallel and lists them as they finish. Loading does not depend on the
    order. Raises UnknownLayoutError.
    """
    header, outer, result, index = _split(serialized)
    for recognize in (lambda field: _object_file(field) is not None, _is_symbol):
        slots = [position for position, field in enumerate(result) if recognize(field)]
        numbers = {result[position].number for position in slots}
        if len(numbers) > 1:
            raise UnknownLayoutError(f"the same kind of part in fields {sorted(numbers)}")
        ordered = sorted((result[p] for p in slots), key=lambda f: protobuf.serialize([f]))
        for position, field in zip(slots, ordered, strict=True):
            result[position] = field
    outer[index] = Field(outer[index].number, BYTES, protobuf.serialize(result))
    return header + protobuf.serialize(outer)
