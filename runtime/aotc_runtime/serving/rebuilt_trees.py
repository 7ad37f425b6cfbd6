"""Building results and arguments from their leaves by `schema.tree`, without jax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from aotc_runtime.schema.bundle_manifest import Parameter, ParameterKind
from aotc_runtime.schema.pytrees import (
    DictNode,
    IntDictNode,
    Leaf,
    ListNode,
    NamedTupleNode,
    NoneNode,
    RecordNode,
    Tree,
    TupleNode,
)

Builder = Callable[[list[Any]], Any]


def builder(tree: Tree) -> Builder:
    """A function that rebuilds the pytree from its leaves; made once, called often."""
    match tree:
        case Leaf(index=index):
            return itemgetter(index)
        case NoneNode():
            return lambda leaves: None
        case DictNode(items=items) if all(isinstance(child, Leaf) for child in items.values()):
            indices = [(key, child.index) for key, child in items.items()]  # type: ignore[union-attr]
            return lambda leaves: {key: leaves[index] for key, index in indices}
        case DictNode(items=items):
            named = {key: builder(child) for key, child in items.items()}
            return lambda leaves: {key: build(leaves) for key, build in named.items()}
        case IntDictNode(keys=keys, items=children):
            numbered = dict(zip(keys, map(builder, children), strict=True))
            return lambda leaves: {key: build(leaves) for key, build in numbered.items()}
        case ListNode(items=children):
            listed = [builder(child) for child in children]
            return lambda leaves: [build(leaves) for build in listed]
        case TupleNode(items=children):
            tupled = [builder(child) for child in children]
            return lambda leaves: tuple(build(leaves) for build in tupled)
        case NamedTupleNode(type=name, fields=fields, items=children):
            from aotc_runtime.serving.result_records import named_tuple

            class_ = named_tuple(name, fields)
            parts = [builder(child) for child in children]
            return lambda leaves: class_._make([build(leaves) for build in parts])
        case RecordNode(type=name, fields=fields, items=children):
            from aotc_runtime.serving.result_records import Record

            record = dict(zip(fields, (builder(child) for child in children), strict=True))
            return lambda leaves: Record(name, {f: build(leaves) for f, build in record.items()})


def arguments_of(
    parameters: Sequence[Parameter], leaves: list[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, by position and by name, whose leaves these are."""
    values = {parameter.name: builder(parameter.tree)(leaves) for parameter in parameters}
    positional = [
        values.pop(parameter.name)
        for parameter in parameters
        if parameter.kind is not ParameterKind.KEYWORD_ONLY
    ]
    return positional, values
