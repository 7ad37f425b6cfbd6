"""The inputs of an entry point: trees of arrays, as a manifest writes them.

    { shape = ["batch", 64], dtype = "float32" }                    an array
    { shape = ["batch"], dtype = "key<fry>" }                       random keys with a type
    { like = "train.model:initial_state", arguments = { … } }       whatever the function returns
    any other table                                                 a dict of inputs
    an array                                                        a list of inputs

A leaf's path is the parameter and the steps below it, joined by "/".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aotc.config.fields import (
    IDENTIFIER_EXPECTED,
    PLAIN_EXPECTED,
    REFERENCE_EXPECTED,
    is_function_reference,
    is_identifier,
    is_plain,
)
from aotc.config.problem import Problem, show, spell, unknown_key, unknown_reference
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.manifest import DType, KeyImpl

WIDE_DTYPES = frozenset({DType.INT64, DType.UINT64, DType.FLOAT64, DType.COMPLEX128})
"""What jax narrows to 32 bits unless it is told not to."""

KEY_DTYPES = {impl.dtype_name: impl for impl in KeyImpl}
"""Implementations of typed random keys by the names of their dtypes."""

_ARRAY_EXAMPLE = '{ shape = ["batch", 64], dtype = "float32" }'


@dataclass(frozen=True, slots=True)
class InputLeaf:
    """An array. shape: sizes, or names of dimensions; () for a scalar.

    dtype: for random keys with a type their implementation; the shape counts keys, not their words.
    """

    shape: tuple[int | str, ...]
    dtype: DType | KeyImpl


@dataclass(frozen=True, slots=True)
class InputLike:
    """A structure that a function tells: `function(**arguments)` returns a pytree of arrays.

    arguments: a string names a dimension, whose size is passed; anything else is passed as it is.
    """

    function: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InputDict:
    """A dict node."""

    items: Mapping[str, InputTree]


@dataclass(frozen=True, slots=True)
class InputList:
    """A list node."""

    items: tuple[InputTree, ...]


type InputTree = InputLeaf | InputLike | InputDict | InputList


@dataclass(slots=True)
class InputReader:
    """Reads the inputs of one manifest. dimensions: the declared names, or None if they cannot be
    told.  enable_x64: None if it cannot be told.  problems: collected while reading.
    """

    dimensions: Collection[str] | None
    enable_x64: bool | None
    problems: list[Problem] = field(default_factory=list)

    def read(self, raw: Any, path: KeyPath) -> InputTree | None:
        """The input of one parameter, or None if any part of it has a problem."""
        before = len(self.problems)
        tree = self._tree(raw, path)
        if len(self.problems) == before and next(leaf_paths(tree, ""), None) is None:
            hint = f"write {_ARRAY_EXAMPLE}, or remove the parameter"
            self._refuse(path, "at least one array", spell(raw), hint)
        return tree if len(self.problems) == before else None

    def _tree(self, raw: Any, path: KeyPath) -> InputTree:
        if isinstance(raw, list):
            return InputList(tuple(self._tree(item, (*path, i)) for i, item in enumerate(raw)))
        if not isinstance(raw, dict):
            expected = f"{_ARRAY_EXAMPLE}, or a table or an array of such"
            self._refuse(path, expected, show(raw), "give the input's shape and dtype")
            return InputList(())
        if "like" in raw:
            return self._like(raw, path)
        if _is_leaf(raw):
            return self._leaf(raw, path)
        for key in raw:
            if not is_step(key):
                expected = "a key of printable ASCII characters without '/'"
                hint = "leaf paths join the keys with '/'; choose another key"
                self._refuse((*path, key), expected, show(key), hint)
        return InputDict({key: self._tree(item, (*path, key)) for key, item in raw.items()})

    def _leaf(self, raw: Mapping[str, Any], path: KeyPath) -> InputLeaf:
        self._keys(raw, path, required=("shape", "dtype"))
        shape = raw.get("shape", [])
        if not isinstance(shape, list):
            expected = "an array of sizes and dimension names; [] for a scalar"
            self._refuse((*path, "shape"), expected, show(shape), 'write shape = ["batch", 64]')
            shape = []
        for index, axis in enumerate(shape):
            self._axis(axis, (*path, "shape", index))
        return InputLeaf(tuple(shape), self._dtype(raw.get("dtype", "bool"), (*path, "dtype")))

    def _axis(self, axis: Any, path: KeyPath) -> None:
        if isinstance(axis, str):
            self._dimension(axis, path)
        elif isinstance(axis, bool) or not isinstance(axis, int) or axis < 0:
            expected = "an integer of at least 0, or the name of a dimension"
            self._refuse(path, expected, show(axis), "write the size of the axis")

    def _dimension(self, name: str, path: KeyPath) -> None:
        if self.dimensions is not None and name not in self.dimensions:
            hint = f"declare [dimensions.{name}]"
            if not is_identifier(name):
                hint = "use a size or the name of a dimension; expressions are not possible here"
            self.problems.append(unknown_reference(path, "dimension", name, self.dimensions, hint))

    def _dtype(self, name: Any, path: KeyPath) -> DType | KeyImpl:
        if isinstance(name, str) and name in KEY_DTYPES:
            return KEY_DTYPES[name]
        if not isinstance(name, str) or name not in {known.value for known in DType}:
            is_key = isinstance(name, str) and name.startswith("key")
            expected = f"one of {', '.join([*(() if is_key else DType), *KEY_DTYPES])}"
            self._refuse(path, expected, show(name), "write the dtype's name as jax does")
            return DType.BOOL
        dtype = DType(name)
        if dtype in WIDE_DTYPES and self.enable_x64 is False:
            allowed = [known for known in DType if known not in WIDE_DTYPES]
            self._refuse(
                path,
                f"one of {', '.join(allowed)}, while enable_x64 is false",
                show(name),
                "add enable_x64 = true at the top of the file, or use a narrower dtype",
            )
        return dtype

    def _like(self, raw: Mapping[str, Any], path: KeyPath) -> InputLike:
        self._keys(raw, path, required=("like",), optional=("arguments",))
        function, arguments = raw["like"], raw.get("arguments", {})
        if not isinstance(function, str) or not is_function_reference(function):
            hint = "name the function that returns such a structure"
            self._refuse((*path, "like"), REFERENCE_EXPECTED, show(function), hint)
        if not isinstance(arguments, dict):
            expected = 'a table such as { batch = "batch", length = 128 }'
            hint = "give the function's keyword arguments"
            self._refuse((*path, "arguments"), expected, show(arguments), hint)
            arguments = {}
        for key, value in arguments.items():
            where = (*path, "arguments", key)
            if not is_identifier(key):
                hint = "give the function's keyword arguments"
                self._refuse(where, IDENTIFIER_EXPECTED, show(key), hint)
            if isinstance(value, str):
                self._dimension(value, where)
            elif not is_plain(value):
                self._refuse(where, PLAIN_EXPECTED, show(value), "write a date as a string")
        return InputLike(function, arguments)

    def _keys(
        self,
        raw: Mapping[str, Any],
        path: KeyPath,
        required: tuple[str, ...],
        optional: tuple[str, ...] = (),
    ) -> None:
        known = (*required, *optional)
        self.problems.extend(unknown_key((*path, key), known) for key in raw if key not in known)
        for key in required:
            if key not in raw:
                expected, hint = f"the key {key}", f"an array input is {_ARRAY_EXAMPLE}"
                self._refuse((*path, key), expected, "no such key", hint, code="AOTC-E804")

    def _refuse(
        self, path: KeyPath, expected: str, found: str, hint: str, *, code: str = "AOTC-E805"
    ) -> None:
        self.problems.append(Problem(code, path, expected, found, hint))


def dimensions_of(tree: InputTree) -> set[str]:
    """The names of the dimensions an input's shapes depend on."""
    match tree:
        case InputLeaf(shape=shape):
            return {axis for axis in shape if isinstance(axis, str)}
        case InputLike(arguments=arguments):
            return {value for value in arguments.values() if isinstance(value, str)}
        case InputDict(items=items):
            return {name for child in items.values() for name in dimensions_of(child)}
        case InputList(items=children):
            return {name for child in children for name in dimensions_of(child)}


def leaf_paths(tree: InputTree, path: str) -> Iterator[tuple[str, InputLeaf | InputLike]]:
    """The leaves of an input with their paths, in the order in which jax flattens it.

    path: of the input itself, its parameter.  A `like` counts as one leaf, whatever is below it.
    """
    match tree:
        case InputDict(items=items):
            for key in sorted(items):
                yield from leaf_paths(items[key], f"{path}/{key}")
        case InputList(items=children):
            for index, child in enumerate(children):
                yield from leaf_paths(child, f"{path}/{index}")
        case _:
            yield path, tree


def _is_leaf(raw: Mapping[str, Any]) -> bool:
    """Whether a table is an array input, or was meant to be one: it has one of the two keys and
    nothing that could be an input of its own.
    """
    if raw.keys() == {"shape", "dtype"}:
        return True
    return not raw.keys().isdisjoint({"shape", "dtype"}) and not any(
        isinstance(value, dict)
        or (isinstance(value, list) and any(isinstance(item, dict | list) for item in value))
        for value in raw.values()
    )


def is_step(key: str) -> bool:
    return bool(key) and key.isascii() and key.isprintable() and "/" not in key
