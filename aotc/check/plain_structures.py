"""Arguments and results of plain JAX in a form that a process without jax can use.

It passes them to the loader, and compares the results. This shares no code with the description of
structures in bundles (`schema.tree`), since it checks that description.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import ml_dtypes
import numpy as np
from msgspec import Struct

from aotc.base.msgpack_values import ValueFile
from aotc.base.stages import file_stem
from aotc_runtime.schema.manifest_labels import ExecutableKey
from aotc_runtime.serving.readiness import compare

type Array = np.ndarray[Any, Any]


class Leaf(Struct, frozen=True, tag_field="node", tag="leaf"):
    """An array; `is_number` if the caller has a Python number instead."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    is_number: bool = False


class Nothing(Struct, frozen=True, tag_field="node", tag="none"):
    """None."""


class Node(Struct, frozen=True, tag_field="node", tag="node"):
    """A container.

    `kind` is "class" for any registered class, and `type` its name or a named tuple's. `names` has,
    for each item, all names by which a caller may know it; the first that exists counts.
    """

    kind: Literal["dict", "list", "tuple", "named tuple", "class"]
    type: str
    names: tuple[tuple[str | int, ...], ...]
    items: tuple[Leaf | Nothing | Node, ...]


type Spelled = Leaf | Nothing | Node


class Passed(Struct, frozen=True):
    """An argument of a bundle's caller, and whether Python lets it pass by position and by name."""

    name: str
    value: Spelled
    by_position: bool
    by_name: bool


class PlainCall(Struct, frozen=True):
    """One call of an entry point, with the sizes of an executable.

    `arguments` are in the function's order; `result` is that of plain JAX.
    """

    key: ExecutableKey
    arguments: tuple[Passed, ...]
    result: Spelled


def call_file(folder: Path, key: ExecutableKey) -> ValueFile[PlainCall]:
    """Return the file of a call in a build's folder."""
    return ValueFile(folder / f"plain.{file_stem(key)}.msgpack", PlainCall)


def leaf_of(array: Array, *, is_number: bool = False) -> Leaf:
    """Return an array of any dtype that jax has."""
    return Leaf(array.dtype.name, array.shape, np.ascontiguousarray(array).tobytes(), is_number)


def array_of(leaf: Leaf) -> Array:
    """Return the array again; it may be written to."""
    dtype = np.dtype(getattr(ml_dtypes, leaf.dtype, leaf.dtype))
    return np.frombuffer(bytearray(leaf.data), dtype).reshape(leaf.shape)


def as_argument(spelled: Spelled) -> Any:
    """Return an argument as a caller without the program's libraries passes it.

    It consists of numpy arrays and Python's containers; a registered class becomes an object with
    its children under every name.
    """
    match spelled:
        case Nothing():
            return None
        case Leaf():
            array = array_of(spelled)
            return array.item() if spelled.is_number else array
    items = [as_argument(item) for item in spelled.items]
    match spelled.kind:
        case "list":
            return items
        case "tuple":
            return tuple(items)
        case "named tuple":
            fields = [str(names[0]) for names in spelled.names]
            return namedtuple(spelled.type, fields)(*items)
        case "dict":
            return {names[0]: item for names, item in zip(spelled.names, items, strict=True)}
        case "class":
            pairs = zip(spelled.names, items, strict=True)
            return SimpleNamespace(**{str(name): i for names, i in pairs for name in names})


def differences(
    expected: Spelled, found: Any, rtol: float, atol: float, path: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield each path where the loader differs from plain JAX, with both values.

    Structure, dtypes, shapes, and numbers beyond the tolerance are compared.
    """
    where = path or "the result"
    match expected:
        case Nothing():
            if found is not None:
                yield where, "None", type(found).__name__
            return
        case Leaf():
            yield from _array_differences(expected, found, rtol, atol, where)
            return
    if not _is_kind(expected, found):
        yield where, f"a {expected.kind} {expected.type}".rstrip(), repr(found)[:80]
        return
    wanted = [names[0] for names in expected.names]
    if expected.kind != "class" and (given := _names(expected, found)) != wanted:
        yield where, f"items {wanted}", f"items {given}"
        return
    for names, item in zip(expected.names, expected.items, strict=True):
        inner = f"{path}/{names[0]}" if path else str(names[0])
        try:
            value = _item(expected, found, names)
        except LookupError:
            yield inner, "an item", "none"
            continue
        yield from differences(item, value, rtol, atol, inner)


def _array_differences(
    expected: Leaf, found: Any, rtol: float, atol: float, where: str
) -> Iterator[tuple[str, str, str]]:
    reference = array_of(expected)
    if not isinstance(found, np.ndarray):
        yield where, "a numpy array", type(found).__name__
    elif (found.dtype, found.shape) != (reference.dtype, reference.shape):
        wanted = f"{reference.dtype.name}{list(reference.shape)}"
        yield where, wanted, f"{found.dtype.name}{list(found.shape)}"
    elif not (difference := compare(found, reference, rtol, atol)).within:
        text = f"max abs error {difference.max_abs:.3g}, max rel error {difference.max_rel:.3g}"
        yield where, f"the same numbers within rtol={rtol} atol={atol}", text


def _is_kind(expected: Node, found: Any) -> bool:
    match expected.kind:
        case "named tuple":
            return isinstance(found, tuple) and type(found).__name__ == expected.type
        case "class":
            return repr(found).startswith(f"{expected.type}(")
    return type(found) is {"dict": dict, "list": list, "tuple": tuple}[expected.kind]


def _names(expected: Node, found: Any) -> list[Any]:
    match expected.kind:
        case "dict":
            # In the order of a dict there is no meaning; 1 and True are not the same name.
            order = {names[0]: place for place, names in enumerate(expected.names)}
            names = sorted(found, key=lambda name: order.get(name, len(order)))
            return [name if type(name) in (str, int) else repr(name) for name in names]
        case "named tuple":
            return list(getattr(found, "_fields", ()))
        case _:
            return list(range(len(found)))


def _item(expected: Node, found: Any, names: tuple[str | int, ...]) -> Any:
    """Raises LookupError."""
    match expected.kind:
        case "named tuple":
            return getattr(found, str(names[0]))
        case "class":
            for name in names:
                if hasattr(found, str(name)):
                    return getattr(found, str(name))
            raise LookupError(names)
        case _:
            return found[names[0]]


def is_unchanged(spelled: Spelled, argument: Any) -> bool:
    """Return whether an argument that was passed still holds what it was made from."""
    match spelled:
        case Nothing():
            return argument is None
        case Leaf():
            return np.asarray(argument, array_of(spelled).dtype).tobytes() == spelled.data
    values: list[Any]
    if isinstance(argument, SimpleNamespace):
        values = [getattr(argument, str(names[0])) for names in spelled.names]
    elif isinstance(argument, dict):
        values = [argument[names[0]] for names in spelled.names]
    else:
        values = list(argument)
    return all(map(is_unchanged, spelled.items, values))
