"""From what was asked and seen to a manifest: every parameter bound, an input, or fixed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from aotc.config.fields import is_identifier
from aotc.config.inputs import WIDE_DTYPES, is_step
from aotc.config.problem import closest, with_article
from aotc.drafting import array_text
from aotc.drafting.array_text import ArrayText
from aotc.drafting.messages import (
    Answer,
    Parameter,
    Seen,
    SeenArray,
    SeenDict,
    SeenList,
    SeenOther,
    SeenPlain,
)
from aotc.drafting.request import Request
from aotc.errors import raise_if
from aotc_runtime.errors import Finding

LARGE_BYTES = 1 << 20
"""A parameter that takes more in the example is more likely weights than a request's input."""

DEFAULT_RANGE = (1, 64)
DEFAULT_SIZES = (1, 8, 64)


@dataclass(frozen=True, slots=True)
class ArrayInput:
    """low, high: the numbers its fixtures are drawn from, of an array of integers. guessed: that
    nobody said so.
    """

    shape: tuple[int | str, ...]
    dtype: str
    low: int | None = None
    high: int | None = None
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class LikeInput:
    """A structure that a function returns."""

    function: str


type InputDraft = ArrayInput | LikeInput | dict[str, InputDraft] | list[InputDraft]


@dataclass(frozen=True, slots=True)
class DimensionDraft:
    """profiles: sizes, or a rule's name."""

    low: int
    high: int
    profiles: tuple[int, ...] | str


@dataclass(frozen=True, slots=True)
class Draft:
    """What the manifest will say. weights: set to file or function.  notes: what its reader should
    look at.
    """

    name: str
    entry_point: str
    function: str
    targets: tuple[str, ...]
    enable_x64: bool
    weights: Mapping[str, str]
    dimensions: Mapping[str, DimensionDraft]
    inputs: Mapping[str, InputDraft]
    static: Mapping[str, Any]
    notes: tuple[str, ...]


def draft(
    request: Request, answer: Answer, *, name: str, entry_point: str, targets: tuple[str, ...]
) -> Draft:
    """Raises UsageError: AOTC-E081 a parameter of which nothing is known, E082 an example that a
    manifest cannot describe, E083 an option for what the function does not have.
    """
    reader = _Reader(request)
    inputs, static = reader.parameters(answer.parameters)
    raise_if([*_unknown_parameters(request, answer.parameters), *reader.problems])
    leaves = [leaf for tree in inputs.values() for _, leaf in leaves_of(tree, "")]
    return Draft(
        name=name,
        entry_point=entry_point,
        function=request.function,
        targets=targets,
        enable_x64=answer.enable_x64 or any(leaf.dtype in WIDE_DTYPES for leaf in leaves),
        weights=request.weights,
        dimensions=_dimensions(request, leaves, reader.sizes),
        inputs=inputs,
        static=static,
        notes=tuple(reader.notes),
    )


def leaves_of(tree: InputDraft, path: str) -> Iterator[tuple[str, ArrayInput]]:
    """Path and array of every leaf that is known here."""
    match tree:
        case ArrayInput():
            yield path, tree
        case dict():
            for key, item in tree.items():
                yield from leaves_of(item, f"{path}/{key}")
        case list():
            for index, item in enumerate(tree):
                yield from leaves_of(item, f"{path}/{index}")
        case LikeInput():
            return


