"""How many of XLA's debug options, as an executable records them, differ from the defaults.

Field numbers of xla/pjrt/proto/compile_options.proto: CompileOptionsProto {executable_build_options
= 3}, ExecutableBuildOptionsProto {debug_options = 3}. Those of DebugOptions have no names here, and
need none: what was asked for by name is recorded as such.
"""

from __future__ import annotations

from aotc.compile.binary import protobuf
from aotc.compile.xla import xla_objects

_PATH = (3, 3)


def changed(serialized: bytes, defaults: bytes) -> int:
    """How many debug options of an executable differ from those of a CompileOptionsProto.

    Raises UnknownLayoutError.
    """
    try:
        mine, others = _options(xla_objects.compile_options(serialized)), _options(defaults)
    except ValueError as error:
        raise xla_objects.UnknownLayoutError(f"no debug options: {error}") from error
    return sum(mine.get(number) != others.get(number) for number in mine.keys() | others.keys())


def _options(compile_options: bytes) -> dict[int, tuple[int | bytes, ...]]:
    data = compile_options
    for number in _PATH:
        inner = [f.value for f in protobuf.parse(data) if f.number == number]
        if not inner or isinstance(inner[-1], int):
            raise ValueError(f"no field {number}")
        data = inner[-1]
    found: dict[int, tuple[int | bytes, ...]] = {}
    for field in protobuf.parse(data):
        found[field.number] = (*found.get(field.number, ()), field.value)
    return found
