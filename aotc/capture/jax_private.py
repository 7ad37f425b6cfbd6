"""All private jax names that the toolchain uses, with the versions each was seen in.

Seen in jax 0.11.2 and 0.12.0.1. A missing name raises CompileError (AOTC-E910) with the version
found, so that a new jax fails here and not deep inside a build.
"""

import dataclasses
import importlib
import itertools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import jax.export
import numpy as np

from aotc.base.constants import CONSTANTS_AS_ARGUMENTS, CPU_DEVICES
from aotc.base.errors import refusal
from aotc.capture import project_files, user_exceptions
from aotc.compile.mlir import mlir_context


@contextmanager
def _private(name: str) -> Iterator[None]:
    """Raise CompileError (AOTC-E910) where a private name is missing in the block, or another."""
    try:
        yield
    except (ImportError, AttributeError, KeyError, TypeError, ValueError) as error:
        found, expected = str(error), f"the private name {name}, as in jax 0.11.2 to 0.12.0"
        raise refusal("AOTC-E910", f"jax {jax.__version__}", found, expected=expected) from error


def lowered_parts(lowered: Any) -> tuple[tuple[np.ndarray[Any, Any], ...], tuple[int, ...]]:
    """Return what the public `jax.stages.Lowered` does not have: constants, and kept arguments.

    Constants are the values of leading arguments that were closed over. Kept are arguments that the
    module takes, counted over constants, then flat arguments; jax drops unused ones.
    """
    with _private("Lowered._lowering.{const_args, compile_args}"):
        lowering = lowered._lowering
        constants = tuple(np.asarray(value) for value in lowering.const_args)
        return constants, tuple(sorted(lowering.compile_args["kept_var_idx"]))


def serialize_portable(module: Any, version: str) -> bytes:
    """Return a module as a versioned portable artifact, CHLO operations included.

    jaxlib's public `stablehlo.serialize_portable_artifact` refuses CHLO, which jax emits for erf,
    top_k and others. This one, which jax.export uses, rewrites them first in the way XLA reads
    back as the operations they were. `chlo.scan`, which jax emits for cumulative sums on GPUs,
    becomes a composite with a region, which no version of the format has: a module with one is
    written with that operation as the installed jaxlib has it, as jax.export writes every module.
    """
    with _private("jaxlib._jax.mlir.serialize_portable_artifact"):
        from jaxlib import _jax

        serialize = _jax.mlir.serialize_portable_artifact
    has_scan = bool(mlir_context.operations_named(module, ("chlo.scan",)))
    artifact: bytes = serialize(module, version, has_scan)
    return artifact


def import_for_lowering() -> None:
    """Import what jax otherwise imports when it lowers the first function of a process."""
    with suppress(ImportError):
        importlib.import_module("jaxlib.mlir.dialects.mhlo")


def read_xla_flags() -> None:
    """Make XLA read the flags of the environment, which it does once in a process."""
    with _private("jaxlib._jax.CompileOptions"):
        from jaxlib import _jax

        _jax.CompileOptions()


_CONSTANTS = (
    "config.jax_use_simplified_jaxpr_constants, core.literalable_types, "
    "mlir.LoweringParameters.hoist_constants_as_args"
)


def constants_are_arguments() -> bool:
    """Return whether jax takes closed-over arrays for arguments in this process."""
    with _private(_CONSTANTS):
        return bool(jax.config.jax_use_simplified_jaxpr_constants)


def take_options(variables: Mapping[str, str]) -> None:
    """Make an imported jax that has started nothing read its variables, as its import does."""
    for name, value in variables.items():
        if name == CONSTANTS_AS_ARGUMENTS:
            _take_constants_for_arguments()
        else:
            assert name == CPU_DEVICES, name
            jax.config.update("jax_num_cpu_devices", int(value))


