"""Parameters of a function: from the options of `aotc init`, and from its inspection."""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct

from aotc.base.errors import finding, raise_if
from aotc.base.workers.confined_process import ProcessLimits
from aotc.capture.model_files.frontend_registry import export_hint, suffixes
from aotc.config.checkpoint_files import ENDING
from aotc.config.dtype_names import OTHER_DTYPES, SHORT_DTYPES
from aotc.config.field_types import is_function_reference, is_identifier
from aotc.config.input_specs import KEY_DTYPES
from aotc.config.manifest_problem import spell
from aotc.report.array_files import Array, read_arguments
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import closest
from aotc_runtime.schema.bundle_manifest import DType

DTYPES = tuple(sorted([*(dtype.value for dtype in DType), *KEY_DTYPES]))

_FORM = "DTYPE[AXES], such as float32[batch,64], int32[] or key<fry>[4]"

_ARRAY = re.compile(r"\A([A-Za-z0-9_]*(?:<[a-z]+>)?) ?\[([^\[\]]*)\]\Z")

_RANGE = re.compile(r"\A([1-9][0-9]{0,8}):([1-9][0-9]{0,8})\Z")
_REFERENCE = "package.module:function"


@dataclass(frozen=True, slots=True)
class ArrayText:
    """An array of an option; `shape` has sizes and dimensions.

    `dtype` is as in a build manifest, None where only the axes are given.
    """

    dtype: str | None
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """Recorded arrays, which the fixtures of the manifest will read.

    Attributes:
        inputs: The .npz file with the arguments of a call.
        arrays: Its arrays by leaf path.
        expected: The .npz file with what the model's framework returned for them.
    """

    inputs: str
    arrays: Mapping[str, Array]
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """Descriptions of a function's parameters from the command line.

    Attributes:
        inputs: Arrays by leaf path.
        likes: Functions by parameter.
        weights: `source` and `init` by parameter: files or folders, and functions.
        static: Values by parameter.
        dimensions: The smallest and the largest size by name.
        recorded: A recorded call.
    """

    function: str
    example: str | None
    inputs: Mapping[str, ArrayText]
    likes: Mapping[str, str]
    weights: Mapping[str, Mapping[str, str]]
    static: Mapping[str, Any]
    dimensions: Mapping[str, tuple[int, int]]
    recorded: RecordedCall | None = None

    @property
    def by_option(self) -> dict[str, list[str]]:
        """Return the parameters that each option names, sorted."""
        inputs = {path.partition("/")[0] for path in self.inputs}
        others = {"--like": self.likes, "--weights": self.weights, "--static": self.static}
        return {option: sorted(names) for option, names in {"--input": inputs, **others}.items()}

    @property
    def named(self) -> dict[str, str]:
        """Return each parameter that an option names, with that option."""
        arrays = self.recorded.arrays if self.recorded else {}
        recorded = {path.partition("/")[0]: "--inputs" for path in arrays}
        return recorded | {name: o for o, names in self.by_option.items() for name in names}


def is_model_file(text: str) -> bool:
    """Return whether a text names a file that a frontend reads, by how it ends."""
    return not is_function_reference(text) and PurePath(text).suffix in suffixes()


def _no_function(option: str, reference: str) -> Finding:
    """Return AOTC-E080 for a text that is no reference to a function."""
    expected, cause = _REFERENCE, "function-reference-is-invalid"
    module, _, attribute = reference.rpartition(".")
    files = [f"{module}{suffix}" for suffix in suffixes()]
    meant = next(filter(os.path.isfile, files), f"{module}:{attribute}")
    is_named = meant in files or is_function_reference(meant)
    hint = f"did you mean `{meant}`?" if is_named else "name a function"
    if reference.endswith(".py"):
        hint = f"name one of its functions, such as `{PurePath(reference).stem}:predict`"
    elif os.path.isfile(reference):  # noqa: PTH113  of a name that is too long, too
        expected, cause = f"one of: {', '.join(suffixes())}", "unsupported-model-file-type"
        hint = export_hint(reference)
    return _problem(option, expected, spell(reference), hint, cause)


