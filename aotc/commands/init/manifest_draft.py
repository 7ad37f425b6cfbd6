"""Draft of a build manifest: every parameter bound, an input, or fixed."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from aotc.base.errors import finding, raise_if
from aotc.commands.init.init_request import (
    Answer,
    ArrayText,
    Parameter,
    RecordedCall,
    Request,
    Seen,
    SeenArray,
    SeenOther,
    SeenPlain,
    Steps,
    is_model_file,
    parse_array,
)
from aotc.config.field_types import is_identifier
from aotc.config.input_specs import WIDE_DTYPES, InputLeaf, is_step
from aotc.config.manifest_problem import spell, to_toml, toml_key
from aotc.config.routing_policies import passing_hint
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import closest, did_you_mean, with_article
from aotc_runtime.schema.bundle_manifest import DType

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")

DEFAULT_RANGE = (1, 64)
SIZES = (8, 64, 512, 4096)
"""Sizes of profiles between the ends of a range: each more is compiled for every target."""

_MISMATCHES = {
    "--input": "input-does-not-match-the-example",
    "--inputs": "recorded-arrays-differ-in-a-size",
}
"""Causes of AOTC-E083, by option."""

LARGE_BYTES = 1 << 20
"""A parameter that takes more in the example is more likely weights than a request's input."""


@dataclass(frozen=True, slots=True)
class DimensionDraft:
    """The range of a dimension, both ends included, and the sizes that are compiled."""

    low: int
    high: int
    profiles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """The content of a build manifest.

    Attributes:
        function: A reference, or the path of a model file.
        weights: As in a `Request`, by weight set.
        inputs: The value of each parameter under `inputs`.
        ranges: Numbers of the fixtures for arrays of integers, by path.
        is_guessed: Whether no source states one of these.
        notes: Remarks for the reader of the manifest.
        donate: Parameters whose memory a call may take.
        recorded: The call that the fixtures read.
        narrowed: Parameters that have 64 bits in the model file, with their dtype there.
        engines: Those that are installed, the default first.
    """

    name: str
    entry_point: str
    function: str
    targets: tuple[str, ...]
    enable_x64: bool
    weights: Mapping[str, Mapping[str, str]]
    dimensions: Mapping[str, DimensionDraft]
    inputs: Mapping[str, Any]
    static: Mapping[str, Any]
    ranges: Mapping[str, list[int]]
    is_guessed: bool
    notes: tuple[str, ...]
    donate: tuple[str, ...]
    recorded: RecordedCall | None
    narrowed: Mapping[str, str]
    engines: tuple[str, ...] = ()


def draft(
    request: Request,
    answer: Answer,
    *,
    name: str,
    entry_point: str | None,
    targets: tuple[str, ...],
) -> Draft:
    """Draft a manifest; `entry_point` is the function's name by default.

    Raises:
        UsageError: AOTC-E080 a range of a dimension that no array has, E081 a parameter of which
            nothing is known, E082 an example that a manifest cannot describe, E083 an option for
            something that the function does not have, or recorded arrays that differ in a size.
    """
    names = _option_names(request, answer)
    reader = _ParameterReader(request, names)
    reader.read(answer)
    unknown = (*_unknown_parameters(request, answer), *_unknown_dimensions(request, reader.axes))
    raise_if([*unknown, *reader.problems])
    ranges = {names.get(its, its): ends for its, ends in answer.ranges.items()}
    sizes = {names.get(its, its): found for its, found in answer.sizes.items()}
    answer = replace(answer, ranges=ranges, sizes=sizes)
    dimensions = _dimensions(request, reader, answer)
    return Draft(
        name=name,
        entry_point=entry_point or entry_point_of(request.function),
        function=request.function,
        targets=targets,
        enable_x64=answer.enable_x64 or not reader.dtypes.isdisjoint(WIDE_DTYPES),
        weights=request.weights,
        dimensions=dimensions,
        inputs=reader.inputs,
        static=reader.static,
        ranges=reader.ranges,
        is_guessed=reader.is_guessed,
        notes=(
            *reader.notes,
            *map(_left_out, answer.takes_any),
            *_file_notes(request, dimensions, answer),
        ),
        donate=tuple(dict.fromkeys(path.partition("/")[0] for path in answer.changes)),
        recorded=request.recorded,
        narrowed={} if reader.dtypes & set(WIDE_DTYPES) else answer.narrowed,
    )


def _left_out(takes_any: str) -> str:
    return (
        f"the function's {takes_any} gets nothing: a manifest passes what the signature names, so "
        "what is to be passed needs a name there, or a function around it that has one"
    )


