"""Pytrees as data, so that a process without jax can flatten arguments and rebuild results.

A `Leaf` holds the index of its tensor in the entry point's `inputs` or `outputs`. Dict items are
in sorted key order, which is the order in which jax flattens a dict.
"""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Annotated, Any

from msgspec import Meta, Struct

INTEGER_MAX = 2**63 - 1
"""JSON has no limit; a number of 4000 digits is one that no other part of the reader expects."""


class _Node(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="node"):
    """Base of every node."""


class Leaf(_Node, frozen=True, tag="leaf"):
    """One array: `index` into the entry point's inputs or outputs."""

    index: Annotated[int, Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]


class NoneNode(_Node, frozen=True, tag="none"):
    """`None`, which jax treats as a node without children."""


class DictNode(_Node, frozen=True, tag="dict"):
    """A dict with string keys."""

    items: dict[str, "Tree"]


class IntDictNode(_Node, frozen=True, tag="intdict"):
    """A dict with integer keys, which ascend; one item for each."""

    keys: tuple[Annotated[int, Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)], ...]
    items: tuple["Tree", ...]


class ListNode(_Node, frozen=True, tag="list"):
    """A list."""

    items: tuple["Tree", ...]


class TupleNode(_Node, frozen=True, tag="tuple"):
    """A plain tuple."""

    items: tuple["Tree", ...]


class NamedTupleNode(_Node, frozen=True, tag="namedtuple"):
    """A named tuple; the runtime rebuilds one with the same type name and fields."""

    type: str
    fields: tuple[str, ...]
    items: tuple["Tree", ...]


class RecordNode(_Node, frozen=True, tag="record"):
    """Any other registered pytree (Equinox module, dataclass): its type name and named children."""

    type: str
    fields: tuple[str, ...]
    items: tuple["Tree", ...]


type Tree = (
    Leaf | NoneNode | DictNode | IntDictNode | ListNode | TupleNode | NamedTupleNode | RecordNode
)


def children(tree: Tree) -> tuple[Tree, ...]:
    """Return the direct children in flattening order; empty for a leaf or None."""
    match tree:
        case Leaf() | NoneNode():
            return ()
        case DictNode(items=items):
            return tuple(items[key] for key in sorted(items))
        case _:
            return tree.items


def is_deeper(tree: Tree, levels: int) -> bool:
    """Return whether the tree has more levels, without recursion."""
    level = [tree]
    for _ in range(levels):
        level = [child for node in level for child in children(node)]
        if not level:
            return False
    return True


def leaves(tree: Tree) -> Iterator[int]:
    """Yield the indices of the leaves, in flattening order."""
    if isinstance(tree, Leaf):
        yield tree.index
    for child in children(tree):
        yield from leaves(child)


Builder = Callable[[list[Any]], Any]


def builder(tree: Tree) -> Builder:
    """Return a function that rebuilds the pytree from its leaves; made once, called often."""
    match tree:
        case Leaf(index=index):
            return itemgetter(index)
        case NoneNode():
            return lambda leaves: None
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
        case NamedTupleNode() | RecordNode():
            from aotc_runtime.schema.result_records import record_maker, tuple_maker

            is_tuple = isinstance(tree, NamedTupleNode)
            make = (tuple_maker if is_tuple else record_maker)(tree.type, tree.fields)
            parts = [builder(child) for child in tree.items]
            return lambda leaves: make([build(leaves) for build in parts])