def _take_constants_for_arguments() -> None:
    with _private(_CONSTANTS):
        from jax._src import core
        from jax._src.array import ArrayImpl
        from jax._src.interpreters import mlir

        jax.config.update("jax_use_simplified_jaxpr_constants", True)
        core.literalable_types.add(ArrayImpl)
        # A default that the import has read from the option.
        made: Any = mlir.LoweringParameters.__init__
        names = [field.name for field in dataclasses.fields(mlir.LoweringParameters)]
        defaults = dict(zip(names, made.__defaults__, strict=True))
        made.__defaults__ = (*{**defaults, "hoist_constants_as_args": True}.values(),)


_anew = itertools.count(1)


@contextmanager
def without_trace_cache() -> Iterator[None]:
    """Make jax trace every function again that it has traced before.

    By a value of its own for an option that is part of jax's cache keys and does nothing on these
    platforms; `jax.clear_caches` would throw away what was compiled as well, which takes seconds.
    """
    with _private("config.jax_xla_profile_version"):
        from jax._src import config

        state = config.jax_xla_profile_version
    with state(next(_anew)):
        yield


type Chain = tuple[Any, ...]
"""An equation, and those that it is nested in, innermost first."""


def equations_within(jaxpr: Any, outer: Chain = ()) -> Iterator[Chain]:
    """Yield the equations of a jaxpr and its nested ones, each with those around it.

    The outermost comes first.
    """
    for equation in jaxpr.eqns:
        chain = (equation, *outer)
        yield chain
        for inner in nested_jaxprs(equation):
            yield from equations_within(inner, chain)


def scopes(equation: Any) -> tuple[str, ...]:
    """Return the names of `jax.named_scope` around an equation of a jaxpr, outermost first."""
    with _private("source_info.name_stack.stack of an equation"):
        from jax._src.source_info_util import Scope

        stack = equation.source_info.name_stack.stack
    return tuple(each.name for each in stack if isinstance(each, Scope))


def constant_variables(jaxpr: Any) -> Iterator[Any]:
    """Return variables for closed-over values, of a jaxpr and of those nested in it."""
    yield from jaxpr.constvars
    for equation in jaxpr.eqns:
        for inner in nested_jaxprs(equation):
            yield from constant_variables(inner)


def nested_jaxprs(equation: Any) -> Iterator[Any]:
    """Yield the jaxprs among the parameters of an equation: bodies, branches, called functions."""
    for parameter in equation.params.values():
        for value in parameter if isinstance(parameter, (tuple, list)) else (parameter,):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield inner


def is_elementwise(primitive: Any) -> bool:
    """Return whether jax maps an operation over a new axis as it is, wherever that is."""
    with _private("batching.{fancy_primitive_batchers, broadcast_batcher, vectorized_batcher}"):
        from jax._src.interpreters import batching

        alike = batching.broadcast_batcher, batching.vectorized_batcher
        rule = batching.fancy_primitive_batchers.get(primitive)
    return getattr(rule, "func", None) in alike


