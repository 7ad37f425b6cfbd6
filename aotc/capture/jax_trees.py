"""Converts jax's pytrees to `aotc_runtime.schema.pytrees`, which need no jax to read."""

import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import jax

from aotc.base.errors import refusal
from aotc.capture import jax_private
from aotc_runtime.schema import pytrees
from aotc_runtime.schema.pytrees import INTEGER_MAX, Tree


def key_name(key: Any) -> str:
    """Return a step of a jax key path as a name: dict key, attribute, or index."""
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def leaf_paths(tree: Any) -> list[tuple[str, Any]]:
    """Return leaves in flattening order with paths, joined by "/"; "" for a lone leaf."""
    return [
        ("/".join(key_name(key) for key in path), leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    ]


def check_paths(tree: Any, where: str) -> None:
    """Reject two leaves with the same path, such as {"a/b": …, "a": {"b": …}}.

    A bundle names tensors by their paths. Raises CaptureError (AOTC-E833).
    """
    for path, count in Counter(path for path, _ in leaf_paths(tree)).items():
        if count > 1:
            found = f"{path}, {count} times"
            raise refusal("AOTC-E833", where, found, cause="duplicate-path-in-the-structure")


def abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    """Return an array, a Python number or an aval as `jax.jit` sees it: shape and types."""
    aval = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def is_number(leaf: Any) -> bool:
    """Return whether a leaf is a Python number, for which jax makes a weakly typed scalar."""
    return type(leaf) in (bool, int, float, complex)


def join(*steps: str) -> str:
    """Join path steps by "/", leaving out empty ones."""
    return "/".join(step for step in steps if step)


def describe(tree: Any, counter: Iterator[int], where: str) -> Tree:
    """Return the structure of a pytree of arrays or avals; leaves take numbers of `counter`.

    Children and their order are those of jax's registry, whatever the class looks like. Raises
    CaptureError (AOTC-E833) for a dict whose keys a bundle cannot name, and for a class that a
    caller would read or fill in another way than jax does.
    """
    found: list[Any] = []
    described = _describe(tree, counter, where, (), found)
    leaves = jax.tree.leaves(tree)
    if len(found) != len(leaves) or any(a is not b for a, b in zip(found, leaves, strict=True)):
        cause, hint = CLASS, "let the class flatten to the same children every time"
        raise refusal("AOTC-E833", where, "another order each time", cause=cause, hint=hint)
    return described


CLASS = "class-is-not-registered-consistently"
"""The cause of AOTC-E833 for a class whose children callers would read differently."""


def _at(where: str, path: tuple[str, ...]) -> str:
    return f"{where} {join(*path)}".rstrip()


def _describe(
    tree: Any, counter: Iterator[int], where: str, path: tuple[str, ...], found: list[Any]
) -> Tree:
    """Describe a tree, and append its leaves to `found` in the order of their numbers."""
    if tree is None:
        return pytrees.NoneNode()
    # None is among the children here, which jax otherwise takes for a node without any.
    level = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda node: node is not tree)[0]
    if len(level) == 1 and not level[0][0]:
        found.append(tree)
        return pytrees.Leaf(index=next(counter))
    keys, children = [step[0] for step, _ in level], [child for _, child in level]
    items = tuple(
        _describe(child, counter, where, (*path, key_name(key)), found)
        for key, child in zip(keys, children, strict=True)
    )
    if type(tree) is dict:
        return _dict_node([key.key for key in keys], items, where, path)
    if type(tree) is list:
        return pytrees.ListNode(items=items)
    if type(tree) is tuple:
        return pytrees.TupleNode(items=items)
    if _is_plain_named_tuple(tree, keys, children):
        _require_readable(tree, tuple(tree._fields), children, where, path)
        return pytrees.NamedTupleNode(
            type=type(tree).__name__, fields=tuple(tree._fields), items=items
        )
    fields = _field_names(tree, keys)
    if len(set(fields)) < len(fields):
        expected = f"distinct names of the children of {type(tree).__name__}"
        raise refusal(
            "AOTC-E833", _at(where, path), ", ".join(fields), cause=CLASS, expected=expected
        )
    _require_readable(tree, fields, children, where, path)
    return pytrees.RecordNode(type=type(tree).__name__, fields=fields, items=items)


