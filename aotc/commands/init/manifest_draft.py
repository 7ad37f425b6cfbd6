"""From what was asked and seen to a manifest: every parameter bound, an input, or fixed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

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
from aotc.config.field_types import is_function_reference, is_identifier
from aotc.config.input_specs import WIDE_DTYPES, is_step
from aotc.config.manifest_problem import to_toml, toml_key
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import closest, with_article

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")

DEFAULT_RANGE = (1, 64)
DEFAULT_SIZES = (1, 8, 64)
LARGEST_RANGE = 4096
"""The largest size of a model file's range that is taken as it is; there is a profile for it."""

LARGE_BYTES = 1 << 20
"""A parameter that takes more in the example is more likely weights than a request's input."""


@dataclass(frozen=True, slots=True)
class ArrayInput:
    """An array in the draft.

    `low` and `high` are the range of fixtures for an array of integers; `guessed` is whether no
    source states it.
    """

    shape: tuple[int | str, ...]
    dtype: str
    low: int | None = None
    high: int | None = None
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class LikeInput:
    """A structure that a function returns. sizes: dimensions that it takes by their names."""

    function: str
    sizes: tuple[str, ...] = ()


type InputDraft = ArrayInput | LikeInput | None
"""None for a dict without entries."""


@dataclass(frozen=True, slots=True)
class DimensionDraft:
    """profiles: sizes, or a rule's name."""

    low: int
    high: int
    profiles: tuple[int, ...] | str


@dataclass(frozen=True, slots=True)
class Draft:
    """The content of a build manifest.

    Attributes:
        function: A reference, or the path of a model file where `is_file` is set.
        weights: File or function by weight set.
        inputs: Leaves by the steps to them, the parameter first.
        notes: Remarks for the reader of the manifest.
        donate: Parameters whose memory a call may take.
        recorded: The call that the fixtures read.
    """

    name: str
    entry_point: str
    function: str
    targets: tuple[str, ...]
    engines: tuple[str, ...]
    enable_x64: bool
    weights: Mapping[str, str]
    dimensions: Mapping[str, DimensionDraft]
    inputs: Mapping[Steps, InputDraft]
    static: Mapping[str, Any]
    notes: tuple[str, ...]
    is_file: bool = False
    donate: tuple[str, ...] = ()
    recorded: RecordedCall | None = None


def draft(
    request: Request,
    answer: Answer,
    *,
    name: str,
    entry_point: str | None,
    targets: tuple[str, ...],
    engines: tuple[str, ...],
) -> Draft:
    """Return the draft of a manifest; `entry_point` is the function's name by default.

    Raises UsageError: AOTC-E081 a parameter of which nothing is known, E082 an example that a
    manifest cannot describe, E083 an option for what the function does not have.
    """
    notes = [_left_out(any_) for any_ in answer.takes_any]
    reader = _ParameterReader(request)
    inputs, static = reader.parameters(answer.parameters, answer.needed)
    raise_if([*_unknown_parameters(request, answer), *reader.problems])
    leaves = [leaf for leaf in inputs.values() if isinstance(leaf, ArrayInput)]
    dimensions = _dimensions(request, leaves, reader.sizes, answer)
    return Draft(
        name=name,
        entry_point=entry_point or entry_point_of(request.function),
        function=request.function,
        targets=targets,
        engines=engines,
        enable_x64=answer.enable_x64 or any(leaf.dtype in WIDE_DTYPES for leaf in leaves),
        weights=request.weights,
        dimensions=dimensions,
        inputs=inputs,
        static=static,
        notes=(*reader.notes, *notes, *_cut_ranges(dimensions, answer)),
        is_file=is_model_file(request.function),
        donate=tuple(answer.donate),
        recorded=request.recorded,
    )


def _left_out(takes_any: str) -> str:
    return (
        f"the function's {takes_any} gets nothing: a manifest passes what the signature names, so "
        "what is to be passed needs a name there, or a function around it that has one"
    )


def _unknown_parameters(request: Request, answer: Answer) -> Iterator[Finding]:
    known = [parameter.name for parameter in answer.parameters]
    for name, option in sorted(request.named.items()):
        if name not in known:
            close = closest(name, known)
            yield finding(
                "AOTC-E083",
                f"{option} {name}",
                name,
                expected=f"one of: {', '.join(known)}" if known else "no parameters",
                hint=_renamed(name, close, answer),
            )


