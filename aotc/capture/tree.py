"""From jax's pytrees to `aotc_runtime.schema.tree`, which a process without jax can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax

from aotc.errors import CaptureError
from aotc_runtime.errors import Finding
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


def key_name(key: Any) -> str:
    """A step of a jax key path as a name: dict key, attribute, or index."""
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def leaf_paths(tree: Any) -> list[tuple[str, Any]]:
    """Leaves in flattening order with their paths, steps joined by "/"; "" for a lone leaf."""
    return [
        ("/".join(key_name(key) for key in path), leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    ]


def check_paths(tree: Any, where: str) -> None:
    """Refuse two leaves with the same path, such as {"a/b": …, "a": {"b": …}}: a bundle names
    tensors by their paths. Raises CaptureError (AOTC-E833).
    """
    for path, count in Counter(path for path, _ in leaf_paths(tree)).items():
        if count > 1:
            raise CaptureError(
                Finding(
                    code="AOTC-E833",
                    where=where,
                    expected="leaves whose paths, steps joined by '/', are all different",
                    found=f"{path}, {count} times",
                    hint="rename a dict key; keys without '/' never collide",
                )
            )


def join(*steps: str) -> str:
    """Path steps joined by "/", empty ones left out."""
    return "/".join(step for step in steps if step)


def describe(tree: Any, counter: Iterator[int], where: str) -> Tree:
    """The structure of a pytree whose leaves take the next numbers of `counter`.

    Raises CaptureError (AOTC-E833) for a dict whose keys are not strings.
    """
    if tree is None:
        return NoneNode()
    level = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda node: node is not tree)[0]
    if len(level) == 1 and not level[0][0]:
        return Leaf(index=next(counter))
    names = tuple(key_name(path[0]) for path, _ in level)
    if type(tree) is dict:
        # jax leaves None out of the leaves, so absent children are looked up in the dict itself.
        for key in tree:
            if not isinstance(key, str):
                raise CaptureError(
                    Finding(
                        code="AOTC-E833",
                        where=where,
                        expected="a dict with string keys",
                        found=f"the key {key!r} of type {type(key).__name__}",
                        hint="use string keys; the manifest names leaves by them",
                    )
                )
        return DictNode(items={key: describe(tree[key], counter, where) for key in sorted(tree)})
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return NamedTupleNode(
            type=type(tree).__name__,
            fields=tuple(tree._fields),
            items=tuple(describe(child, counter, where) for child in tree),
        )
    if type(tree) is list:
        return ListNode(items=tuple(describe(child, counter, where) for child in tree))
    if type(tree) is tuple:
        return TupleNode(items=tuple(describe(child, counter, where) for child in tree))
    return RecordNode(
        type=type(tree).__name__,
        fields=names,
        items=tuple(describe(child, counter, where) for _, child in level),
    )
