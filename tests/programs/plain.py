"""Values with their structure, in files that processes with and without jax read alike.

A document is a tree of lists, and an archive with the bytes of the leaves. Nothing of aotc is used
to write one: on jax's side a value is taken apart by jax's own paths, on the server's side by the
types that Python sees.

A node is one of

- `["leaf", number]`: an array of the archive, with its dtype and shape in `leaves`;
- `["number", value]`: a Python bool, int or float;
- `["none"]`;
- `["dict", [[key, node], …]]`: a dict, its keys sorted by their text;
- `["list", [node, …]]` and `["tuple", [node, …]]`;
- `["named tuple", type, [[field, node], …]]`;
- `["record", type, [[field, node], …]]`: an instance of any other class that jax knows, with the
  children and the names that jax gives.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  # numpy learns the names of its dtypes
import numpy as np

type Node = list[Any]
type OneLevel = Callable[[Any], tuple[str, Any]]
"""A value's kind and what stands in it: for "leaf" the array, for "record" a type's name and
children by name, and so on as in a node, with values where a node has nodes.
"""


class Writer:
    """Takes values apart and collects their leaves. one_level: how, on this side."""

    def __init__(self, one_level: OneLevel) -> None:
        self._one_level = one_level
        self._data: list[Any] = []

    def node(self, value: Any) -> Node:
        kind, inside = self._one_level(value)
        match kind:
            case "leaf":
                self._data.append(np.asarray(inside))
                return [kind, len(self._data) - 1]
            case "number":
                return [kind, inside]
            case "none":
                return [kind]
            case "dict":
                return [kind, self._named(sorted(inside.items(), key=lambda item: str(item[0])))]
            case "list" | "tuple":
                return [kind, [self.node(child) for child in inside]]
            case _:
                type_, children = inside
                return [kind, type_, self._named(children)]

    def _named(self, children: Any) -> list[list[Any]]:
        return [[name, self.node(child)] for name, child in children]

    def save(self, path: Path, document: Any) -> None:
        """Write the document, which holds nodes of this writer, and all leaves beside it."""
        leaves = [(array.dtype.name, array.shape) for array in self._data]
        path.with_suffix(".json").write_text(json.dumps([document, leaves]))
        data = {str(n): np.frombuffer(a.tobytes(), np.uint8) for n, a in enumerate(self._data)}
        np.savez(path.with_suffix(".npz"), **data)


def read(path: Path) -> tuple[Any, list[Any]]:
    """The document and the arrays that its leaves stand for."""
    document, described = json.loads(path.with_suffix(".json").read_text())
    with np.load(path.with_suffix(".npz")) as archive:
        return document, [
            np.frombuffer(archive[str(n)].tobytes(), np.dtype(dtype)).reshape(shape)
            for n, (dtype, shape) in enumerate(described)
        ]