def _dict_node(keys: list[Any], items: tuple[Tree, ...], where: str, path: tuple[str, ...]) -> Tree:
    if all(type(key) is str for key in keys):
        return pytrees.DictNode(items=dict(zip(keys, items, strict=True)))
    if all(type(key) is int and abs(key) <= INTEGER_MAX for key in keys):
        return pytrees.IntDictNode(keys=tuple(keys), items=items)
    if all(jax_private.is_error_effect(key) for key in keys):
        return pytrees.RecordNode(type="dict", fields=tuple(map(str, keys)), items=items)
    kinds = [str] if type(keys[0]) is str else [int]
    other = next(
        k for k in keys if type(k) not in kinds or (type(k) is int and abs(k) > INTEGER_MAX)
    )
    found = f"the key {other!r} of type {type(other).__name__}"
    expected = "strings, or 64-bit integers, as keys"
    hint = 'use such keys, for example `f"{a},{b}"` for `(a, b)`'
    raise refusal("AOTC-E833", _at(where, path), found, expected=expected, hint=hint)


def _is_plain_named_tuple(tree: Any, keys: list[Any], children: list[Any]) -> bool:
    """Return whether jax takes the fields of a named tuple in their order.

    A registration of its own may give other children, or another order.
    """
    return (
        isinstance(tree, tuple)
        and hasattr(tree, "_fields")
        and keys == [jax.tree_util.GetAttrKey(field) for field in tree._fields]
        and all(child is item for child, item in zip(children, tuple.__iter__(tree), strict=True))
    )


def _field_names(tree: Any, keys: list[Any]) -> tuple[str, ...]:
    """Return the names of a class's children.

    A named tuple registered without names has those of the fields that its children become.
    """
    names = tuple(map(key_name, keys))
    numbered = all(isinstance(key, jax.tree_util.FlattenedIndexKey) for key in keys)
    if not (numbered and isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return names
    fields: list[list[str]] = []
    with suppress(Exception):  # of the class' own code, which may expect arrays
        marked, marks = _mark_children(tree)
        fields = [[f for f in tree._fields if getattr(marked, f) is mark] for mark in marks]
    return tuple(f[0] for f in fields) if {*map(len, fields)} == {1} else names


def _mark_children(tree: Any) -> tuple[Any, list[Any]]:
    """Return a like container with a new object for each child, and these objects.

    Raises whatever the class raises, which may expect arrays.
    """
    children, structure = jax.tree.flatten(tree, is_leaf=lambda node: node is not tree)
    marks = [object() for _ in children]
    return jax.tree.unflatten(structure, marks), marks


def _finds(tree: Any, field: str, child: Any) -> bool | None:
    """Return whether a caller finds a child under its name.

    None if the class raises, or has no such name and so nothing to mistake for the child.
    """
    try:
        seen = tree[field] if isinstance(tree, Mapping) and field in tree else getattr(tree, field)
    except Exception:  # noqa: BLE001 - a property that wants arrays raises anything
        return None
    leaves, wanted = jax.tree.leaves(seen), jax.tree.leaves(child)
    return len(leaves) == len(wanted) and all(map(operator.is_, leaves, wanted))


def _require_readable(
    tree: Any, fields: tuple[str, ...], children: list[Any], where: str, path: tuple[str, ...]
) -> None:
    """Reject a class that has another value under a child's name than the child.

    The loader reads arguments and names results by these names. Raises CaptureError (AOTC-E833).
    """
    subjects = [(tree, children)]
    with suppress(Exception):  # of the class' own code, which may expect arrays
        subjects.append(_mark_children(tree))
    for place, field in enumerate(fields):
        found = [_finds(subject, field, parts[place]) for subject, parts in subjects]
        # A property that computes raises for both, where an attribute gives at least one.
        computed = {None} == {*found} and isinstance(getattr(type(tree), field, None), property)
        if False in found or computed:
            name = type(tree).__name__
            other = f"another value in {name}.{field}"
            expected = f"the child that {name} registers as {field}"
            raise refusal("AOTC-E833", _at(where, path), other, cause=CLASS, expected=expected)
