"""Structures of arguments and results as people write them in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import starmap

from aotc_runtime.schema.bundle_manifest import EntryPoint, TensorSpec
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
from aotc_runtime.schema.tensor_text import tensor_text


def structures(entry_point: EntryPoint) -> dict[str, str]:
    """The structure of each parameter and of the result, but for those that are one array: by
    parameter and "result", such as "State(step=weak int32[], params={'w': float32[2, 3]})".
    """
    found = {
        parameter.name: structure_text(parameter.tree, entry_point.inputs)
        for parameter in entry_point.parameters
        if not isinstance(parameter.tree, Leaf)
    }
    if not isinstance(entry_point.result, Leaf):
        found["result"] = structure_text(entry_point.result, entry_point.outputs)
    return found


def structure_text(tree: Tree, specs: Sequence[TensorSpec]) -> str:
    """A structure with its classes' names, and its leaves' dtypes and shapes."""

    def joined(items: Sequence[Tree]) -> str:
        return ", ".join(structure_text(item, specs) for item in items)

    def fields(names: Sequence[str], items: Sequence[Tree]) -> Iterator[str]:
        for name, item in zip(names, items, strict=True):
            yield f"{name}={structure_text(item, specs)}"

    def pair(key: str | int, item: Tree) -> str:
        return f"{key!r}: {structure_text(item, specs)}"

    match tree:
        case Leaf(index=index):
            spec = specs[index]
            return f"weak {tensor_text(spec)}" if spec.weak_type else tensor_text(spec)
        case NoneNode():
            return "None"
        case DictNode(items=named):
            return f"{{{', '.join(starmap(pair, sorted(named.items())))}}}"
        case IntDictNode(keys=keys, items=items):
            return f"{{{', '.join(map(pair, keys, items))}}}"
        case ListNode(items=items):
            return f"[{joined(items)}]"
        case TupleNode(items=items):
            return f"({joined(items)}{',' * (len(items) == 1)})"
        case NamedTupleNode(type=name, fields=names, items=items):
            return f"{name}({', '.join(fields(names, items))})"
        case RecordNode(type=name, fields=names, items=items):
            return f"{name}({', '.join(fields(names, items))})"
