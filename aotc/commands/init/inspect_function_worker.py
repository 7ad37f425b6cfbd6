"""Inspects a function and a call of it, in its own process: it imports jax and the user's code.

Run as `python -m aotc.commands.init.inspect_function_worker FOLDER`.
"""

import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aotc.base.errors import finding, raise_if, refusal
from aotc.base.workers import confined_process
from aotc.base.workers.worker_child import Progress, answer
from aotc.capture import import_program, random_keys, user_exceptions
from aotc.capture.like_inputs import missing
from aotc.capture.model_entry_points import open_file, paths_of
from aotc.capture.model_files.frontend_protocol import NARROWER, AxisNames
from aotc.commands.init import init_request
from aotc.config.build_manifest import SourceFile
from aotc.pipeline.children.program_worker import begin_as_if_alone, runs_users_code
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.tensor_text import KEY_DTYPES

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_TAKES_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@runs_users_code
def look(job: init_request.Job, progress: Progress) -> init_request.Answer:
    """Import a function, call its example, and describe its parameters.

    Raises:
        CaptureError: AOTC-E820 for a function that does not exist.
        UsageError: AOTC-E082 for an example that raises or does not fit the function, E085 for
            something that no manifest can call.
    """
    root = Path(job.root)
    if job.limits is not None:
        confined_process.begin(job.limits)
    if job.is_file:
        progress.started(f"reading {job.function}")
        return _read_model_file(SourceFile(job.function, root / job.function))
    progress.started(f"importing {job.function}")
    function = import_program.resolve(job.function, root, "FUNCTION")
    module = sys.modules[job.function.partition(":")[0]]
    raise_if(_check_function(job.function, function, module))
    signature = _signature(job.function, function)
    values: Mapping[str, Any] = {}
    if job.example:
        example = import_program.resolve(job.example, root, "--example")
        progress.started(f"calling {job.example}")
        try:
            made = example()
        except (Exception, SystemExit) as error:
            found, cause = user_exceptions.describe(error, root), "example-raised-an-exception"
            raise refusal("AOTC-E082", job.example, found, cause=cause) from error
        values = _arguments(made, signature, job.example)
    return init_request.Answer(
        parameters=[
            init_request.Parameter(
                name=parameter.name,
                has_default=parameter.default is not parameter.empty,
                stated=_read_annotation(parameter),
                example=[*_leaves(values[parameter.name])] if parameter.name in values else [],
            )
            for parameter in signature.parameters.values()
            if parameter.kind not in _TAKES_ANY
        ],
        takes_any=[str(p) for p in signature.parameters.values() if p.kind in _TAKES_ANY],
        needed={
            name: missing(import_program.resolve(name, root, "--like"), ()) for name in job.likes
        },
        enable_x64=bool(jax.config.jax_enable_x64),
    )