class _Reader:
    """problems, notes: collected.  sizes: of each dimension in the example."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.used: set[str] = set()
        self.problems: list[Finding] = []
        self.notes: list[str] = []
        self.sizes: dict[str, tuple[int, str]] = {}

    def parameters(
        self, parameters: list[Parameter]
    ) -> tuple[dict[str, InputDraft], dict[str, Any]]:
        inputs: dict[str, InputDraft] = {}
        static = dict(self.request.static)
        for parameter in parameters:
            name, example = parameter.name, parameter.example
            if name in self.request.weights or name in self.request.static:
                continue
            if name in self.request.likes:
                inputs[name] = LikeInput(self.request.likes[name])
            elif any(path.startswith(f"{name}/") for path in self.request.inputs) and not example:
                inputs[name] = self._nested(name)
            elif isinstance(example, SeenPlain) and name not in self.request.inputs:
                static[name] = example.value
                self.notes.append(_fixed(name, example.value))
            elif example is not None and not isinstance(example, SeenPlain):
                inputs[name] = self._tree(example, name)
                self._maybe_weights(name, example)
            elif name in self.request.inputs:
                inputs[name] = self._stated(name, self.request.inputs[name], None)
            elif parameter.annotation and (array := array_text.parse(parameter.annotation)):
                inputs[name] = self._stated(name, array, None)
            elif not parameter.has_default:
                self._nothing_known(name)
        for path in sorted(self.request.inputs.keys() - self.used):
            if path.partition("/")[0] in {parameter.name for parameter in parameters}:
                self._no_such_leaf(path)
        return inputs, static

    def _tree(self, seen: Seen, path: str) -> InputDraft:
        match seen:
            case SeenArray():
                return self._array(seen, path)
            case SeenDict():
                for key in seen.items:
                    if not is_step(key):
                        self._cannot(f"{path}/{key}", "keys of printable ASCII without '/'", key)
                return {key: self._tree(item, f"{path}/{key}") for key, item in seen.items.items()}
            case SeenList():
                return [self._tree(item, f"{path}/{i}") for i, item in enumerate(seen.items)]
            case SeenPlain():
                self._cannot(path, "arrays inside of an input", f"the value {seen.value!r}")
            case SeenOther():
                parameter = path.partition("/")[0]
                self.problems.append(
                    Finding(
                        code="AOTC-E082",
                        where=f"{path}{seen.path}",
                        expected="arrays, and dicts and lists of arrays, which a manifest writes",
                        found=with_article(seen.kind),
                        hint="let a function return it: "
                        f"--like {parameter}=package.module:function",
                    )
                )
        return []

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
            self._says(path, "a dtype, since there is no example", "axes alone", hint)
            dtype = "float32"
        if seen is not None:
            self._check_example(path, stated, seen)
        low, high, guessed = (seen.low, seen.high, False) if seen else (None, None, False)
        if low is None and dtype.lstrip("u").startswith("int"):
            low, high, guessed = 0, 1, True
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
                        f"{axis} to be {before}, as in {other}",
                        f"{size} in the example",
                        "give axes of different sizes different names",
                    )

    def _nested(self, name: str) -> InputDraft:
        """Dicts from leaf paths; there is no example to say whether a step is an index."""
        root: dict[str, InputDraft] = {}
        for path, array in self.request.inputs.items():
            first, *steps = path.split("/")
            if first != name:
                continue
            node = root
            for step in steps[:-1]:
                inner = node.setdefault(step, {})
                if not isinstance(inner, dict):
                    break
                node = inner
            else:
                if steps and steps[-1] not in node:
                    node[steps[-1]] = self._stated(path, array, None)
                    continue
            self.used.add(path)
            self._says(path, "a path beside the others", "one below another array", "correct it")
        return root

    def _maybe_weights(self, name: str, seen: Seen) -> None:
        if name in self.request.inputs or _bytes(seen) < LARGE_BYTES:
            return
        self.notes.append(
            f"{name} takes {_bytes(seen) / 2**20:.1f} MiB in the example, and is passed with every "
            f"call; weights are bound once: --weights {name}=FILE.safetensors or "
            f"{name}=package.module:function"
        )

    def _nothing_known(self, name: str) -> None:
        self.problems.append(
            Finding(
                code="AOTC-E081",
                where=f"{self.request.function}, parameter {name}",
                expected="what it is: an array, weights, or a fixed value",
                found="no example, no option for it, no annotation with a shape, and no default",
                hint=f"--input '{name}=float32[batch,64]', --weights {name}=model.safetensors, "
                f"--static {name}=1.0, or --example package.module:function",
            )
        )

    def _no_such_leaf(self, path: str) -> None:
        hint = "name an array of the example, as the manifest does: PARAMETER/KEY/INDEX"
        self._says(path, "the path of an array in the example", "no such array", hint)

    def _cannot(self, path: str, expected: str, found: str) -> None:
        self.problems.append(
            Finding(
                code="AOTC-E082",
                where=path,
                expected=expected,
                found=found,
                hint="change the example, or let a function return the structure (--like)",
            )
        )

    def _says(self, path: str, expected: str, found: str, hint: str) -> None:
        self.problems.append(
            Finding(
                code="AOTC-E083",
                where=f"--input {path}",
                expected=expected,
                found=found,
                hint=hint,
            )
        )


def _fixed(name: str, value: Any) -> str:
    if isinstance(value, bool | int | float):
        dtype = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
        wish = f"; to pass it with every call: --input '{name}={dtype}[]'"
    else:
        wish = ""
    return f"{name} is fixed to its value in the example{wish}"


def _bytes(seen: Seen) -> int:
    match seen:
        case SeenArray():
            return seen.bytes
        case SeenDict():
            return sum(_bytes(item) for item in seen.items.values())
        case SeenList():
            return sum(_bytes(item) for item in seen.items)
    return 0


def _unknown_parameters(request: Request, parameters: list[Parameter]) -> Iterator[Finding]:
    known = [parameter.name for parameter in parameters]
    for name, option in sorted(request.named.items()):
        if name not in known:
            close = closest(name, known)
            yield Finding(
                code="AOTC-E083",
                where=f"{option} {name}",
                expected=f"a parameter of {request.function}: {', '.join(known) or 'it has none'}",
                found=name,
                hint=f"did you mean {close}?" if close else "correct the name",
            )


def _dimensions(
    request: Request, leaves: list[ArrayInput], sizes: Mapping[str, tuple[int, str]]
) -> dict[str, DimensionDraft]:
    names = {axis for leaf in leaves for axis in leaf.shape if isinstance(axis, str)}
    found: dict[str, DimensionDraft] = {}
    for name in sorted(names):
        if name in request.dimensions:
            low, high = request.dimensions[name]
            found[name] = DimensionDraft(low, high, (low,) if low == high else "powers_of_two")
            continue
        size = sizes[name][0] if name in sizes else 1
        low, high = DEFAULT_RANGE
        high = max(high, 2 ** math.ceil(math.log2(size))) if size > 0 else high
        profiles = sorted({*(s for s in DEFAULT_SIZES if s <= high), max(size, 1)})
        found[name] = DimensionDraft(low, high, tuple(profiles))
    return found


def name_of(function: str) -> str:
    """A bundle's name from a reference: the first package that the function is in."""
    return PurePosixPath(function.partition(":")[0].replace(".", "/")).parts[0]


def entry_point_of(function: str) -> str:
    """An entry point's name from a reference: the function's own."""
    last = function.rpartition(".")[2].rpartition(":")[2]
    return last if is_identifier(last) else "run"
