"""Flattening arguments and rebuilding results by `schema.tree`, without jax."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aotc_runtime.errors import Finding, ShapeError
from aotc_runtime.schema.tree import (
    DictNode,
    Leaf,
    ListNode,
    NamedTupleNode,
    NoneNode,
    RecordNode,
    Tree,
    TupleNode,
)


class Record:
    """A result node of a registered class (an Equinox module, a dataclass): its fields by name.

    Passing one back as an argument is the same as passing the original class.
    """

    __slots__ = ("_fields", "_type")

    def __init__(self, type_: str, fields: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_type", type_)
        object.__setattr__(self, "_fields", dict(fields))

    def __getattr__(self, name: str) -> Any:
        fields = object.__getattribute__(self, "_fields")
        if name not in fields:
            kind = object.__getattribute__(self, "_type")
            raise AttributeError(f"{kind} has {', '.join(fields)}, not {name}")
        return fields[name]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Record cannot be changed")

    def __repr__(self) -> str:
        fields = object.__getattribute__(self, "_fields")
        inside = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        return f"{object.__getattribute__(self, '_type')}({inside})"


def _mismatch(where: str, expected: str, found: str) -> ShapeError:
    return ShapeError(
        Finding(
            code="AOTC-E604",
            where=where,
            expected=expected,
            found=found,
            hint="pass the structure that the entry point was built with (`aotc inspect`)",
        )
    )


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a dict with " + (", ".join(map(repr, value)) or "no keys")
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def flatten(tree: Tree, value: Any, where: str) -> Iterator[tuple[int, Any]]:
    """(leaf index, leaf) pairs of an argument. Raises ShapeError (AOTC-E604)."""
    match tree:
        case Leaf(index=index):
            yield index, value
        case NoneNode():
            if value is not None:
                raise _mismatch(where, "None", _kind(value))
        case DictNode(items=items):
            if not isinstance(value, Mapping) or value.keys() != items.keys():
                keys = ", ".join(map(repr, items)) or "no keys"
                raise _mismatch(where, f"a dict with {keys}", _kind(value))
            for key, child in items.items():
                yield from flatten(child, value[key], f"{where}/{key}")
        case NamedTupleNode(type=name, fields=fields, items=children):
            if getattr(value, "_fields", None) != fields:
                expected = f"a named tuple {name}({', '.join(fields)})"
                raise _mismatch(where, expected, _kind(value))
            for field, child in zip(fields, children, strict=True):
                yield from flatten(child, getattr(value, field), f"{where}/{field}")
        case RecordNode(type=name, fields=fields, items=children):
            for field, child in zip(fields, children, strict=True):
                yield from flatten(child, _field(value, field, name, where), f"{where}/{field}")
        case ListNode(items=children) | TupleNode(items=children):
            wanted = list if isinstance(tree, ListNode) else tuple
            if not isinstance(value, (list, tuple)) or len(value) != len(children):
                expected = f"a {wanted.__name__} of {len(children)}"
                raise _mismatch(where, expected, _kind(value))
            for index, (item, child) in enumerate(zip(value, children, strict=True)):
                yield from flatten(child, item, f"{where}/{index}")


def _field(value: Any, field: str, name: str, where: str) -> Any:
    if isinstance(value, Mapping) and field in value:
        return value[field]
    if hasattr(value, field):
        return getattr(value, field)
    raise _mismatch(where, f"a {name} with the field {field}", _kind(value))


Builder = Callable[[list[Any]], Any]


def builder(tree: Tree) -> Builder:
    """A function that rebuilds the pytree from its leaves; made once, called often."""
    match tree:
        case Leaf(index=index):
            return lambda leaves: leaves[index]
        case NoneNode():
            return lambda leaves: None
        case DictNode(items=items):
            named = {key: builder(child) for key, child in items.items()}
            return lambda leaves: {key: build(leaves) for key, build in named.items()}
        case ListNode(items=children):
            listed = [builder(child) for child in children]
            return lambda leaves: [build(leaves) for build in listed]
        case TupleNode(items=children):
            tupled = [builder(child) for child in children]
            return lambda leaves: tuple(build(leaves) for build in tupled)
        case NamedTupleNode(type=name, fields=fields, items=children):
            class_: Any = namedtuple(name, fields)  # type: ignore[misc]
            parts = [builder(child) for child in children]
            return lambda leaves: class_(*(build(leaves) for build in parts))
        case RecordNode(type=name, fields=fields, items=children):
            record = dict(zip(fields, (builder(child) for child in children), strict=True))
            return lambda leaves: Record(name, {f: build(leaves) for f, build in record.items()})