def _unknown_parameters(request: Request, answer: Answer) -> Iterator[Finding]:
    known = [parameter.name for parameter in answer.parameters]
    arrays = request.recorded.arrays if request.recorded else {}
    for name, option in sorted(request.named.items()):
        if name in known:
            continue
        hint = "correct the name"
        if option == "--inputs":
            hint = "remove it from the file; labels belong to `evaluation`"
        flat = [path.replace("/", "_") for path in arrays if path.startswith(f"{name}/")]
        if flat and flat[0] in known:
            hint = f"name the array `{flat[0]}`, as the model file does"
        elif close := closest(name, known):
            hint = f"did you mean `{close}`?"
        elif answer.takes_any:
            hint = f"add it to the signature, or wrap the function: `def f({name}, ...)`"
        expected = f"one of: {', '.join(known)}" if known else "no parameters"
        yield finding("AOTC-E083", f"{option} {name}", name, expected=expected, hint=hint)


def _unknown_dimensions(request: Request, axes: Collection[str]) -> Iterator[Finding]:
    for name in sorted(request.dimensions.keys() - axes):
        expected = f"one of: {', '.join(sorted(axes)) or 'none, as all sizes are fixed'}"
        hint = did_you_mean(name, axes, f"name it in the axes of an array: --input 'x=[{name},64]'")
        yield finding("AOTC-E080", "--dimension", spell(name), expected=expected, hint=hint)


def _dimensions(
    request: Request, reader: _ParameterReader, answer: Answer
) -> dict[str, DimensionDraft]:
    found: dict[str, DimensionDraft] = {}
    for name in sorted(reader.axes):
        stated = request.dimensions.get(name)
        first, last = stated or (0, math.inf)
        if own := tuple(size for size in answer.sizes.get(name, ()) if first <= size <= last):
            found[name] = DimensionDraft(own[0], own[-1], own)
        else:
            size, _ = (reader.recorded | reader.sizes).get(name, (0, ""))
            low, high = stated or _default_range(size, *answer.ranges.get(name, (None, None)))
            between = {each for each in (*SIZES, size) if low < each < high}
            found[name] = DimensionDraft(low, high, tuple(sorted({low, *between, high})))
    return found


def _option_names(request: Request, answer: Answer) -> dict[str, str]:
    """Return the names that `--input` gives axes of a model file, by the file's names."""
    names: dict[str, str] = {}
    for path, text in ((p, t) for each in answer.parameters for p, t in each.stated.items()):
        given, own = request.inputs.get(path), parse_array(text)
        if given and own and len(given.shape) == len(own.shape):
            for axis, its in zip(given.shape, own.shape, strict=True):
                if isinstance(axis, str) and isinstance(its, str):
                    names[its] = axis
    return names


def _default_range(size: int, least: int | None, most: int | None) -> tuple[int, int]:
    """Return a range around the size in the example, within the ends that a model file states."""
    low, high = max(DEFAULT_RANGE[0], least or 0), max(DEFAULT_RANGE[1], size)
    if most is not None:
        high = most if most <= SIZES[-1] else min(high, most)
    return low, max(low, high)


def _file_notes(
    request: Request, dimensions: Mapping[str, DimensionDraft], answer: Answer
) -> Iterator[str]:
    """Yield notes on sizes and ranges of a model file, and on statistics that calls change."""
    if trained := [path for path in answer.changes if path.endswith("running_mean")]:
        yield f"each call changes {trained[0]}: was the model exported without `eval()`?"
    if is_model_file(request.function) and not dimensions:
        yield "all sizes are fixed, as the file has them: to name some, export with dynamic shapes"
    for name, draft in dimensions.items():
        least, most = answer.ranges.get(name, (None, None))
        if draft.low == least and least > 1:
            yield f"{name} is {least} or more, as the file's export states: it refuses {least - 1}"
        if name not in request.dimensions and most is not None and draft.high < most < 2**31:
            yield (
                f"{name} is up to {draft.high} here, and up to {most} in the file: state the range "
                "that is called"
            )


def name_of(function: str) -> str:
    """Return a bundle's name from a reference: the function's top package, or the file."""
    if is_model_file(function):
        return _NO_NAME.sub("-", PurePosixPath(function).stem).strip("-") or "model"
    return PurePosixPath(function.partition(":")[0].replace(".", "/")).parts[0]


def entry_point_of(function: str) -> str:
    """Return an entry point's name from a reference: the function's own, or the file's."""
    if is_model_file(function):
        name = PurePosixPath(function).stem
    else:
        name = function.rpartition(".")[2].rpartition(":")[2]
    return name if is_identifier(name) else "run"


