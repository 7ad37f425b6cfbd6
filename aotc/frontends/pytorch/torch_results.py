"""The structure that a model returns: torch's pytrees, of which jax has most."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.capture.model_files.model_archive import Damaged
from aotc.frontends.pytorch.torch_schema import NamedTupleFields, TreeSpec, decode

DEPTH_MAX = 64


@dataclass(frozen=True, slots=True)
class Structure:
    """kind: "leaf", "dict", "list" or "tuple".  names: keys of a dict."""

    kind: str
    names: tuple[str, ...] = ()
    children: tuple[Structure, ...] = ()

    def build(self, leaves: Iterator[Any]) -> Any:
        """Build the structure from leaves."""
        if self.kind == "leaf":
            return next(leaves)
        items = [child.build(leaves) for child in self.children]
        if self.kind == "dict":
            return dict(zip(self.names, items, strict=True))
        return items if self.kind == "list" else tuple(items)


def read_structure(text: str, leaves: int, named: Mapping[str, NamedTupleFields]) -> Structure:
    """The structure that a text describes. Raises Damaged if it has another number of leaves."""
    _, spec = decode(text.encode(), tuple[int, TreeSpec], "the structure of the results")
    made = _structure(spec, named, 0)
    if _leaves(made) != leaves:
        raise Damaged(f"a structure of {leaves} results", f"one of {_leaves(made)}")
    return made


def _leaves(structure: Structure) -> int:
    return 1 if structure.kind == "leaf" else sum(map(_leaves, structure.children))


def _structure(spec: TreeSpec, named: Mapping[str, NamedTupleFields], depth: int) -> Structure:
    if depth > DEPTH_MAX:
        raise Damaged(f"results at most {DEPTH_MAX} deep", "more")
    if spec.type is None:
        if spec.children_spec:
            raise Damaged("leaves without children", "others")
        return Structure("leaf")
    children = tuple(_structure(child, named, depth + 1) for child in spec.children_spec)
    if spec.type in ("builtins.list", "builtins.tuple"):
        return Structure(spec.type.removeprefix("builtins."), (), children)
    names = _names(spec, named, len(children))
    return Structure("tuple", (), children) if names is None else Structure("dict", names, children)


def _names(
    spec: TreeSpec, named: Mapping[str, NamedTupleFields], count: int
) -> tuple[str, ...] | None:
    """Names of fields or keys, if the file has them: dicts, named tuples, transformers' results."""
    context = spec.context
    if isinstance(context, str):
        try:
            context = json.loads(context)
        except (ValueError, RecursionError):
            context = None
    if isinstance(context, str) and context in named:
        context = list(named[context].field_names)
    if isinstance(context, Sequence) and len(context) == 2 and isinstance(context[1], list):
        # Some classes write themselves before their keys.
        context = context[1] if len(context[1]) == count else context
    if not isinstance(context, list) or len(context) != count:
        return None
    names = tuple(str(name) for name in context)
    if len(set(names)) != count or not all(name and name.isprintable() for name in names):
        raise Damaged("distinct printable names of results", repr(names)[:200])
    return names
