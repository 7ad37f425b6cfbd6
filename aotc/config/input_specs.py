"""The inputs of an entry point: trees of arrays, as a manifest writes them.

    { shape = ["batch", 64], dtype = "float32" }                    an array
    { shape = ["batch"], dtype = "key<fry>" }                       random keys with a type
    { like = "train.model:initial_state", arguments = { … } }       whatever the function returns
    any other table                                                 a dict of inputs
    an array                                                        a list of inputs

A leaf's path is the parameter and the steps below it, joined by "/".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, PlainValidator, TypeAdapter

from aotc.config import field_types
from aotc.config.dtype_names import OTHER_DTYPES
from aotc.config.manifest_problem import Problem, spell, unknown_reference
from aotc.config.toml_validation import DEFERRED, Section
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema import tensor_text
from aotc_runtime.schema.bundle_manifest import DType, KeyImpl

WIDE_DTYPES = frozenset({DType.INT64, DType.UINT64, DType.FLOAT64, DType.COMPLEX128})
"""Types that jax narrows to 32 bits unless it is configured otherwise."""

KEY_DTYPES = {name: impl for impl, name in tensor_text.KEY_DTYPES.items()}
"""Implementations of typed random keys by the names of their dtypes."""

_ARRAY_EXAMPLE = '{ shape = ["batch", 64], dtype = "float32" }'
_DTYPE_HINT = "write the name that jax uses, such as `float32`"
_ARRAY_HINT = f"an array input is {_ARRAY_EXAMPLE}"


def _axis(raw: object) -> int | str:
    if isinstance(raw, str) or (type(raw) is int and raw >= 0):
        return raw
    expected = "an integer of at least 0, or the name of a dimension"
    raise field_types.refusal(expected, "write the size of the axis")


_Axis = Annotated[int | str, PlainValidator(_axis)]


def _dtype(raw: object) -> DType | KeyImpl:
    if isinstance(raw, str) and raw in KEY_DTYPES:
        return KEY_DTYPES[raw]
    if isinstance(raw, str) and raw in {known.value for known in DType}:
        return DType(raw)
    is_key = isinstance(raw, str) and raw.startswith("key")
    known = [*(() if is_key else DType), *KEY_DTYPES]
    meant = OTHER_DTYPES.get(raw) if isinstance(raw, str) else None
    hint = f"did you mean `{meant}`?" if meant else did_you_mean(raw, known, _DTYPE_HINT)
    raise field_types.refusal(f"one of: {', '.join(known)}", hint)


@dataclass(frozen=True, slots=True)
class InputLeaf(Section):
    """An array.

    `shape` has sizes or names of dimensions; () for a scalar. `stated` is its dtype, for typed
    random keys their implementation; the shape then counts keys, not their words. It is None where
    the dtype comes from the entry point's model file.
    """

    shape: Annotated[tuple[_Axis, ...], field_types.Arrayed, Field(description=_ARRAY_HINT)]
    stated: Annotated[DType | KeyImpl | None, PlainValidator(_dtype), Field(alias="dtype")] = None

    @property
    def dtype(self) -> DType | KeyImpl:
        """Return the dtype, from the manifest or from the model file."""
        assert self.stated is not None, "the capture has asked the model file"
        return self.stated


@dataclass(frozen=True, slots=True)
class InputLike(Section):
    """A structure given by a function: `function(**arguments)` returns a pytree of arrays.

    A string in `arguments` names a dimension, whose size is passed; other values stay.
    """

    function: Annotated[field_types.FunctionReference, Field(alias="like")]
    arguments: Mapping[field_types.Identifier, field_types.PlainValue] = field(default_factory=dict)

    def arguments_at(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Return what the function is called with."""
        return {name: sizes[v] if isinstance(v, str) else v for name, v in self.arguments.items()}


@dataclass(frozen=True, slots=True)
class InputDict:
    """A dict node."""

    items: Mapping[str, InputTree]


@dataclass(frozen=True, slots=True)
class InputList:
    """A list node."""

    items: tuple[InputTree, ...]


type InputTree = InputLeaf | InputLike | InputDict | InputList


def _tree(raw: object) -> InputTree:
    match raw:
        case list():
            return InputList(_TREES.validate_python(raw))
        case dict() if "like" in raw:
            return _LIKE.validate_python(raw)
        case dict() if _is_leaf(raw):
            return _LEAF.validate_python(raw)
        case dict():
            return InputDict(_ITEMS.validate_python(raw))
    expected = f"{_ARRAY_EXAMPLE}, or a table or an array of such"
    raise field_types.refusal(expected, "give the input's shape and dtype")


def _input(raw: object) -> InputTree:
    tree = _tree(raw)
    if next(leaves_of(tree), None) is None:
        hint = f"write {_ARRAY_EXAMPLE}, or remove the parameter"
        raise field_types.refusal("at least one array", hint, found=spell(raw))
    return tree