def read_request(
    function: str,
    example: str | None,
    *,
    inputs: Iterable[str],
    likes: Iterable[str],
    weights: Iterable[str],
    static: Iterable[str],
    dimensions: Iterable[str],
) -> Request:
    """Parse the options of a command line, each a list of texts NAME=VALUE.

    Raises:
        UsageError: AOTC-E080, with all problems together.
    """
    problems: list[Finding] = []
    for option, reference in (("FILE|FUNCTION", function), ("--example", example)):
        if reference is None or (option != "--example" and is_model_file(reference)):
            continue
        if not is_function_reference(reference):
            problems.append(_no_function(option, reference))

    def read[T](option: str, texts: Iterable[str], value: Callable[[str], T]) -> dict[str, T]:
        found: dict[str, T] = {}
        for text in texts:
            name, equals, rest = text.partition("=")
            try:
                if not equals or not name:
                    raise _Unreadable(f"NAME=VALUE, such as {_EXAMPLES[option]}")
                if name in found:
                    raise _Unreadable(f"one value for {name}", "remove one of the two")
                found[name] = value(rest)
            except _Unreadable as error:
                problems.append(_problem(option, str(error), spell(text), error.hint))
        return found

    stated: dict[str, dict[str, str]] = {}
    by_kind: dict[str, list[str]] = {"source": [], "init": []}
    for text in weights:
        is_function = is_function_reference(text.partition("=")[2])
        by_kind["init" if is_function else "source"].append(text)
    for kind, texts in by_kind.items():
        for name, value in read("--weights", texts, _weights).items():
            stated.setdefault(name, {})[kind] = value
    request = Request(
        function=function,
        example=example,
        inputs=read("--input", inputs, _array),
        likes=read("--like", likes, _reference),
        weights=stated,
        static=read("--static", static, _plain),
        dimensions=read("--dimension", dimensions, _range),
    )
    raise_if([*problems, *_names(request)])
    return request


_EXAMPLES = {
    "--input": "image=float32[batch,64]",
    "--like": "cache=model:empty_cache",
    "--weights": "params=model.safetensors",
    "--static": "temperature=1.0",
    "--dimension": "batch=1:64",
}


class _Unreadable(Exception):
    """The argument: what was expected."""

    def __init__(self, expected: str, hint: str = "correct the value") -> None:
        super().__init__(expected)
        self.hint = hint


def _problem(option: str, expected: str, found: str, hint: str | None, cause: str = "") -> Finding:
    return finding("AOTC-E080", option, found, cause=cause, expected=expected, hint=hint)


def read_recorded(inputs: Path | None, expected: Path | None) -> RecordedCall | None:
    """Read the files of --inputs and --expected.

    Raises:
        UsageError: AOTC-E012 for a file that cannot be read, E080 for --expected alone.
    """
    if inputs is None:
        if expected is not None:
            raise_if([_problem("--expected", "--inputs", "no --inputs", "add --inputs FILE.npz")])
        return None
    arrays = {
        name: array
        for name, array in read_arguments([f"@{inputs}"], "--inputs").items()
        if not isinstance(array, str)
    }
    if expected is not None:
        read_arguments([f"@{expected}"], "--expected")
    return RecordedCall(str(inputs), arrays, None if expected is None else str(expected))


def parse_array(text: str) -> ArrayText | None:
    """Parse an array's text; None for another form, or an unknown dtype or axis."""
    found = _ARRAY.match(text.strip())
    if found is None:
        return None
    dtype = SHORT_DTYPES.get(found[1], found[1]) or None
    if dtype is not None and dtype not in DTYPES:
        return None
    inside = found[2].strip().removesuffix(",")
    axes = [axis.strip() for axis in inside.split(",")] if inside else []
    shape: list[int | str] = []
    for axis in axes:
        if axis.isascii() and axis.isdigit() and len(axis) < 19:
            shape.append(int(axis))
        elif is_identifier(axis):
            shape.append(axis)
        else:
            return None
    return ArrayText(dtype, tuple(shape))


def _array(text: str) -> ArrayText:
    array = parse_array(text)
    if array is None:
        written, bracket, _ = text.partition("[")
        written, known = written.strip(), {*DTYPES, *SHORT_DTYPES}
        close = OTHER_DTYPES.get(written) or closest(written, known)
        close = close if written not in known else None
        if is_function_reference(text):
            raise _Unreadable(_FORM, f"pass a function by `--like NAME={text}`")
        hint = f"did you mean `{close}`?" if close else "correct the axes in brackets"
        raise _Unreadable(_FORM, hint if bracket else "write the dtype, then the axes in brackets")
    return array


