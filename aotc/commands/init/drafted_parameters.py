"""What each parameter of a function becomes in its manifest."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from aotc.base.errors import finding
from aotc.commands.init import array_text
from aotc.commands.init.array_text import ArrayText
from aotc.commands.init.draft_types import ArrayInput, InputDraft, LikeInput
from aotc.commands.init.init_messages import (
    Parameter,
    Seen,
    SeenArray,
    SeenDict,
    SeenList,
    SeenOther,
    SeenPlain,
)
from aotc.commands.init.init_request import Request
from aotc.config.input_specs import is_step
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import with_article

LARGE_BYTES = 1 << 20
"""A parameter that takes more in the example is more likely weights than a request's input."""


class ParameterReader:
    """weights: parameters that are known to be some.  problems, notes: collected.  sizes: of each
    dimension in the example.
    """

    def __init__(self, request: Request, weights: Collection[str]) -> None:
        self.request = request
        self.weights = weights
        self.used: set[str] = set()
        self.problems: list[Finding] = []
        self.notes: list[str] = []
        self.sizes: dict[str, tuple[int, str]] = {}

    def _like(self, function: str, needed: Mapping[str, Sequence[str]]) -> LikeInput:
        """What it needs and has a dimension's name is that dimension's size."""
        arrays = self.request.inputs.values()
        axes = {axis for array in arrays for axis in array.shape if isinstance(axis, str)}
        return LikeInput(function, tuple(n for n in needed.get(function, ()) if n in axes))

    def parameters(
        self, parameters: list[Parameter], needed: Mapping[str, Sequence[str]]
    ) -> tuple[dict[str, InputDraft], dict[str, Any]]:
        inputs: dict[str, InputDraft] = {}
        static = dict(self.request.static)
        for parameter in parameters:
            name, example = parameter.name, parameter.example
            if name in self.request.weights or name in self.request.static:
                continue
            if name in self.request.likes:
                inputs[name] = self._like(self.request.likes[name], needed)
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
                    finding(
                        "AOTC-E082",
                        f"{path}{seen.path}",
                        with_article(seen.kind),
                        expected="arrays, and dicts and lists of arrays, which a manifest writes",
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
        hint = (
            f"--input '{name}=float32[batch,64]', --weights {name}=model.safetensors, "
            f"--static {name}=1.0, or --example package.module:function"
        )
        if name in self.weights:
            hint = (
                f"--weights {name}=package.module:function, which returns what the model's `init` "
                f"does, or --weights {name}=model.safetensors"
            )
        self.problems.append(
            finding(
                "AOTC-E081",
                f"{self.request.function}, parameter {name}",
                "no example, no option for it, no annotation with a shape, and no default",
                hint=hint,
            )
        )

    def _no_such_leaf(self, path: str) -> None:
        hint = "name an array of the example, as the manifest does: PARAMETER/KEY/INDEX"
        self._says(path, "the path of an array in the example", "no such array", hint)

    def _cannot(self, path: str, expected: str, found: str) -> None:
        self.problems.append(
            finding(
                "AOTC-E082",
                path,
                found,
                expected=expected,
                hint="change the example, or let a function return the structure (--like)",
            )
        )

    def _says(self, path: str, expected: str, found: str, hint: str) -> None:
        self.problems.append(
            finding("AOTC-E083", f"--input {path}", found, expected=expected, hint=hint)
        )


_DTYPES = {bool: "bool", int: "int32", float: "float32"}


def _fixed(name: str, value: Any) -> str:
    dtype = _DTYPES.get(type(value))
    wish = f"; to pass it with every call: --input '{name}={dtype}[]'" if dtype else ""
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
