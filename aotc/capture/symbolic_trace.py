"""Traces a function at all its accepted sizes at once, by jax.export's symbolic dimensions.

The result is every axis as an expression that holds over the whole range, and a module that can be
compiled for any size. Or it is the reason why there is none: the program decides by a size, or does
something that jax cannot express without knowing the size.
"""

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import jax
from jax import export

from aotc.capture import jax_private, jax_trees, row_flow, trace_refusals, user_exceptions
from aotc.capture.call_arguments import FlatCall
from aotc.capture.jaxpr_flow import shape_of
from aotc.capture.line_coverage import recording
from aotc.compile.mlir import mlir_context
from aotc.config.build_manifest import EntryPointSpec, at_once
from aotc_runtime.base import first_line
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.bundle_manifest import Dimension, DimensionPolicy, Pad, Range, Split
from aotc_runtime.schema.size_expressions import Expression, parse_expression

type CallAt = Callable[[Mapping[str, Any]], FlatCall]

type Obstacle = tuple[str, str]
"""Why a policy does not suit: a cause of AOTC-E839, and what was found.

Without a cause, it may suit: trials show whether it does.
"""

type Shapes = tuple[Sequence[Any], Sequence[Any]]
"""Symbolic shapes of input leaves and of output leaves."""

type ShapesOf = Callable[[FlatCall, Any], Shapes]

_COMPARISON = re.compile(r"comparison '(.+)' (\S+) '(.+)' is inconclusive")

_POWER = re.compile(r"(\w+)\^(\d+)")


@dataclass(frozen=True, slots=True)
class Specialized:
    """A line of the program that decides by a size.

    `place` is like "model.py:12", `what`, without lines, "f in model.py asks whether n > 8".
    """

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


@dataclass(frozen=True, slots=True)
class Symbolic:
    """The result of tracing at all sizes at once.

    Attributes:
        shapes: Axes of input leaves and output leaves, "?" for one that is not a polynomial; None
            if the function cannot be traced this way.
        specialized: By dimension, the place where the program decides by its size.
        undetermined: By dimension, why jax cannot trace the function without its size.
        unseen: Dimensions by whose size the program may decide after what jax cannot trace.
        counted: By dimension, the first line that computes with its size, "model.py:12 (f)"; known
            where all dimensions could be traced at once.
        obstacles: By dimension, what is against its policy.
    """

    shapes: tuple[list[tuple[int | str, ...]], list[tuple[int | str, ...]]] | None
    specialized: dict[str, Specialized] = field(default_factory=dict)
    undetermined: dict[str, str] = field(default_factory=dict)
    counted: dict[str, str] = field(default_factory=dict)
    unseen: frozenset[str] = frozenset()
    obstacles: dict[str, Obstacle | None] = field(default_factory=dict)