def _reference(text: str) -> str:
    if not is_function_reference(text):
        meant = f"pass an array by `--input 'NAME={text}'`" if parse_array(text) else None
        raise _Unreadable(f"NAME={_REFERENCE}", meant or "name a function that returns arrays")
    return text


def _weights(text: str) -> str:
    """Check that a text names weights as `source` or `init` do: a file, a folder or a function."""
    is_file = text.endswith((".safetensors", ".npz", ENDING)) or os.path.isdir(text)  # noqa: PTH112
    if not (is_file or is_function_reference(text)):
        hint = "name the file or folder with the values, or a function that returns them"
        if text.endswith((".npy", ".pt", ".pth", ".pkl")):
            hint = "read it in a function that returns the values, and name that"
        raise _Unreadable(f"NAME=FILE.safetensors, a folder, or NAME={_REFERENCE}", hint)
    return text


def _plain(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        hint = "write strings in quotes: --static 'mode=\"fast\"'"
        raise _Unreadable("NAME=VALUE, with a TOML value", hint) from None


def _range(text: str) -> tuple[int, int]:
    found = _RANGE.match(text)
    if found is None or int(found[1]) > int(found[2]):
        raise _Unreadable("NAME=LOWEST:HIGHEST, two sizes from 1", "write it as batch=1:64")
    return int(found[1]), int(found[2])


def _names(request: Request) -> Iterator[Finding]:
    """Yield AOTC-E080 for parameters that are described twice."""
    seen: dict[str, str] = {}
    for option, parameters in request.by_option.items():
        for name in parameters:
            if name in seen:
                found, cause = f"{name}, as in {seen[name]}", "parameter-described-twice"
                yield _problem(option, "", found, None, cause)
            seen.setdefault(name, option)


class Job(Struct, frozen=True):
    """The job of the worker.

    `function` and `example` have the form "package.module:function"; `example` returns the
    arguments of a call. `likes` are functions that return an input each. With `is_file`, the
    function is a model file, and `limits` are for reading it.
    """

    root: str
    function: str
    example: str | None
    likes: tuple[str, ...] = ()
    is_file: bool = False
    limits: ProcessLimits | None = None


class SeenArray(Struct, frozen=True, tag="array"):
    """An array of the example.

    `low` and `high` bound an array of integers. `original` is its dtype in the example, where jax
    without 64-bit types would narrow it to `dtype`.
    """

    shape: list[int]
    dtype: str
    bytes: int
    low: int | None = None
    high: int | None = None
    original: str | None = None


class SeenPlain(Struct, frozen=True, tag="plain"):
    """A value that TOML can write."""

    value: Any


class SeenOther(Struct, frozen=True, tag="other"):
    """kind: what it is."""

    kind: str


type Steps = tuple[str | int, ...]
"""Keys and indices that lead to a leaf."""

type Seen = SeenArray | SeenPlain | SeenOther


class Parameter(Struct, frozen=True):
    """A parameter of the function.

    `stated` has arrays as `DTYPE[AXES]` by leaf path: that of a jaxtyping annotation, or those of a
    model file. `example` has the leaves of its value in the example call.
    """

    name: str
    has_default: bool
    stated: dict[str, str] = {}
    example: list[tuple[Steps, Seen]] = []


class Answer(Struct, frozen=True):
    """The result of the worker.

    Attributes:
        parameters: Of the function.
        enable_x64: Whether the program itself turned 64-bit types on when imported.
        takes_any: "*args" and "**kwargs" of the function, to which a manifest passes nothing.
        needed: The required arguments of each function of `likes`.
        ranges: By name, those of sizes that a model file states; None for an open end.
        sizes: By name, the only sizes that a model file has the program for.
        changes: Paths of inputs that a model changes.
        narrowed: Parameters that have 64 bits in a model file, by name, with their dtype there.
    """

    parameters: list[Parameter]
    enable_x64: bool
    takes_any: list[str] = []
    needed: dict[str, list[str]] = {}
    ranges: dict[str, tuple[int | None, int | None]] = {}
    sizes: dict[str, tuple[int, ...]] = {}
    changes: list[str] = []
    narrowed: dict[str, str] = {}