def is_step(key: str) -> bool:
    """Return whether a key can be a step of a leaf's path."""
    return bool(key) and key.isascii() and key.isprintable() and "/" not in key


_Step = Annotated[
    str,
    field_types.accepting(
        is_step,
        "a key of printable ASCII characters without '/'",
        "leaf paths join the keys with '/'; choose another key",
    ),
]
_Tree = Annotated[InputTree, PlainValidator(_tree)]
_TREES = TypeAdapter(tuple[_Tree, ...], config=DEFERRED)
_ITEMS = TypeAdapter(dict[_Step, _Tree], config=DEFERRED)
_LIKE, _LEAF = TypeAdapter(InputLike), TypeAdapter(InputLeaf)

Input = Annotated[InputTree, PlainValidator(_input)]
"""The input of one parameter."""


def check_input(
    tree: InputTree, path: KeyPath, dimensions: Collection[str], *, enable_x64: bool, of_file: bool
) -> Iterator[Problem]:
    """Require declared dimensions, and dtypes that are stated and not narrowed by jax.

    `of_file` is whether a model file describes the input.
    """
    for at, leaf in leaves_of(tree, path):
        if isinstance(leaf, InputLike):
            for key, value in leaf.arguments.items():
                if isinstance(value, str):
                    yield from _undeclared((*at, "arguments", key), value, dimensions)
            continue
        for index, axis in enumerate(leaf.shape):
            if isinstance(axis, str):
                yield from _undeclared((*at, "shape", index), axis, dimensions)
        dtype = leaf.stated
        if dtype is None and not of_file:
            yield Problem("AOTC-E804", (*at, "dtype"), _ARRAY_HINT)
        if dtype in WIDE_DTYPES and not enable_x64:
            allowed = [known for known in DType if known not in WIDE_DTYPES]
            yield Problem(
                "AOTC-E805",
                (*at, "dtype"),
                "set `enable_x64 = true`, or use a 32-bit dtype",
                expected=f"one of: {', '.join(allowed)}",
                found=spell(dtype.value),
                cause="64-bit-dtypes-are-disabled",
            )


def _undeclared(path: KeyPath, name: str, dimensions: Collection[str]) -> Iterator[Problem]:
    if name not in dimensions:
        hint = f"declare [dimensions.{name}]"
        if not field_types.is_identifier(name):
            hint = "use a size or the name of a dimension; expressions are not possible here"
        yield unknown_reference(path, "dimension", name, dimensions, hint)


def dimensions_of(tree: InputTree) -> set[str]:
    """Return the names of the dimensions that an input's shapes depend on."""
    return {
        name
        for _, leaf in leaves_of(tree)
        for name in (leaf.shape if isinstance(leaf, InputLeaf) else leaf.arguments.values())
        if isinstance(name, str)
    }


def with_leaves[V](
    tree: InputTree, at: KeyPath, value: Callable[[InputLeaf | InputLike, KeyPath], V]
) -> Any:
    """Return dicts and lists like an input's, with the value of each leaf at its key path."""
    match tree:
        case InputDict(items=items):
            return {key: with_leaves(child, (*at, key), value) for key, child in items.items()}
        case InputList(items=children):
            return [with_leaves(child, (*at, i), value) for i, child in enumerate(children)]
        case _:
            return value(tree, at)


def all_leaves(inputs: Mapping[str, InputTree]) -> dict[str, InputLeaf | InputLike]:
    """Map paths to the leaves of all inputs, each in the order in which jax flattens it."""
    return {
        "/".join(map(str, path)): leaf
        for name, tree in inputs.items()
        for path, leaf in leaves_of(tree, (name,))
    }


def leaves_of(
    tree: InputTree, path: KeyPath = ()
) -> Iterator[tuple[KeyPath, InputLeaf | InputLike]]:
    """Yield the leaves of an input with their key paths, in the order in which jax flattens it.

    `path` is that of the input. A `like` counts as one leaf, whatever is below it.
    """
    match tree:
        case InputDict(items=items):
            for key in sorted(items):
                yield from leaves_of(items[key], (*path, key))
        case InputList(items=children):
            for index, child in enumerate(children):
                yield from leaves_of(child, (*path, index))
        case _:
            yield path, tree


def _is_leaf(raw: Mapping[str, object]) -> bool:
    """Return whether a table is an array input, or was meant to be one.

    It then has one of the two keys, and no value that could be an input of its own.
    """
    if raw.keys() == {"shape", "dtype"}:
        return True
    return not raw.keys().isdisjoint({"shape", "dtype"}) and not any(
        isinstance(value, dict)
        or (isinstance(value, list) and any(isinstance(item, dict | list) for item in value))
        for value in raw.values()
    )