def expanded(equation: Any) -> Any:
    """Return the jaxpr of an operation that jax writes in terms of others, as `searchsorted`."""
    with _private("HiPrimitive.expand"):
        return jax.make_jaxpr(equation.params["_prim"].expand)(*(x.aval for x in equation.invars))


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A source line that an equation came from; `file` is the absolute path in the module."""

    file: str
    line: int
    function: str


def source_frames(chain: Chain) -> list[SourceFrame]:
    """Return the frames that an equation came from, innermost first, without those of jax.

    Outer equations give the callers: frames begin where jax traces a function separately.
    """
    with _private("source_info_util.user_frames"):
        from jax._src import source_info_util

        return [
            SourceFrame(frame.file_name, frame.start_line, frame.function_name)
            for equation in chain
            for frame in source_info_util.user_frames(equation.source_info.traceback)
        ]


def without_unused(closed: Any) -> Any:
    """Return a closed jaxpr without equations that no result needs, as `table[:size]` leaves."""
    with _private("interpreters.partial_eval.dce_jaxpr"):
        from jax._src.interpreters.partial_eval import dce_jaxpr

        outputs = [True] * len(closed.jaxpr.outvars)
        used, _ = dce_jaxpr(closed.jaxpr, outputs, instantiate=True)
    return closed.replace(jaxpr=used)


def symbols_of(size: Any) -> Collection[str]:
    """Return the names of the dimensions in a size of a symbolic shape; none of anything else."""
    if not jax.export.is_symbolic_dim(size):
        return ()
    with _private("shape_poly._DimExpr._get_vars"):
        names: Collection[str] = size._get_vars()
        return names


def size_at(size: Any, values: Mapping[str, Any]) -> Any:
    """Return a size of a symbolic shape where its dimensions have these sizes."""
    with _private("shape_poly._DimExpr._evaluate"):
        return size if isinstance(size, int) else size._evaluate(values)


def draws_by_place(equation: Any) -> bool:
    """Return whether each random number of an equation depends on the key and its place alone."""
    if equation.primitive.name == "rng_bit_generator" or not jax.config.jax_threefry_partitionable:
        return False
    with _private("prng.KeyTy._impl"):
        return bool(equation.invars[0].aval.dtype._impl.name == "threefry2x32")


_READINGS = dict.fromkeys(("__str__", "__repr__"), "writes {} as text")
_READINGS["__hash__"] = "uses {} as a key"

_WRITING = ("jax/_src/core.py", "jax/_src/interpreters/partial_eval.py")
"""Files of jax that write arrays, whose shapes they tell, as text."""

_PASSING = ("jax/_src/export/shape_poly.py", "jax/_src/core.py")
"""Files of jax that raise where a program uses a size, or an array of one, as a number, and that
compare and write shapes for it."""


@contextmanager
def questions(note: Callable[[FrameType, str], None], root: Path) -> Iterator[None]:
    """Note the code that asks what depends on a symbolic size, but gets an answer nevertheless.

    That is "no" for an equality that sizes decide, "yes" for a truth, a key of a table, or text:
    jax cannot raise there, unlike for `<` and `>`. Keys and texts count in the program's own files
    only: libraries keep caches by sizes. To the program, sizes are of the class `int`, and
    comparisons with floats and arrays are computed, as jax does after `n / 2`. `note` takes the
    frame, and what it does: "asks whether n == 8". Associative scans, which jax traces at known
    sizes alone, combine all elements once. Tracebacks keep jax's own frames, which show the code
    that read a size.
    """
    with _private("shape_poly._DimExpr.{__eq__, __hash__, __str__, __repr__}, associative_scan"):
        from jax._src.export import shape_poly

        kind = shape_poly._DimExpr
        before = {name: getattr(kind, name) for name in ("__eq__", *_READINGS)}
        bounds = shape_poly._bounds_decision
        best = shape_poly.BoundsPrecision.BEST
        scan = jax.lax.associative_scan.__wrapped__
        scanning = scan.__code__
    filtering = jax.config.jax_traceback_filtering
    is_asking = False

    def compared(self: Any, other: Any) -> Any:
        nonlocal is_asking
        answer = bool(before["__eq__"](self, other))
        if answer or is_asking:
            return answer
        frame = _asking(sys._getframe(1), is_helper)
        if isinstance(other, (float, np.ndarray, jax.Array)) and user_exceptions.is_users(
            frame.f_code.co_filename
        ):
            return jax.numpy.equal(other, self)
        is_asking = True
        try:
            low, high = bounds(self - other, best)
        except (TypeError, ValueError, jax.errors.InconclusiveDimensionOperation):
            low, high = 1, 1
        finally:
            is_asking = False
        if low <= 0 <= high:
            note(frame, f"asks whether {before['__str__'](self)} == {other}")
        return answer

    def read(self: Any, name: str) -> Any:
        frame = _asking(
            sys._getframe(1),
            lambda file: project_files.is_of_python(file) or file.endswith(_WRITING),
        )
        if project_files.is_own(frame.f_code.co_filename, root):
            note(frame, _READINGS[name].format(before["__str__"](self)))
        return before[name](self)

    def attribute(self: Any, name: str) -> Any:
        if hasattr(int, name) and (name == "__class__" or not hasattr(kind, name)):
            frame = _asking(sys._getframe(1), is_helper)
            if user_exceptions.is_users(frame.f_code.co_filename) and name == "__class__":
                return int
            note(frame, f"needs {before['__str__'](self)} as a number")
        return object.__getattribute__(self, name)

    try:
        jax.config.update("jax_traceback_filtering", "off")
        scan.__code__ = _scanned.__code__
        kind.__eq__ = compared
        kind.__bool__ = lambda self: not compared(self, 0)
        kind.__getattribute__ = attribute
        for name in _READINGS:
            setattr(kind, name, partialmethod(read, name))
        yield
    finally:
        jax.config.update("jax_traceback_filtering", filtering)
        scan.__code__ = scanning
        del kind.__bool__, kind.__getattribute__
        for name, method in before.items():
            setattr(kind, name, method)


def _scanned(fn: Any, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    import jax  # it runs in a file of jax, with the names of that

    turned = jax.tree.map(lambda each: jax.numpy.flip(each, axis), elems)
    return fn(elems, turned)  # which shows what is combined along the axis


def _asking(frame: FrameType, is_passed: Callable[[str], bool]) -> FrameType:
    """Return the innermost frame whose file is neither passed, nor this one, nor made by Python."""
    while frame.f_back is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        is_made = file.startswith("<") and name.startswith("__")
        if not (is_made or file == __file__ or is_passed(file)):
            break
        frame = frame.f_back
    return frame


def is_helper(file: str) -> bool:
    """Return whether code in a file only passes a size on: its caller may be the user, or jax."""
    is_numpys = file.startswith(np.__path__[0])
    return is_numpys or file.endswith(_PASSING) or project_files.is_of_python(file)


@contextmanager
def hoisted_constants() -> Iterator[None]:
    """Keep closed-over arrays in `consts` of traced functions, where `jax.export` needs them."""
    with _private("_src.config.use_simplified_jaxpr_constants"):
        from jax._src.config import use_simplified_jaxpr_constants
    with use_simplified_jaxpr_constants(False):
        yield


def evaluate(jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """Return a traced function, of values or under another trace."""
    with _private("core.eval_jaxpr"):
        evaluated = jax.core.eval_jaxpr
    found: list[Any] = evaluated(jaxpr, constants, *arguments)
    return found


def is_error_effect(key: Any) -> bool:
    """Return whether it is what `jax.experimental.checkify` keys the errors of a function by."""
    with _private("_src.checkify.ErrorEffect"):
        from jax._src.checkify import ErrorEffect
    return isinstance(key, ErrorEffect)


def with_module(exported: Any, module: bytes, more: Sequence[Any]) -> Any:
    """Return a `jax.export.Exported` with another module.

    It takes `more` arguments (`ShapeDtypeStruct`) last, and runs on any platform it is lowered for.
    """
    with _private("jax.export.Exported"):
        from jax._src import core

        avals = tuple(core.ShapedArray(each.shape, each.dtype) for each in more)
        inputs = (*exported.in_avals, *avals)
        count = len(exported.in_avals)
        kept = (*exported.module_kept_var_idx, *range(count, len(inputs)))
        nothing = (None,) * len(more)
        return dataclasses.replace(
            exported,
            in_avals=inputs,
            in_tree=jax.tree.structure((inputs, {})),
            _in_named_shardings=(*exported._in_named_shardings, *nothing),
            disabled_safety_checks=(
                *exported.disabled_safety_checks,
                jax.export.DisabledSafetyCheck.platform(),
            ),
            mlir_module_serialized=module,
            module_kept_var_idx=kept,
        )


class SizesError(Exception):
    """A function exported for any size is called with a size that it does not accept."""


def static_module(lowered: Any) -> Any:
    """Return the StableHLO module of a `jax.stages.Lowered` with concrete sizes.

    These are filled into modules that were exported for any size and are called with certain ones.
    Raises SizesError if the exported module does not accept them.
    """
    module = lowered.compiler_ir("stablehlo")
    with _private("mlir.refine_polymorphic_shapes"):
        from jax._src.interpreters import mlir

        if lowered._lowering.compile_args["shape_poly_state"].uses_dim_vars:
            try:
                module = mlir.refine_polymorphic_shapes(module)
            except ValueError as error:  # also for what the module itself asserts of its sizes
                raise SizesError(str(error)) from error
    return module