class _ParameterReader:
    """Collects the content of a manifest from the parameters of a function.

    `names` are those of options for axes of a model file; `sizes` has each dimension's size in the
    example, with its array, `recorded` those in the recorded call; `axes` and `dtypes` are those of
    all arrays.
    """

    def __init__(self, request: Request, names: Mapping[str, str]) -> None:
        self.request = request
        self.names = names
        self.inputs: dict[str, Any] = {}
        self.static = dict(request.static)
        self.ranges: dict[str, list[int]] = {}
        self.is_guessed = False
        self.shares_first_axis = False
        self.axes: set[str] = set()
        self.dtypes: set[str] = set()
        self.sizes: dict[str, tuple[int, str]] = {}
        self.recorded: dict[str, tuple[int, str]] = {}
        self.used: set[str] = set()
        self.problems: list[Finding] = []
        self.notes: list[str] = []

    def read(self, answer: Answer) -> None:
        """Read all parameters, each by the first source that describes it."""
        request = self.request
        shapes = [a.shape for a in request.recorded.arrays.values()] if request.recorded else []
        if not request.inputs:
            passed = [p for p in answer.parameters if p.name not in request.named]
            leaves = [leaf for parameter in passed for _, leaf in parameter.example]
            shapes += [tuple(leaf.shape) for leaf in leaves if isinstance(leaf, SeenArray)]
        firsts = {shape[0] if shape else None for shape in shapes}
        self.shares_first_axis = len(firsts) == 1 and None not in firsts
        for parameter in answer.parameters:
            name, example = parameter.name, parameter.example
            fixed = example[0][1] if example and not example[0][0] else None
            is_plain = isinstance(fixed, SeenPlain) and fixed.value != {}
            if name in request.weights or name in request.static:
                continue
            if name in request.likes:
                self.inputs[name] = self._like(request.likes[name], answer.needed)
            elif is_plain and name not in request.inputs:
                assert isinstance(fixed, SeenPlain)
                self.static[name] = fixed.value
                self.notes.append(_fixed_text(name, fixed.value))
            elif example and not is_plain:
                self.inputs[name] = _tree(
                    [(steps, self._leaf(seen, name, steps)) for steps, seen in example]
                )
                self._maybe_weights(name, example)
            elif stated := self._texts(parameter):
                self.inputs[name] = _tree(
                    [(_steps(path), self._input_entry(path, text)) for path, text in stated.items()]
                )
            elif not parameter.has_default:
                self._nothing_known(name)
        names = {parameter.name for parameter in answer.parameters}
        for path in sorted(request.inputs.keys() - self.used):
            if path.partition("/")[0] in names:
                hint = "name an array of the example, as the manifest does: PARAMETER/KEY/INDEX"
                self._says(path, "an array of the example", "", hint)

    def _like(self, function: str, needed: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Pass dimensions, by their sizes, for the arguments that have their names."""
        arrays = self.request.inputs.values()
        axes = {axis for array in arrays for axis in array.shape if isinstance(axis, str)}
        arguments = {name: name for name in needed.get(function, ()) if name in axes}
        return {"like": function, **({"arguments": arguments} if arguments else {})}

    def _texts(self, parameter: Parameter) -> dict[str, ArrayText]:
        """Return the arrays of a parameter without an example: by options, annotation or call."""
        name, inputs = parameter.name, self.request.inputs
        stated = {p: text for p, text in inputs.items() if p == name or p.startswith(f"{name}/")}
        for path in stated:
            if any(path.startswith(f"{other}/") for other in inputs):
                found = "a path below another array"
                self._says(path, "a path of its own", found, "correct the path")
        own: dict[str, ArrayText] = {}
        for path, text in parameter.stated.items():
            if array := parse_array(text):
                shape = tuple(self.names.get(str(axis), axis) for axis in array.shape)
                own[path] = ArrayText(array.dtype, shape)
        own = own or dict(self._recorded_leaves(name))
        for path, array in stated.items():
            if array.dtype is None and path in own:
                stated[path] = ArrayText(own[path].dtype, array.shape)
        return own | stated if own.keys() >= stated.keys() else stated

    def _recorded_leaves(self, name: str) -> Iterator[tuple[str, ArrayText]]:
        """Yield the leaves of a parameter that only the arrays of --inputs describe."""
        call = self.request.recorded
        for path, array in call.arrays.items() if call else ():
            # numpy stores dtypes of its own only; others, such as bfloat16, need an --input.
            if path.partition("/")[0] == name and array.dtype.kind != "V":
                yield path, ArrayText(array.dtype.name, self._name_axes(array.shape))

    def _name_axes(self, shape: Sequence[int]) -> tuple[int | str, ...]:
        return ("batch", *shape[1:]) if self.shares_first_axis else tuple(shape)

    def _leaf(self, seen: Seen, name: str, steps: Steps) -> dict[str, Any]:
        path = "/".join(map(str, (name, *steps)))
        for step in steps:
            if isinstance(step, str) and not is_step(step):
                self._cannot(path, "keys of printable ASCII without '/'", step)
        match seen:
            case SeenArray():
                stated = self.request.inputs.get(path)
                if seen.original and not stated:
                    self.notes.append(
                        f"{path} is {seen.original} in the example; {seen.dtype} here, as jax "
                        "makes it while 64-bit types are off"
                    )
                stated = stated or ArrayText(seen.dtype, self._name_axes(seen.shape))
                return self._input_entry(path, stated, seen)
            case SeenPlain() if seen.value != {}:
                self._cannot(path, "arrays", repr(seen.value))
            case SeenOther():
                hint = f"pass `--like {name}=package.module:function`"
                self._cannot(path, None, with_article(seen.kind), hint)
        return {}

    def _array(
        self, path: str, shape: Sequence[int | str], dtype: str, low: int | None, high: int | None
    ) -> dict[str, Any]:
        """Return an array of the manifest; `low` and `high` are the range of its fixtures."""
        self.axes.update(axis for axis in shape if isinstance(axis, str))
        self.dtypes.add(dtype)
        if low is not None and high is not None:
            self.ranges[path] = [low, high]
        return {"shape": list(shape), "dtype": dtype}

    def _input_entry(
        self, path: str, stated: ArrayText, seen: SeenArray | None = None
    ) -> dict[str, Any]:
        self.used.add(path)
        dtype = stated.dtype or (seen.dtype if seen else None)
        if dtype is None:
            shape = ",".join(str(axis) for axis in stated.shape)
            hint = f"pass --input '{path}=float32[{shape}]'"
            self._says(path, "a dtype", "axes only", hint)
            dtype = "float32"
        if seen is not None:
            self._check_example(path, stated, seen)
        recorded = self.request.recorded.arrays.get(path) if self.request.recorded else None
        if recorded is not None:
            self._check_sizes("--inputs", path, stated, recorded.shape)
        low, high = (seen.low, seen.high) if seen else (None, None)
        if low is None and dtype.lstrip("u").startswith("int"):
            if recorded is not None and recorded.size and recorded.dtype.kind in "iu":
                low, high = int(recorded.min()), int(recorded.max())
            else:
                low, high, self.is_guessed = 0, 1, True
        return self._array(path, stated.shape, dtype, low, high)

    def _check_example(self, path: str, stated: ArrayText, seen: SeenArray) -> None:
        shape = tuple(seen.shape)
        if len(shape) != len(stated.shape) or any(
            isinstance(axis, int) and axis != size
            for axis, size in zip(stated.shape, shape, strict=True)
        ):
            expected = f"axes that fit the example's shape {list(shape)}"
            found = f"[{','.join(str(axis) for axis in stated.shape)}]"
            self._says(path, expected, found, "correct the axes, or the example")
            return
        self._check_sizes("--input", path, stated, shape)

    def _check_sizes(self, option: str, path: str, stated: ArrayText, shape: Sequence[int]) -> None:
        """Compare the sizes of an array's dimensions with those in the arrays before it."""
        sizes, hint = self.recorded, None
        if option == "--input":
            sizes, hint = self.sizes, "give axes of different sizes different names"
        for axis, size in zip(stated.shape, shape, strict=False):
            if isinstance(axis, str):
                before, other = sizes.setdefault(axis, (size, path))
                if before != size:
                    expected = f"{axis}={before}, as in {other}"
                    self._says(path, expected, f"{axis}={size}", hint, option)

    def _maybe_weights(self, name: str, example: list[tuple[Steps, Seen]]) -> None:
        size = sum(seen.bytes for _, seen in example if isinstance(seen, SeenArray))
        if name in self.request.inputs or size < LARGE_BYTES:
            return
        self.notes.append(
            f"{name} takes {size / 2**20:.1f} MiB in the example, and is passed with every "
            f"call; weights are bound once: --weights {name}=FILE.safetensors or "
            f"{name}=package.module:function"
        )

    def _nothing_known(self, name: str) -> None:
        hint = (
            f"add --input '{name}=float32[batch,64]', --weights {name}=model.safetensors, "
            f"--static {name}=1.0, or --example package.module:function"
        )
        if "mask" in name.lower():
            passed = passing_hint(name, InputLeaf(("batch", "seq"), DType.BOOL))
            hint = f"add --input '{name}=bool[batch,seq]'; {passed} in the manifest"
        where = f"{self.request.function}, parameter {name}"
        self.problems.append(finding("AOTC-E081", where, "", hint=hint))

    def _cannot(self, path: str, expected: str | None, found: str, hint: str | None = None) -> None:
        cause = "example-has-values-a-manifest-cannot-hold"
        problem = finding("AOTC-E082", path, found, cause=cause, expected=expected, hint=hint)
        self.problems.append(problem)

    def _says(
        self, path: str, expected: str, found: str, hint: str | None, option: str = "--input"
    ) -> None:
        where, cause = f"{option} {path}", _MISMATCHES[option]
        problem = finding("AOTC-E083", where, found, cause=cause, expected=expected, hint=hint)
        self.problems.append(problem)


_DTYPES = {bool: "bool", int: "int32", float: "float32"}


def _fixed_text(name: str, value: Any) -> str:
    dtype = _DTYPES.get(type(value))
    wish = f"; to pass it with every call: --input '{name}={dtype}[]'" if dtype else ""
    return f"{name} is fixed to its value in the example{wish}"


def _steps(path: str) -> Steps:
    """Return the keys and indices of a leaf path below its parameter."""
    return tuple(int(step) if step.isdecimal() else step for step in path.split("/")[1:])


def _tree(leaves: Sequence[tuple[Steps, dict[str, Any]]]) -> Any:
    """Return the value of an input from its leaves, each with the steps to it."""
    steps, leaf = leaves[0]
    if not steps:
        return leaf
    below: dict[str | int, list[tuple[Steps, dict[str, Any]]]] = {}
    for (first, *rest), each in leaves:
        below.setdefault(first, []).append((tuple(rest), each))
    if all(isinstance(key, int) for key in below):
        return [_tree(each) for _, each in sorted(below.items())]
    return {str(key): _tree(each) for key, each in below.items()}


def manifest_text(draft: Draft) -> str:
    """Return the text of a build manifest of schema 1 (docs/reference/build-manifest.md)."""
    return "\n".join(_lines(draft)) + "\n"


def _lines(draft: Draft) -> Iterator[str]:
    yield "schema = 1"
    yield f"name = {to_toml(draft.name)}"
    yield 'version = "0.1.0"'
    yield f"targets = {to_toml(list(draft.targets))}"
    if len(draft.engines) > 1:
        yield f"engines = {to_toml(list(draft.engines))}  # installed here"
        yield 'tune = "auto"  # the fastest of them, measured by the first build'
    if draft.enable_x64:
        yield "enable_x64 = true"
    for name, stated in draft.weights.items():
        yield from ("", f"[weights.{toml_key(name)}]")
        yield from (f"{kind} = {to_toml(text)}" for kind, text in stated.items())
    for name, dimension in draft.dimensions.items():
        yield from ("", f"[dimensions.{toml_key(name)}]")
        yield f"range = [{dimension.low}, {dimension.high}]  # accepted sizes, both ends included"
        profiles = to_toml(list(dimension.profiles))
        yield f"profiles = {profiles}  # compiled; other sizes need out_of_profile"
    at = f"entry_points.{toml_key(draft.entry_point)}"
    yield from ("", f"[{at}]")
    kind = "source" if is_model_file(draft.function) else "function"
    yield f"{kind} = {to_toml(draft.function)}"
    if draft.weights:
        yield f"bind = {to_toml({name: name for name in draft.weights})}"
    if draft.static:
        yield f"static = {to_toml(dict(draft.static))}"
    for parameter, value in draft.inputs.items():
        dtype = draft.narrowed.get(parameter)
        if dtype:
            yield f"# {dtype} in the file: pass 32 bits; or enable_x64 = true on top, {dtype} here"
        yield f"inputs.{toml_key(parameter)} = {to_toml(value)}"
    if draft.donate:
        yield f"donate = {to_toml(list(draft.donate))}  # calls return their new values"
    yield "tolerance = { rtol = 1e-5, atol = 1e-5 }  # against plain JAX"
    yield from ("", f"[{at}.fixtures]")
    if draft.recorded is None:
        yield "seed = 0  # random inputs; `file` takes recorded ones"
    else:
        yield f"file = {to_toml(draft.recorded.inputs)}"
        if draft.recorded.expected is not None:
            yield f"expected = {to_toml(draft.recorded.expected)}"
    if draft.ranges:
        what = "guessed: write" if draft.is_guessed else "as seen: widen to"
        ends = "lowest and highest integer that callers pass"
        yield f"ranges = {to_toml(dict(draft.ranges))}  # {what} the {ends}"
