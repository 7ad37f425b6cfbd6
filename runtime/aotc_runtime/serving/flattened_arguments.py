"""Taking the leaves out of arguments by `schema.tree`, without jax."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.base.suggestions import with_article
from aotc_runtime.schema import pytrees
from aotc_runtime.schema.pytrees import Tree
from aotc_runtime.schema.result_records import Record

Leaves = dict[int, Any] | list[Any]
Flattener = Callable[[Any, Leaves], None]


def flattener(tree: Tree, where: str) -> Flattener:
    """Return a function that puts an argument's leaves in their places; made once, called often.

    It raises ShapeError (AOTC-E604) for another structure; `where` names the argument in messages.
    """
    match tree:
        case pytrees.Leaf(index=index):
            return _leaf_flattener(index)
        case pytrees.NoneNode():
            return _none_flattener(where)
        case pytrees.DictNode(items=items):
            return _dict_flattener(items, where)
        case pytrees.IntDictNode(keys=keys, items=children):
            return _dict_flattener(dict(zip(keys, children, strict=True)), where)
        case pytrees.NamedTupleNode(type=name, fields=fields, items=children):
            return _named_tuple_flattener(name, fields, children, where)
        case pytrees.RecordNode(type=name, fields=fields, items=children):
            return _record_flattener(name, fields, children, where)
        case pytrees.ListNode(items=children) | pytrees.TupleNode(items=children):
            wanted = "list" if isinstance(tree, pytrees.ListNode) else "tuple"
            return _sequence_flattener(wanted, children, where)


def flatten(tree: Tree, value: Any, where: str) -> Iterator[tuple[int, Any]]:
    """(leaf index, leaf) pairs of one value. Raises ShapeError (AOTC-E604)."""
    leaves: dict[int, Any] = {}
    flattener(tree, where)(value, leaves)
    return iter(leaves.items())


def _leaf_flattener(index: int) -> Flattener:
    def place(value: Any, leaves: Leaves) -> None:
        leaves[index] = value

    return place


def _none_flattener(where: str) -> Flattener:
    def check(value: Any, _: Leaves) -> None:
        if value is not None:
            raise _mismatch(where, "None", _kind(value))

    return check


def _dict_flattener(items: Mapping[Any, Tree], where: str) -> Flattener:
    parts = [(key, flattener(child, f"{where}/{key}")) for key, child in items.items()]
    keys = items.keys()

    def walk(value: Any, leaves: Leaves) -> None:
        if (type(value) is not dict and not isinstance(value, Mapping)) or value.keys() != keys:
            raise _mismatch(where, f"a dict with {_list_keys(keys)}", _describe(value, keys))
        for key, part in parts:
            part(value[key], leaves)

    return walk


def _field_flatteners(
    fields: tuple[str, ...], children: tuple[Tree, ...], where: str
) -> list[tuple[str, Flattener]]:
    return [
        (field, flattener(child, f"{where}/{field}"))
        for field, child in zip(fields, children, strict=True)
    ]


def _named_tuple_flattener(
    name: str, fields: tuple[str, ...], children: tuple[Tree, ...], where: str
) -> Flattener:
    parts = _field_flatteners(fields, children, where)

    def walk(value: Any, leaves: Leaves) -> None:
        if isinstance(value, tuple) and getattr(value, "_fields", None) == fields:
            # Its items, as jax takes them: an attribute may be a property that computes.
            for item, (_, part) in zip(tuple.__iter__(value), parts, strict=True):
                part(item, leaves)
        elif isinstance(value, Mapping) and value.keys() == set(fields):
            for field, part in parts:
                part(value[field], leaves)
        else:
            expected = f"a named tuple {name}({', '.join(fields)}), or a dict of its fields"
            raise _mismatch(where, expected, _describe(value, fields))

    return walk


def _record_flattener(
    name: str, fields: tuple[str, ...], children: tuple[Tree, ...], where: str
) -> Flattener:
    parts = _field_flatteners(fields, children, where)
    names = set(fields)

    def walk(value: Any, leaves: Leaves) -> None:
        if isinstance(value, (Mapping, Record)) and not _is_read_by_attribute(value, fields):
            # jax keeps the order of an OrderedDict, and another order is another structure.
            ordered = name == "OrderedDict" and isinstance(value, OrderedDict)
            if {*value} != names or (ordered and (*value,) != fields):
                raise _mismatch(where, f"{name}({', '.join(fields)})", _describe(value, fields))
            for field, part in parts:
                part(value[field], leaves)
        else:
            for field, part in parts:
                part(_field(value, field, name, where), leaves)

    return walk


def _is_read_by_attribute(value: Mapping[Any, Any] | Record, fields: tuple[str, ...]) -> bool:
    """Return whether a mapping holds its children elsewhere than among its items."""
    return (
        not isinstance(value, Record)
        and not any(field in value for field in fields)
        and all(hasattr(value, field) for field in fields)
    )


def _sequence_flattener(wanted: str, children: tuple[Tree, ...], where: str) -> Flattener:
    parts = [flattener(child, f"{where}/{index}") for index, child in enumerate(children)]

    def walk(value: Any, leaves: Leaves) -> None:
        if not isinstance(value, (list, tuple)) or len(value) != len(parts):
            raise _mismatch(where, f"a {wanted} of {len(parts)}", _kind(value))
        for item, part in zip(value, parts, strict=True):
            part(item, leaves)

    return walk


def _field(value: Any, field: str, name: str, where: str) -> Any:
    if hasattr(value, field):
        return getattr(value, field)
    raise _mismatch(where, f"{with_article(name)} with the field {field}", _kind(value))


def _mismatch(where: str, expected: str, found: str) -> AotcError:
    return refusal("AOTC-E604", where, found, expected=expected)


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a dict with " + (", ".join(map(repr, value)) or "no keys")
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return with_article(type(value).__name__)


def _list_keys(keys: Iterable[Any]) -> str:
    return ", ".join(map(repr, keys)) or "no keys"


def _describe(value: Any, names: Collection[Any]) -> str:
    """Return what was passed in place of these names, and how it differs from them."""
    fields = getattr(value, "_fields", None)
    if isinstance(value, Record):
        kind, given = "a Record", list(value)
    elif isinstance(value, Mapping):
        kind, given = "a dict", list(value)
    elif isinstance(fields, tuple):
        kind, given = f"a {type(value).__name__}", list(fields)
    else:
        return _kind(value)
    differences = [
        f"{what} {_list_keys(differing)}"
        for what, differing in (
            ("without", [name for name in names if name not in given]),
            ("with", [name for name in given if name not in names]),
        )
        if differing
    ]
    return f"{kind} {' and '.join(differences) or 'in the order ' + _list_keys(given)}"