def _signature(reference: str, function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function.

    Raises:
        UsageError: AOTC-E085 without one, or if all arguments would land in *args or **kwargs.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        cause = "signature-is-not-readable"
        raise refusal("AOTC-E085", reference, str(error), cause=cause) from error
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if kinds and all(kind in _TAKES_ANY for kind in kinds):
        found = f"{reference.partition(':')[2]}{signature}"
        raise refusal("AOTC-E085", reference, found, cause="function-has-no-named-parameters")
    return signature


def _check_function(reference: str, function: Callable[..., Any], module: Any) -> Iterator[Finding]:
    """Yield AOTC-E085 for a class, a method without its object, a generator, a coroutine.

    `module` is that in which the function was looked up.
    """
    place, _, name = reference.partition(":")
    owner, _, method = name.rpartition(".")
    holder = attrgetter(owner)(module) if owner else None
    cause, hint = "", None
    if inspect.isclass(function):
        cause = "callable-is-a-class"
        hint = f"add `model = {function.__name__}(...)` to the module, and name `{place}:model`"
    elif inspect.isclass(holder) and inspect.isfunction(inspect.getattr_static(holder, method)):
        cause = "method-has-no-object"
        hint = f"add `model = {owner}(...)` to the module, and name `{place}:model.{method}`"
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        cause = "callable-is-a-generator"
    elif inspect.iscoroutinefunction(function):
        cause = "callable-is-a-coroutine"
    if cause:
        yield finding("AOTC-E085", reference, "", cause=cause, hint=hint)


def _arguments(made: Any, signature: inspect.Signature, where: str) -> dict[str, Any]:
    """Return the example's arguments by name. Raises UsageError (AOTC-E082)."""
    kinds = {p.name: p.kind for p in signature.parameters.values() if p.kind not in _TAKES_ANY}
    ordered = [name for name, kind in kinds.items() if kind in _BY_POSITION]
    if isinstance(made, dict):
        if extra := [key for key in made if key not in kinds]:
            expected = f"one of: {', '.join(kinds)}"
            hint = "use the parameters' names as keys; wrap a single dict in a tuple: `(batch,)`"
            raise refusal("AOTC-E082", where, repr(extra[0]), expected=expected, hint=hint)
        return made
    by_position = made if isinstance(made, tuple) else (made,)
    if len(by_position) > len(ordered):
        found = f"{len(by_position)} values"
        expected = f"at most {len(ordered)} values ({', '.join(ordered)})"
        hint = "return one value for each parameter; a list counts as one value"
        raise refusal("AOTC-E082", where, found, expected=expected, hint=hint)
    return dict(zip(ordered, by_position, strict=False))


def _leaves(
    value: Any, *steps: str | int
) -> Iterator[tuple[init_request.Steps, init_request.Seen]]:
    """Yield the leaves of a value, each with the steps to it."""
    if isinstance(value, (np.ndarray, np.generic, jax.Array, jax.ShapeDtypeStruct)):
        yield steps, _array(value)
    elif type(value) is dict and all(isinstance(key, str) for key in value):
        if not value:
            yield steps, init_request.SeenPlain(value)
        for key, item in value.items():
            yield from _leaves(item, *steps, key)
    elif _is_plain(value):
        yield steps, init_request.SeenPlain(value)
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from _leaves(item, *steps, index)
    else:
        kind = f"float {value}" if type(value) is float else type(value).__name__
        yield steps, init_request.SeenOther(kind)


def _is_plain(value: Any) -> bool:
    """Return whether TOML can write a value."""
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is float:
        return math.isfinite(value)
    return type(value) in (bool, int, str)


def _array(value: Any) -> init_request.Seen:
    impl = random_keys.impl_of(value)
    if impl is not None:
        return init_request.SeenArray(list(value.shape), KEY_DTYPES[impl], 0)
    original = np.dtype(value.dtype)
    dtype = np.dtype(jax.dtypes.canonicalize_dtype(original)) if original.kind != "O" else original
    if dtype.name not in init_request.DTYPES:
        return init_request.SeenOther(f"array of {original.name}")
    low, high = None, None
    is_integer = jax.dtypes.issubdtype(dtype, np.integer)
    if is_integer and not isinstance(value, jax.ShapeDtypeStruct) and math.prod(value.shape):
        numbers = np.asarray(value)
        low, high = int(numbers.min()), int(numbers.max())
    elif is_integer:
        low, high = 0, 1
    return init_request.SeenArray(
        shape=list(value.shape),
        dtype=dtype.name,
        bytes=math.prod(value.shape) * dtype.itemsize,
        low=low,
        high=high,
        original=None if dtype == original else original.name,
    )


def _read_model_file(source: SourceFile) -> init_request.Answer:
    """Return the parameters of a model file, in the form of a function's annotations.

    Raises the errors of `open_file`, and UsageError (AOTC-E080) for a file that cannot be read.
    """
    try:
        model = open_file(source, None, source.text, False).model
    except OSError as error:
        found = error.strerror or str(error)
        cause = "model-file-is-not-readable"
        raise refusal("AOTC-E080", source.text, found, cause=cause) from error
    ranges: dict[str, tuple[int | None, int | None]] = {}
    names = AxisNames(model)
    parameters: dict[str, init_request.Parameter] = {}
    narrowed: dict[str, str] = {}
    inputs = [*zip(paths_of(model), model.inputs, strict=True)]
    changes = [path for path, each in inputs if each.changes]
    for path, each in inputs:
        first = path.partition("/")[0]
        if each.initial is not None:
            continue
        own = path.replace("/", "_")
        axes = [str(names.axis(own, *axis)) for axis in enumerate(each.shape)]
        for axis, name in zip(each.shape, axes, strict=True):
            if not isinstance(axis, int):
                ranges[name] = model.ranges.get(axis or "", (None, None))
        dtype = NARROWER.get(each.dtype, each.dtype).name
        if dtype != each.dtype.name:
            narrowed[first] = each.dtype.name
        parameter = parameters.setdefault(
            first, init_request.Parameter(first, has_default=False, stated={})
        )
        parameter.stated[path] = f"{dtype}[{','.join(axes)}]"
    sizes = {str(names.renamed.get(name, name)): found for name, found in model.sizes.items()}
    return init_request.Answer(
        [*parameters.values()],
        enable_x64=False,
        ranges=ranges,
        sizes=sizes,
        changes=changes,
        narrowed=narrowed,
    )


def _read_annotation(parameter: inspect.Parameter) -> dict[str, str]:
    """`Float32[Array, "batch 64"]` of jaxtyping as `float32[batch,64]`; {} for anything else.

    Of several dtypes, such as those of `Float`, the one of 32 bits; axes with names or sizes only.
    https://docs.kidger.site/jaxtyping/api/array/
    """
    annotation = parameter.annotation
    dtypes, axes = getattr(annotation, "dtypes", None), getattr(annotation, "dim_str", None)
    if not isinstance(dtypes, (list, tuple)) or not isinstance(axes, str):
        return {}
    names = [str(each) for each in dtypes]
    wide = [each for each in names if each.endswith("32")] or names
    text = f"{wide[0]}[{','.join(axes.split())}]" if wide and wide[0] in init_request.DTYPES else ""
    return {parameter.name: text} if text else {}


def prepare() -> None:
    """Prepare the zygote: the imports above are all it needs."""


def main() -> None:
    """Do the job."""
    begin_as_if_alone()
    answer(init_request.Job, look)


if __name__ == "__main__":
    main()