def analyze(
    call_at: CallAt,
    shapes_of: ShapesOf,
    accepted: Mapping[str, Dimension],
    at: Mapping[str, Sequence[Mapping[str, int]]],
    spec: EntryPointSpec,
    root: Path,
) -> Symbolic:
    """Trace with all dimensions symbolic, or one at a time if that fails, to find the cause.

    `shapes_of` takes a call and its abstract results. `at` has, by dimension, the sizes with whose
    others it is traced alone.
    """
    shapes: Shapes | None = None
    failure: Specialized | str | None
    traced: Any = None
    try:
        sizes = symbols(accepted, spec.relations)
    except ValueError as error:
        failure = f"jax does not take the range or the relations: {first_line(error)}"
    else:
        shapes, failure, traced = _evaluate(call_at, shapes_of, sizes, root)
    written = None
    if shapes is not None:
        inputs = _inputs(call_at, shapes_of, accepted, spec.relations) or shapes[0]
        written = (_shapes_text(inputs), _shapes_text(shapes[1]))
    counted: dict[str, str] = {}
    obstacles: dict[str, Obstacle | None] = {}
    leaves = call_at(next(iter(at.values()))[0]).leaves
    alike = [jax_trees.join(leaf.owner, leaf.path) in spec.by_loader for leaf in leaves]
    if traced is not None:
        for chain in jax_private.equations_within(traced.jaxpr):
            size = chain[0].params.get("dim")  # of what jax names `dim_as_value`
            for name in sizes.keys() & jax_private.symbols_of(size):
                counted.setdefault(name, trace_refusals.own_line(chain, root))
        for name, known in accepted.items():
            policy = spec.out_of_profile.get(name)
            obstacles[name] = _obstacle(traced, name, known, policy, alike, at[name][0], root)
    if failure is None:
        return Symbolic(written, counted=counted, obstacles=obstacles)
    specialized: dict[str, Specialized] = {}
    undetermined: dict[str, str] = {}
    for name, known in accepted.items():
        # Without a constraint that jax proves little by: the size is a multiple of a symbol.
        step = known.multiple_of
        symbol = name if step == 1 else f"{name}_by_{step}"
        fewer = Dimension(known.smallest // step, known.largest // step, 1)
        for others in at[name]:
            alone = {**others, name: step * symbols({symbol: fewer}, ())[symbol]}
            _, found, traced = _evaluate(call_at, shapes_of, alone, root)
            if isinstance(found, Specialized):
                specialized[name] = found
            elif found is not None:
                undetermined[name] = found
            if traced is not None:
                policy = spec.out_of_profile.get(name)
                against = _obstacle(traced, symbol, fewer, policy, alike, others, root)
                obstacles[name] = obstacles.get(name) or against
    unseen = frozenset(undetermined)
    if not specialized and not undetermined:
        undetermined = dict.fromkeys(accepted, str(failure))
    # A program that only asks whether two sizes are equal traces; that it asked is what counts.
    inputs_outputs = None if specialized else written
    return Symbolic(inputs_outputs, specialized, undetermined, counted, unseen, obstacles)


def _obstacle(
    closed: Any,
    symbol: str,
    known: Dimension,
    policy: DimensionPolicy | None,
    alike: Sequence[bool],
    others: Mapping[str, int],
    root: Path,
) -> Obstacle | None:
    plan, found = at_once(policy), None
    if isinstance(plan, Split):
        found = row_flow.split_coupling(closed, symbol, alike)
    elif isinstance(plan, Pad):
        sizes = range(known.smallest, known.largest + 1, known.multiple_of)
        found = row_flow.pad_coupling(closed, symbol, sizes, others)
    for chain in jax_private.equations_within(closed) if isinstance(policy, Range) else ():
        axes = [axis for each in chain[0].outvars for axis in shape_of(each)]
        for size in (*axes, *jax.tree.leaves(chain[0].params)):
            if _is_uneven(size, symbol):
                place = trace_refusals.own_line(chain, root)
                return "size-is-no-multiple-plus-a-constant", f"{size} at {place}"
    return (found.cause, trace_refusals.own_line(found.chain, root)) if found else None


def _inputs(
    call_at: CallAt, shapes_of: ShapesOf, known: Mapping[str, Dimension], relations: Sequence[str]
) -> Sequence[Any] | None:
    """Return input shapes traced without the equalities between dimensions; None if there are none.

    With them, jax would write one dimension in terms of another. Also None if tracing fails.
    """
    weaker = [text for text in relations if " == " not in text]
    if len(weaker) == len(relations):
        return None
    with suppress(Exception):  # of the user's code, or of jax, for whatever reason
        return shapes_of(call_at(symbols(known, weaker)), ())[0]
    return None


def symbols(accepted: Mapping[str, Dimension], relations: Sequence[str]) -> dict[str, Any]:
    """Return a symbolic size for each dimension, constrained by its range and the relations.

    Raises ValueError for constraints that jax does not take.
    """
    constraints = list(relations)
    for name, known in accepted.items():
        constraints += [f"{name} >= {known.smallest}", f"{name} <= {known.largest}"]
        if known.multiple_of > 1:
            constraints.append(f"mod({name}, {known.multiple_of}) == 0")
    made = export.symbolic_shape(", ".join(accepted), constraints=constraints)
    return dict(zip(accepted, made, strict=True))


def export_module(
    call: FlatCall, custom_calls: Sequence[str], lifted: Callable[[Any], str | None]
) -> tuple[Any, list[str]]:
    """Return the MLIR module of a call with symbolic sizes, and its closed-over arrays' names.

    After these arrays it takes every leaf, used or not. `custom_calls` are targets that the
    profiles' modules call, and this one may call too. `lifted` returns the name of a closed-over
    array that the profiles take as well; None embeds it in the module.
    """
    leaves = [leaf.data for leaf in call.leaves]
    with jax_private.hoisted_constants():
        closed = jax.make_jaxpr(call.data)(*leaves)
    named = [lifted(value) for value in closed.consts]
    taken = [value for value, name in zip(closed.consts, named, strict=True) if name is not None]

    def function(arrays: Sequence[Any], *given: Any) -> Any:
        remaining = iter(arrays)
        every = zip(closed.consts, named, strict=True)
        constants = [value if name is None else next(remaining) for value, name in every]
        return jax_private.evaluate(closed.jaxpr, constants, given)

    exported = export.export(
        jax.jit(function, keep_unused=True),
        platforms=["cpu"],
        disabled_checks=[export.DisabledSafetyCheck.custom_call(name) for name in custom_calls],
    )([jax.ShapeDtypeStruct(value.shape, value.dtype) for value in taken], *leaves)
    module = mlir_context.read_artifact(exported.mlir_module_serialized)
    return module, [name for name in named if name is not None]


def _evaluate(
    call_at: CallAt, shapes_of: ShapesOf, sizes: Mapping[str, Any], root: Path
) -> tuple[Shapes | None, Specialized | str | None, Any]:
    """Trace a call; return shapes, the deciding place or an error, and the jaxpr without the rest.

    The jaxpr has no equation without a use.
    """
    asked: list[Specialized] = []

    def note(frame: FrameType, does: str) -> None:
        file = frame.f_code.co_filename
        if not asked and user_exceptions.is_users(file):
            place = user_exceptions.place(file, frame.f_lineno, root)
            asked.append(_specialized(place, frame.f_code.co_qualname, does))

    try:
        with recording(root, note), jax_private.questions(note, root):
            call = call_at(sizes)
            leaves = [leaf.data for leaf in call.leaves]
            traced, results = jax.make_jaxpr(call, return_shape=True)(*leaves)
            shapes = shapes_of(call, results)
    except Exception as error:  # noqa: BLE001 - the user's code, or jax, for whatever reason
        return None, next(iter(asked), None) or _failure(error, root), None
    return shapes, next(iter(asked), None), jax_private.without_unused(traced)


def _is_uneven(size: Any, name: str) -> bool:
    """Return whether a size is no multiple of a dimension's plus a constant, the others known."""
    if name not in jax_private.symbols_of(size):
        return False
    text = axis_text(size)
    return text == "?" or any(n.count(name) > 1 for _, n in parse_expression(text).terms)


def _specialized(place: str, function: str, does: str) -> Specialized:
    return Specialized(place, f"{function} in {place.rpartition(':')[0]} {does}")


def _failure(error: BaseException, root: Path) -> Specialized | str:
    while isinstance(error, AotcError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, AotcError):  # of a model file: its place is no line of the program
        first = error.findings[0]
        return f"{first.where}: {first.title} ({first.found})"
    line, function = user_exceptions.user_place(error, root) or ("an unknown line", "a function")
    frames = traceback.extract_tb(error.__traceback__)[::-1]
    asking = next((f.filename for f in frames if not jax_private.is_helper(f.filename)), None)
    is_users = asking is not None and user_exceptions.is_users(asking)
    if compared := _COMPARISON.search(str(error)):
        asked = " ".join(compared.groups())
        if not is_users:
            return f"{line} makes jax ask whether {asked}"
        return _specialized(line, function, f"asks whether {asked}")
    if is_users:
        return _specialized(line, function, "needs the size as a number")
    return f"{line}: {type(error).__name__}: {first_line(error)}"


def _shapes_text(shapes: Sequence[Any]) -> list[tuple[int | str, ...]]:
    return [tuple(axis_text(axis) for axis in shape) for shape in shapes]


def axis_text(axis: Any) -> int | str:
    """Return a symbolic size of jax as bundles write it; "?" for one that is not a polynomial."""
    if isinstance(axis, int):
        return axis
    text = _POWER.sub(lambda m: "*".join([m[1]] * int(m[2])), str(axis)).replace(" ", "")
    try:
        return expression_text(parse_expression(text))
    except ValueError:
        return "?"


def expression_text(expression: Expression) -> str:
    """Return an expression as text: products by length, then by name; the constant last."""
    text = ""
    terms = sorted(expression.terms, key=lambda term: (not term[1], len(term[1]), term[1]))
    for coefficient, names in terms:
        factors = [*names] if names and abs(coefficient) == 1 else [str(abs(coefficient)), *names]
        sign = "-" if coefficient < 0 else ("+" if text else "")
        text += sign + "*".join(factors)
    return text
