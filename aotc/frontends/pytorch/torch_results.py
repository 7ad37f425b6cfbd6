"""Structures that a model takes and returns: torch's pytrees, of which jax has most."""

import json
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import jax

from aotc.capture import jax_trees
from aotc.capture.model_files.model_archive import Damaged
from aotc.frontends.pytorch.torch_schema import CallSignature, NamedTupleFields, TreeSpec, decode

DEPTH_MAX = 64


def read_structure(text: str, results: Sequence[int], named: Mapping[str, NamedTupleFields]) -> Any:
    """Return the structure that a text describes, with a number of `results` as each leaf.

    Raises Damaged if it has another number of leaves.
    """
    _, spec = decode(text.encode(), tuple[int, TreeSpec], "the structure of a call")
    numbers = count()
    made = _structure(spec, named, 0, numbers)
    if (found := next(numbers)) != len(results):
        raise Damaged(f"a structure of {len(results)} results", f"one of {found}")
    return jax.tree.map(lambda number: results[number], made)


def input_paths(
    call: CallSignature, names: Sequence[str | None], fields: Mapping[str, NamedTupleFields]
) -> dict[str, str]:
    """Return the paths of inputs in nested arguments, such as "past/0/1", by the graph's names.

    `names` has None for inputs that are numbers. The graph's names are made of the paths; nothing
    is returned where one is not, or where the file has no names of arguments.
    """
    try:
        args, kwargs = read_structure(call.in_spec, range(len(names)), fields)
        called = dict(zip(call.forward_arg_names or (), args, strict=False)) | kwargs
    except (Damaged, TypeError, ValueError):
        return {}
    leaves = [(names[number], path) for path, number in jax_trees.leaf_paths(called)]
    found = {name: path for name, path in leaves if name is not None and "/" in path}
    fits = all(path.replace("/", "_").lower() == name.lower() for name, path in found.items())
    return found if fits and len({*found.values()}) == len(found) else {}


def _structure(
    spec: TreeSpec, named: Mapping[str, NamedTupleFields], depth: int, numbers: Iterator[int]
) -> Any:
    if depth > DEPTH_MAX:
        raise Damaged(f"results at most {DEPTH_MAX} deep", "more")
    if spec.type is None:
        if spec.children_spec:
            raise Damaged("leaves without children", "others")
        return next(numbers)
    children = [_structure(child, named, depth + 1, numbers) for child in spec.children_spec]
    if spec.type in ("builtins.list", "builtins.tuple"):
        return children if spec.type == "builtins.list" else tuple(children)
    if isinstance(spec.context, str) and (known := named.get(spec.context)) is not None:
        name = spec.context.rpartition(".")[2]
        try:
            name = name if name.isidentifier() and name.isascii() else "Results"
            return namedtuple(name, known.field_names)(*children)
        except (TypeError, ValueError):
            expected = f"names of the {len(children)} fields of a named tuple"
            raise Damaged(expected, repr(known.field_names)[:200]) from None
    names = _names(spec, len(children))
    return tuple(children) if names is None else dict(zip(names, children, strict=True))


def _names(spec: TreeSpec, size: int) -> tuple[str, ...] | None:
    """Return names of fields or keys that the file has: of dicts, and results of transformers."""
    context = spec.context
    if isinstance(context, str):
        try:
            context = json.loads(context)
        except (ValueError, RecursionError):
            context = None
    if isinstance(context, Sequence) and len(context) == 2 and isinstance(context[1], list):
        # Some classes write themselves before their keys.
        context = context[1] if len(context[1]) == size else context
    if not isinstance(context, list) or len(context) != size:
        return None
    names = tuple(str(name) for name in context)
    if len(set(names)) != size or not all(name and name.isprintable() for name in names):
        raise Damaged("distinct printable names of results", repr(names)[:200])
    return names