def _renamed(name: str, close: str | None, answer: Answer) -> str:
    if close:
        return f"did you mean `{close}`?"
    if answer.takes_any:
        return f"add it to the signature, or wrap the function: `def f({name}, ...)`"
    return "correct the name"


def _dimensions(
    request: Request,
    leaves: list[ArrayInput],
    sizes: Mapping[str, tuple[int, str]],
    answer: Answer,
) -> dict[str, DimensionDraft]:
    names = {axis for leaf in leaves for axis in leaf.shape if isinstance(axis, str)}
    found: dict[str, DimensionDraft] = {}
    for name in sorted(names):
        low, high = request.dimensions.get(name, (0, math.inf))
        if own := tuple(size for size in answer.sizes.get(name, ()) if low <= size <= high):
            found[name] = DimensionDraft(own[0], own[-1], own)
            continue
        if name in request.dimensions:
            low, high = request.dimensions[name]
            found[name] = DimensionDraft(low, high, (low,) if low == high else "powers_of_two")
            continue
        size = sizes[name][0] if name in sizes else 1
        least, most = answer.ranges.get(name, (None, None))
        low, high = max(DEFAULT_RANGE[0], least or 0), DEFAULT_RANGE[1]
        if most is not None and DEFAULT_RANGE[1] < most <= LARGEST_RANGE:
            high = most
        high = max(high, 2 ** math.ceil(math.log2(size))) if size > 0 else high
        high = max(low, high if most is None else min(high, most))
        last = () if most is None or high > LARGEST_RANGE else (high,)
        profiles = sorted({*(s for s in DEFAULT_SIZES if low <= s <= high), max(size, low), *last})
        found[name] = DimensionDraft(low, high, tuple(profiles))
    return found


def _cut_ranges(dimensions: Mapping[str, DimensionDraft], answer: Answer) -> Iterator[str]:
    """Yield a sentence for each dimension whose range is shorter than that of a model file."""
    for name, draft in dimensions.items():
        _, most = answer.ranges.get(name, (None, None))
        if most is not None and draft.high < most < 2**31:
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
        stem = PurePosixPath(function).stem
        return stem if is_identifier(stem) else "run"
    last = function.rpartition(".")[2].rpartition(":")[2]
    return last if is_identifier(last) else "run"


