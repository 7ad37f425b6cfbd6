"""Values of a build manifest as JSON, for processes that are given what another one has read.

Made of the types of `aotc.config.manifest_specs` and what they hold, and of nothing else: reading
it runs no code and makes no other objects. The same values give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from msgspec import Struct, UnsetType
from msgspec.structs import asdict

from aotc.config import input_specs, manifest_specs
from aotc.config.dimension_specs import DimensionSpec, MultiplesOf
from aotc.config.gate_limits import Gates
from aotc_runtime.schema.bundle_manifest import CompileHere, DType, KeyImpl, Pad, Split
from aotc_runtime.schema.manifest_labels import ExecutableKey

_TYPES: Mapping[str, type[Any]] = {
    each.__name__: each
    for each in (
        *manifest_specs.TYPES,
        *input_specs.TYPES,
        *(DimensionSpec, MultiplesOf, Gates, CompileHere, ExecutableKey, Pad, Split),
    )
}
_ENUMS: Mapping[str, type[Enum]] = {each.__name__: each for each in (DType, KeyImpl)}


def encode(value: object) -> bytes:
    """The JSON of a value."""
    return json.dumps(_spelled(value), separators=(",", ":")).encode()


def decode(data: bytes) -> Any:
    """The value again, equal to what was encoded."""
    return _value(json.loads(data))


def _spelled(value: Any) -> Any:
    """Plain values as they are; of any other, an object with one key that says what it is."""
    match value:
        case Enum():
            return {type(value).__name__: value.value}
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [_spelled(item) for item in value]
        case tuple():
            return {"tuple": [_spelled(item) for item in value]}
        case bytes():
            return {"bytes": value.decode("latin-1")}
        case Path():
            return {"path": str(value)}
        case Mapping():
            return {"dict": [[_spelled(key), _spelled(item)] for key, item in value.items()]}
    return {type(value).__name__: {k: _spelled(v) for k, v in _fields(value).items()}}


def _fields(value: Any) -> dict[str, Any]:
    assert type(value).__name__ in _TYPES, f"a build manifest holds no {type(value).__name__}"
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    assert isinstance(value, Struct)
    return {k: v for k, v in asdict(value).items() if not isinstance(v, UnsetType)}


def _value(spelled: Any) -> Any:
    match spelled:
        case list():
            return [_value(item) for item in spelled]
        case {"tuple": items}:
            return tuple(_value(item) for item in items)
        case {"bytes": text}:
            return text.encode("latin-1")
        case {"path": text}:
            return Path(text)
        case {"dict": items}:
            return {_value(key): _value(item) for key, item in items}
        case dict():
            ((name, inside),) = spelled.items()
            if name in _ENUMS:
                return _ENUMS[name](inside)
            return _TYPES[name](**{key: _value(item) for key, item in inside.items()})
        case _:
            return spelled
