"""The build manifest: which functions to build, at which shapes, with which weights and targets.

`read_build_manifest` reports every problem of a file at once (docs/build-manifest.md lists the
keys). Paths are resolved against the manifest's folder.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from aotc.config import document as toml
from aotc.config.document import Document
from aotc.errors import raise_if
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import DType

NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"
VERSION = re.compile(r"\A(0|[1-9]\d*)(\.(0|[1-9]\d*)){0,3}([-+.]?[A-Za-z][A-Za-z0-9.+-]*)?\Z")
WIDE_DTYPES = frozenset({"int64", "uint64", "float64", "complex128"})


@dataclass(frozen=True, slots=True)
class InputLeaf:
    """An array. shape: sizes, or names of dimensions."""

    shape: tuple[int | str, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class InputLike:
    """A structure that a function tells: `function(**arguments)` returns a pytree of arrays.

    arguments: a string names a dimension, whose size is passed.
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


def _identifier(value: str) -> str:
    if not value.isidentifier() or keyword.iskeyword(value):
        raise ValueError("a Python identifier")
    return value


def _reference(value: str) -> str:
    module, colon, attribute = value.partition(":")
    if not colon or not all(p.isidentifier() for p in (*module.split("."), *attribute.split("."))):
        raise ValueError('a function as "package.module:function"')
    return value


def _version(value: str) -> str:
    if not VERSION.match(value):
        raise ValueError('a version such as "1.0.0" or "1.2.0-rc1"')
    return value