class _ParameterReader:
    """problems, notes: collected.  sizes: of each dimension in the example."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.used: set[str] = set()
        self.problems: list[Finding] = []
        self.notes: list[str] = []
        self.sizes: dict[str, tuple[int, str]] = {}

    def _like(self, function: str, needed: Mapping[str, Sequence[str]]) -> LikeInput:
        """Pass dimensions, by their sizes, for the arguments that have their names."""
        arrays = self.request.inputs.values()
        axes = {axis for array in arrays for axis in array.shape if isinstance(axis, str)}
        return LikeInput(function, tuple(n for n in needed.get(function, ()) if n in axes))

    def parameters(
        self, parameters: list[Parameter], needed: Mapping[str, Sequence[str]]
    ) -> tuple[dict[Steps, InputDraft], dict[str, Any]]:
        inputs: dict[Steps, InputDraft] = {}
        static = dict(self.request.static)
        for parameter in parameters:
            name, example = parameter.name, parameter.example
            fixed = example[0][1] if example and not example[0][0] else None
            below = [path for path in self.request.inputs if path.startswith(f"{name}/")]
            if name in self.request.weights or name in self.request.static:
                continue
            if name in self.request.likes:
                inputs[name,] = self._like(self.request.likes[name], needed)
            elif below and not example:
                named = [name] * (name in self.request.inputs)
                inputs |= {tuple(p.split("/")): self._nested(p) for p in (*named, *below)}
            elif isinstance(fixed, SeenPlain) and fixed.value != {}:
                if name in self.request.inputs:
                    inputs[name,] = self._stated(name, self.request.inputs[name], None)
                else:
                    static[name] = fixed.value
                    self.notes.append(_fixed(name, fixed.value))
            elif example:
                inputs |= {(name, *steps): self._leaf(seen, name, steps) for steps, seen in example}
                self._maybe_weights(name, example)
            elif name in self.request.inputs:
                inputs[name,] = self._stated(name, self.request.inputs[name], None)
            elif parameter.annotation and (array := parse_array(parameter.annotation)):
                inputs[name,] = self._stated(name, array, None)
            elif recorded := self._recorded(name):
                inputs |= recorded
            elif not parameter.has_default:
                self._nothing_known(name)
        for path in sorted(self.request.inputs.keys() - self.used):
            if path.partition("/")[0] in {parameter.name for parameter in parameters}:
                self._no_such_leaf(path)
        return inputs, static

    def _recorded(self, name: str) -> dict[Steps, InputDraft]:
        """Return the leaves of a parameter that only the arrays of --inputs describe."""
        call = self.request.recorded
        found: dict[Steps, InputDraft] = {}
        for path, array in call.arrays.items() if call else ():
            # numpy stores dtypes of its own only; others, such as bfloat16, need an --input.
            if path.partition("/")[0] == name and array.dtype.kind != "V":
                shape: list[int | str] = list(array.shape)
                if call and call.shares_first_axis:
                    self.sizes.setdefault("batch", (array.shape[0], path))
                    shape[0] = "batch"
                stated = ArrayText(array.dtype.name, tuple(shape))
                found[tuple(path.split("/"))] = self._stated(path, stated, None)
        return found

    def _leaf(self, seen: Seen, name: str, steps: Steps) -> InputDraft:
        path = "/".join(map(str, (name, *steps)))
        for step in steps:
            if isinstance(step, str) and not is_step(step):
                self._cannot(path, "keys of printable ASCII without '/'", step)
        match seen:
            case SeenArray():
                return self._array(seen, path)
            case SeenPlain() if seen.value != {}:
                self._cannot(path, "arrays", repr(seen.value))
            case SeenOther():
                hint = f"pass `--like {name}=package.module:function`"
                self._cannot(path, None, with_article(seen.kind), hint)
        return None

    def _array(self, seen: SeenArray, path: str) -> ArrayInput:
        stated = self.request.inputs.get(path)
        if stated is not None:
            return self._stated(path, stated, seen)
        if seen.original:
            self.notes.append(
                f"{path} is {seen.original} in the example; {seen.dtype} here, as jax makes it "
                "while 64-bit types are off"
            )
        return ArrayInput(tuple(seen.shape), seen.dtype, seen.low, seen.high)

    def _stated(self, path: str, stated: ArrayText, seen: SeenArray | None) -> ArrayInput:
        self.used.add(path)
        dtype = stated.dtype or (seen.dtype if seen else None)
        if dtype is None:
            shape = ",".join(str(axis) for axis in stated.shape)
            hint = f"say --input '{path}=float32[{shape}]'"
            self._says(path, "a dtype", "axes only", hint)
            dtype = "float32"
        if seen is not None:
            self._check_example(path, stated, seen)
        low, high, guessed = (seen.low, seen.high, False) if seen else (None, None, False)
        recorded = self.request.recorded.arrays.get(path) if self.request.recorded else None
        if low is None and dtype.lstrip("u").startswith("int"):
            low, high, guessed = 0, 1, True
            if recorded is not None and recorded.size and recorded.dtype.kind in "iu":
                low, high, guessed = int(recorded.min()), int(recorded.max()), False
        return ArrayInput(stated.shape, dtype, low, high, guessed)

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
        for axis, size in zip(stated.shape, shape, strict=True):
            if isinstance(axis, str):
                before, other = self.sizes.setdefault(axis, (size, path))
                if before != size:
                    self._says(
                        path,
                        f"{axis}={before}, as in {other}",
                        f"{axis}={size}",
                        "give axes of different sizes different names",
                    )

    def _nested(self, path: str) -> ArrayInput:
        """Return a leaf by its path; there is no example to say whether a step is an index."""
        if any(path.startswith(f"{other}/") for other in self.request.inputs):
            self._says(path, "a path of its own", "a path below another array", "correct the path")
        return self._stated(path, self.request.inputs[path], None)

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
            f"--input '{name}=float32[batch,64]', --weights {name}=model.safetensors, "
            f"--static {name}=1.0, or --example package.module:function"
        )
        where = f"{self.request.function}, parameter {name}"
        self.problems.append(finding("AOTC-E081", where, "", hint=hint))

    def _no_such_leaf(self, path: str) -> None:
        hint = "name an array of the example, as the manifest does: PARAMETER/KEY/INDEX"
        self._says(path, "an array of the example", "", hint)

    def _cannot(self, path: str, expected: str | None, found: str, hint: str | None = None) -> None:
        cause = "example-has-values-a-manifest-cannot-hold"
        problem = finding("AOTC-E082", path, found, cause=cause, expected=expected, hint=hint)
        self.problems.append(problem)

    def _says(self, path: str, expected: str, found: str, hint: str) -> None:
        where, cause = f"--input {path}", "input-does-not-match-the-example"
        problem = finding("AOTC-E083", where, found, cause=cause, expected=expected, hint=hint)
        self.problems.append(problem)


_DTYPES = {bool: "bool", int: "int32", float: "float32"}


def _fixed(name: str, value: Any) -> str:
    dtype = _DTYPES.get(type(value))
    wish = f"; to pass it with every call: --input '{name}={dtype}[]'" if dtype else ""
    return f"{name} is fixed to its value in the example{wish}"


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
    for name, source in draft.weights.items():
        yield ""
        yield f"[weights.{toml_key(name)}]"
        kind = "init" if is_function_reference(source) else "source"
        yield f"{kind} = {to_toml(source)}"
    for name, dimension in draft.dimensions.items():
        yield ""
        yield f"[dimensions.{toml_key(name)}]"
        yield f"range = [{dimension.low}, {dimension.high}]  # accepted sizes, both ends included"
        profiles = dimension.profiles
        shown = list(profiles) if isinstance(profiles, tuple) else profiles
        yield f"profiles = {to_toml(shown)}  # compiled; other sizes need out_of_profile"
    at = f"entry_points.{toml_key(draft.entry_point)}"
    yield ""
    yield f"[{at}]"
    yield f"{'source' if draft.is_file else 'function'} = {to_toml(draft.function)}"
    if draft.weights:
        yield f"bind = {to_toml({name: name for name in draft.weights})}"
    if draft.static:
        yield f"static = {to_toml(dict(draft.static))}"
    for parameter, leaves in _by_first_step(draft.inputs.items()).items():
        yield f"inputs.{toml_key(str(parameter))} = {to_toml(_input(leaves))}"
    if draft.donate:
        yield f"donate = {to_toml(list(draft.donate))}  # calls return their new values"
    yield "tolerance = { rtol = 1e-5, atol = 1e-5 }  # against plain JAX"
    arrays = {
        "/".join(map(str, steps)): leaf
        for steps, leaf in draft.inputs.items()
        if isinstance(leaf, ArrayInput)
    }
    yield ""
    yield f"[{at}.fixtures]"
    if draft.recorded is None:
        yield "seed = 0  # random inputs; `file` takes recorded ones"
    else:
        yield f"file = {to_toml(draft.recorded.inputs)}"
        if draft.recorded.expected is not None:
            yield f"expected = {to_toml(draft.recorded.expected)}"
    ranges = {path: [leaf.low, leaf.high] for path, leaf in arrays.items() if leaf.low is not None}
    if ranges:
        guessed = any(leaf.guessed for leaf in arrays.values())
        comment = "  # edit: the numbers that callers pass" if guessed else ""
        yield f"ranges = {to_toml(ranges)}{comment}"


def _by_first_step(
    leaves: Iterable[tuple[Steps, InputDraft]],
) -> dict[str | int, list[tuple[Steps, InputDraft]]]:
    """Return leaves by the first step to them, with the steps that follow."""
    found: dict[str | int, list[tuple[Steps, InputDraft]]] = {}
    for (first, *rest), leaf in leaves:
        found.setdefault(first, []).append((tuple(rest), leaf))
    return found


def _input(leaves: Sequence[tuple[Steps, InputDraft]]) -> Any:
    """Return an input of these leaves."""
    steps, leaf = leaves[0]
    if steps:
        below = _by_first_step(leaves)
        if isinstance(steps[0], int):
            return [*map(_input, below.values())]
        return {str(key): _input(each) for key, each in below.items()}
    match leaf:
        case ArrayInput():
            return {"shape": leaf.shape, "dtype": leaf.dtype}
        case LikeInput():
            arguments = {name: name for name in leaf.sizes}
            return {"like": leaf.function, **({"arguments": arguments} if arguments else {})}
    return {}