def _not_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number, not a boolean")
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("a finite number")
    return value


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Identifier = Annotated[str, AfterValidator(_identifier)]
FunctionReference = Annotated[str, AfterValidator(_reference)]
Size = Annotated[int, BeforeValidator(_not_bool), Field(ge=1)]
Error = Annotated[float, BeforeValidator(_not_bool), Field(ge=0), AfterValidator(_finite)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WeightsModel(_Model):
    """`[weights.NAME]`: where bound parameters come from."""

    source: str | None = None
    init: FunctionReference | None = None

    @model_validator(mode="after")
    def _some_origin(self) -> Self:
        if self.source is None and self.init is None:
            raise ValueError("`source` (a safetensors file), `init` (a function), or both")
        return self


class DimensionModel(_Model):
    """`[dimensions.NAME]`: a named size."""

    range: Annotated[list[Size], Field(min_length=2, max_length=2)]
    profiles: Annotated[list[Size], Field(min_length=1)]


class ToleranceModel(_Model):
    """|actual - expected| <= atol + rtol * |expected|."""

    rtol: Error = 1e-5
    atol: Error = 1e-6


class FixturesModel(_Model):
    """`[entry_points.NAME.fixtures]`: the inputs that every executable is checked with."""

    file: str | None = None
    seed: Annotated[int, BeforeValidator(_not_bool), Field(ge=0)] | None = None
    ranges: dict[str, Annotated[list[float | int], Field(min_length=2, max_length=2)]] = {}


class EntryPointModel(_Model):
    """`[entry_points.NAME]`: a pure function to compile."""

    function: FunctionReference
    bind: dict[Identifier, str] = {}
    inputs: dict[Identifier, Any] = {}
    static: dict[Identifier, Any] = {}
    donate: list[str] = []
    tolerance: ToleranceModel = ToleranceModel()
    fixtures: FixturesModel = FixturesModel()


class BuildManifestModel(_Model):
    """The file as a whole."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    name: Name
    version: Annotated[str, AfterValidator(_version)]
    targets: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    enable_x64: bool = False
    weights: dict[Identifier, WeightsModel] = {}
    dimensions: dict[Identifier, DimensionModel] = {}
    entry_points: Annotated[dict[Identifier, EntryPointModel], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file the manifest names. text: as written.  path: where it is; never enters a bundle."""

    text: str
    path: Path


@dataclass(frozen=True, slots=True)
class WeightsSpec:
    """source: values.  init: function whose result gives the structure (and the values without
    a source)."""

    source: SourceFile | None
    init: str | None


@dataclass(frozen=True, slots=True)
class DimensionSpec:
    """minimum, maximum: accepted sizes, both included.  profiles: sizes compiled for, sorted."""

    minimum: int
    maximum: int
    profiles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FixtureSpec:
    """Recorded inputs (file), or random ones (seed). ranges: leaf path to inclusive [low, high]."""

    file: SourceFile | None
    seed: int
    ranges: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class EntryPointSpec:
    """A function to build. rtol, atol: the tolerance its executables are held to."""

    function: str
    bind: Mapping[str, str]
    inputs: Mapping[str, InputTree]
    static: Mapping[str, Any]
    donate: tuple[str, ...]
    rtol: float
    atol: float
    fixtures: FixtureSpec


@dataclass(frozen=True, slots=True)
class BuildManifest:
    """What a person asked for. root: the manifest's folder.  text: the file's bytes."""

    path: Path
    root: Path
    text: bytes
    name: str
    version: str
    targets: tuple[str, ...]
    enable_x64: bool
    weights: Mapping[str, WeightsSpec]
    dimensions: Mapping[str, DimensionSpec]
    entry_points: Mapping[str, EntryPointSpec]


def read_build_manifest(path: Path) -> BuildManifest:
    """Read and check a build manifest.

    Raises BuildManifestError with every problem found: AOTC-E801 unreadable, E802 not TOML,
    E803 unknown key, E804 missing key, E805 wrong type or value, E806 unknown reference,
    E807 conflict or duplicate, E808 missing file.
    """
    document = toml.read(path, "build manifest")
    model = toml.parse(document, BuildManifestModel)
    problems: list[Finding] = []
    inputs = {
        name: {
            key: tree
            for key, raw in entry.inputs.items()
            if (
                tree := _tree(document, ("entry_points", name, "inputs", key), raw, model, problems)
            )
            is not None
        }
        for name, entry in model.entry_points.items()
    }
    problems.extend(_checks(document, model, inputs))
    raise_if(sorted(problems, key=lambda f: (_line(f.where), f.where)))
    root = path.resolve().parent

    def file(text: str | None) -> SourceFile | None:
        return None if text is None else SourceFile(text, root / text)

    return BuildManifest(
        path=path,
        root=root,
        text=path.read_bytes(),
        name=model.name,
        version=model.version,
        targets=tuple(model.targets),
        enable_x64=model.enable_x64,
        weights={k: WeightsSpec(file(w.source), w.init) for k, w in sorted(model.weights.items())},
        dimensions={
            k: DimensionSpec(d.range[0], d.range[1], tuple(sorted(d.profiles)))
            for k, d in sorted(model.dimensions.items())
        },
        entry_points={
            k: EntryPointSpec(
                function=e.function,
                bind=e.bind,
                inputs=inputs[k],
                static=e.static,
                donate=tuple(e.donate),
                rtol=e.tolerance.rtol,
                atol=e.tolerance.atol,
                fixtures=FixtureSpec(
                    file=file(e.fixtures.file),
                    seed=e.fixtures.seed or 0,
                    ranges={p: (r[0], r[1]) for p, r in sorted(e.fixtures.ranges.items())},
                ),
            )
            for k, e in sorted(model.entry_points.items())
        },
    )


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


def profiles_of(
    entry_point: EntryPointSpec, dimensions: Mapping[str, DimensionSpec]
) -> tuple[dict[str, int], ...]:
    """Every assignment of the dimensions the entry point uses; one empty one if it uses none."""
    used = sorted({name for tree in entry_point.inputs.values() for name in dimensions_of(tree)})
    choices = [dimensions[name].profiles for name in used]
    return tuple(dict(zip(used, sizes, strict=True)) for sizes in product(*choices))


def leaf_paths(tree: InputTree, path: str) -> Iterator[tuple[str, InputLeaf | InputLike]]:
    """The leaves of an input with their paths; a `like` counts as one, whatever is below it."""
    match tree:
        case InputDict(items=items):
            for key in sorted(items):
                yield from leaf_paths(items[key], f"{path}/{key}")
        case InputList(items=children):
            for index, child in enumerate(children):
                yield from leaf_paths(child, f"{path}/{index}")
        case _:
            yield path, tree


Problems = list[Finding]
Key = tuple[str | int, ...]


def _tree(
    document: Document, path: Key, raw: Any, model: BuildManifestModel, problems: Problems
) -> InputTree | None:
    """One input as a tree; None after a problem was noted."""
    if isinstance(raw, list):
        children = [
            _tree(document, (*path, i), item, model, problems) for i, item in enumerate(raw)
        ]
        return InputList(tuple(child for child in children if child is not None))
    if not isinstance(raw, dict) or not raw:
        problems.append(
            document.finding(
                "AOTC-E805",
                path,
                expected='{ shape = [...], dtype = "float32" }, a table or an array of such',
                found=f"{raw!r}",
                hint="give the input's shape and dtype",
            )
        )
        return None
    if "like" in raw and not isinstance(raw["like"], dict):
        return _like(document, path, raw, model, problems)
    if ("shape" in raw or "dtype" in raw) and not any(isinstance(v, dict) for v in raw.values()):
        return _leaf(document, path, raw, model, problems)
    items = {k: _tree(document, (*path, k), v, model, problems) for k, v in raw.items()}
    return InputDict({key: child for key, child in items.items() if child is not None})


def _unknown_keys(document: Document, path: Key, raw: Any, known: set[str]) -> Iterator[Finding]:
    for key in sorted(raw.keys() - known):
        yield document.finding(
            "AOTC-E803",
            (*path, key),
            expected=f"one of {', '.join(sorted(known))}",
            found=f"the unknown key {key}",
            hint="remove the key, or correct its name",
        )


def _leaf(
    document: Document, path: Key, raw: Any, model: BuildManifestModel, problems: Problems
) -> InputTree | None:
    before = len(problems)
    problems.extend(_unknown_keys(document, path, raw, {"shape", "dtype"}))
    for key in ("shape", "dtype"):
        if key not in raw:
            problems.append(
                document.finding(
                    "AOTC-E804",
                    (*path, key),
                    expected=f"the key {key}",
                    found="no such key",
                    hint='an array input is { shape = ["batch", 64], dtype = "float32" }',
                )
            )
    shape, dtype = raw.get("shape", []), raw.get("dtype", "float32")
    if not isinstance(shape, list):
        problems.append(
            document.finding(
                "AOTC-E805",
                (*path, "shape"),
                expected="an array of sizes and dimension names; [] for a scalar",
                found=repr(shape),
                hint='write shape = ["batch", 64]',
            )
        )
        shape = []
    for index, axis in enumerate(shape):
        where = (*path, "shape", index)
        if isinstance(axis, str):
            if axis not in model.dimensions:
                problems.append(_unknown(document, where, "dimension", axis, model.dimensions))
        elif not isinstance(axis, int) or isinstance(axis, bool) or axis < 0:
            problems.append(
                document.finding(
                    "AOTC-E805",
                    where,
                    expected="a size of 0 or more, or the name of a dimension",
                    found=repr(axis),
                    hint="correct the axis",
                )
            )
    if not isinstance(dtype, str) or dtype not in {known.value for known in DType}:
        problems.append(
            document.finding(
                "AOTC-E805",
                (*path, "dtype"),
                expected="one of " + ", ".join(known.value for known in DType),
                found=repr(dtype),
                hint="use jax's name of the dtype",
            )
        )
    elif dtype in WIDE_DTYPES and not model.enable_x64:
        problems.append(
            document.finding(
                "AOTC-E805",
                (*path, "dtype"),
                expected=f"a dtype of at most 32 bits, which {dtype} is not",
                found=f"{dtype} while enable_x64 is false",
                hint="add `enable_x64 = true` at the top, or use the 32-bit dtype",
            )
        )
    return InputLeaf(tuple(shape), DType(dtype)) if len(problems) == before else None


def _like(
    document: Document, path: Key, raw: Any, model: BuildManifestModel, problems: Problems
) -> InputTree | None:
    before = len(problems)
    problems.extend(_unknown_keys(document, path, raw, {"like", "arguments"}))
    function, arguments = raw["like"], raw.get("arguments", {})
    try:
        _reference(function if isinstance(function, str) else "")
    except ValueError as error:
        problems.append(
            document.finding(
                "AOTC-E805",
                (*path, "like"),
                expected=str(error),
                found=repr(function),
                hint="name the function that returns such a structure",
            )
        )
    if not isinstance(arguments, dict):
        problems.append(
            document.finding(
                "AOTC-E805",
                (*path, "arguments"),
                expected='a table such as { batch = "batch", length = 128 }',
                found=repr(arguments),
                hint="give the function's keyword arguments",
            )
        )
        arguments = {}
    for key, value in arguments.items():
        if isinstance(value, str) and value not in model.dimensions:
            where = (*path, "arguments", key)
            problems.append(_unknown(document, where, "dimension", value, model.dimensions))
    return InputLike(function, arguments) if len(problems) == before else None


def _unknown(
    document: Document, path: Key, kind: str, name: str, known: Mapping[str, Any]
) -> Finding:
    return document.finding(
        "AOTC-E806",
        path,
        expected=f"a declared {kind}" + (f": {', '.join(sorted(known))}" if known else ""),
        found=repr(name) + ("" if known else f", and no {kind} is declared"),
        hint="correct the name, or declare it",
    )


def _line(where: str) -> int:
    number = where.split(" ")[0].rpartition(":")[2]
    return int(number) if number.isdigit() else 0


def _checks(
    document: Document, model: BuildManifestModel, inputs: Mapping[str, Mapping[str, InputTree]]
) -> Iterator[Finding]:
    yield from _check_duplicates(document, ("targets",), model.targets)
    for name, dimension in model.dimensions.items():
        yield from _check_dimension(document, ("dimensions", name), dimension)
    for name, weights in model.weights.items():
        yield from _check_file(document, ("weights", name, "source"), weights.source)
    for name, entry in model.entry_points.items():
        yield from _check_entry_point(document, ("entry_points", name), entry, model, inputs[name])
    used = {d for trees in inputs.values() for tree in trees.values() for d in dimensions_of(tree)}
    mentioned = used | _strings(
        [entry.inputs for entry in model.entry_points.values()]
    )  # in inputs that were refused for another reason
    for name in sorted(model.dimensions.keys() - mentioned):
        yield _unused(document, ("dimensions", name), "an input's shape")
    bound = {owner for entry in model.entry_points.values() for owner in entry.bind.values()}
    for name in sorted(model.weights.keys() - bound):
        yield _unused(document, ("weights", name), "an entry point's `bind`")


def _strings(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    children = value.values() if isinstance(value, dict) else value
    return {s for v in children for s in _strings(v)} if isinstance(value, (dict, list)) else set()


def _unused(document: Document, path: Key, user: str) -> Finding:
    return document.finding(
        "AOTC-E807",
        path,
        expected=f"a name that {user} mentions",
        found=f"{path[-1]} is never used",
        hint="remove it, or use it",
    )


def _check_duplicates(document: Document, path: Key, values: list[Any]) -> Iterator[Finding]:
    for index, value in enumerate(values):
        if value in values[:index]:
            yield document.finding(
                "AOTC-E807",
                (*path, index),
                expected="each value once",
                found=f"{value!r} again",
                hint="remove one of them",
            )


def _check_dimension(document: Document, path: Key, dimension: DimensionModel) -> Iterator[Finding]:
    low, high = dimension.range
    if low > high:
        yield document.finding(
            "AOTC-E805",
            (*path, "range"),
            expected="[smallest, largest]",
            found=f"[{low}, {high}]",
            hint="swap the two",
        )
        return
    yield from _check_duplicates(document, (*path, "profiles"), dimension.profiles)
    for index, size in enumerate(dimension.profiles):
        if not low <= size <= high:
            yield document.finding(
                "AOTC-E805",
                (*path, "profiles", index),
                expected=f"a size within range [{low}, {high}]",
                found=str(size),
                hint="widen the range, or remove the profile",
            )


def _check_file(document: Document, path: Key, text: str | None) -> Iterator[Finding]:
    if text is None:
        return
    file = document.path.resolve().parent / text
    if not file.is_file():
        yield document.finding(
            "AOTC-E808",
            path,
            expected="a file, relative to the manifest's folder",
            found=f"{text} is " + ("a folder" if file.is_dir() else "not there"),
            hint="create the file, or correct the path",
        )


def _check_entry_point(
    document: Document,
    path: Key,
    entry: EntryPointModel,
    model: BuildManifestModel,
    inputs: Mapping[str, InputTree],
) -> Iterator[Finding]:
    for parameter, owner in entry.bind.items():
        if owner not in model.weights:
            where = (*path, "bind", parameter)
            yield _unknown(document, where, "weights set", owner, model.weights)
    sources = {"bind": entry.bind, "inputs": entry.inputs, "static": entry.static}
    kinds = list(sources)
    for index, kind in enumerate(kinds):
        for earlier in kinds[:index]:
            for name in sorted(sources[kind].keys() & sources[earlier].keys()):
                yield document.finding(
                    "AOTC-E807",
                    (*path, kind, name),
                    expected="each parameter in one of bind, inputs, static",
                    found=f"{name} is in {earlier} as well",
                    hint="remove one of them",
                )
    yield from _check_duplicates(document, (*path, "donate"), entry.donate)
    for index, name in enumerate(entry.donate):
        if name not in entry.inputs:
            yield _unknown(document, (*path, "donate", index), "input", name, entry.inputs)
    yield from _check_fixtures(document, (*path, "fixtures"), entry.fixtures, inputs)


def _check_fixtures(
    document: Document, path: Key, fixtures: FixturesModel, inputs: Mapping[str, InputTree]
) -> Iterator[Finding]:
    yield from _check_file(document, (*path, "file"), fixtures.file)
    if fixtures.file is not None and (fixtures.seed is not None or fixtures.ranges):
        yield document.finding(
            "AOTC-E807",
            path,
            expected="either `file`, or `seed` with `ranges`",
            found="both",
            hint="remove one of them",
        )
    known = dict(leaf for name, tree in inputs.items() for leaf in leaf_paths(tree, name))
    for leaf, (low, high) in fixtures.ranges.items():
        where = (*path, "ranges", leaf)
        if leaf not in known:
            yield _unknown(document, where, "input leaf", leaf, known)
        elif low > high:
            yield document.finding(
                "AOTC-E805",
                where,
                expected="[lowest, highest]",
                found=f"[{low}, {high}]",
                hint="swap the two",
            )
