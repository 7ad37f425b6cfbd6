"""What cannot be shipped, one check per thing; each names the operation, its line, the way out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aotc import private
from aotc.capture import keys, raised, tree
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import DType
from aotc_runtime.words import with_article

CALLBACKS = frozenset(
    {
        "pure_callback",
        "io_callback",
        "buffer_callback",
        "debug_callback",
        "debug_print",
        "inspect_sharding",
    }
)
"""Primitives that call back into Python. Names decide: `pure_callback` has no effect in a jaxpr."""

REFERENCES = frozenset({"get", "swap", "addupdate"})

SHIPPABLE_DTYPES = frozenset(dtype.value for dtype in DType)

NO_NUMBERS = "OSUTMm"
"""numpy's kinds of arrays that jax has no dtype for: objects, text, times."""

EMBEDDED_BYTES_MAX = 32
"""jax writes arrays of up to so many bytes into the program; larger ones are lifted to weights."""


def check_callbacks(closed: Any, where: str, root: Path) -> Iterator[Finding]:
    for equation in private.equations(closed.jaxpr):
        if str(equation.primitive) in CALLBACKS:
            yield Finding(
                code="AOTC-E822",
                where=where,
                expected="a function that runs on the device alone",
                found=f"{equation.primitive}, a call into Python, at {_line(equation, root)}",
                hint="remove the callback (jax.debug.print, io_callback, pure_callback), "
                "or return the value and handle it where the entry point is called",
            )


def check_references(closed: Any, where: str, root: Path) -> Iterator[Finding]:
    for variable in closed.jaxpr.constvars:
        if type(variable.aval).__name__ == "AbstractRef":
            users = [
                equation
                for equation in private.equations(closed.jaxpr)
                if str(equation.primitive) in REFERENCES
            ]
            line = f", used at {_line(users[0], root)}" if users else ""
            yield Finding(
                code="AOTC-E824",
                where=where,
                expected="a pure function",
                found=f"a mutable reference it closes over, {variable.aval}{line}",
                hint="pass the state in as an argument and return the new state",
            )


def check_effects(closed: Any, where: str, root: Path) -> Iterator[Finding]:
    """Effects that the checks above do not explain; references made and used inside are fine."""
    explained = ("DebugEffect", "IOEffect", "OrderedIOEffect", "OrderedDebugEffect")
    internal = ("InternalMutableArrayEffect", "ReadEffect", "WriteEffect", "AccumEffect")
    for effect in sorted(closed.effects, key=str):
        if type(effect).__name__ not in explained + internal:
            yield Finding(
                code="AOTC-E823",
                where=where,
                expected="a function without side effects",
                found=f"the effect {effect}",
                hint="remove the operation that has this effect",
            )


def check_inputs(closed: Any, inputs: int, where: str) -> Iterator[Finding]:
    """A function that keeps an array of an earlier trace and uses it in this one: to jax 0.12, that
    is one more input (`jit` of it raises UnexpectedTracerError only when called).
    """
    if len(closed.jaxpr.invars) != inputs:
        yield Finding(
            code="AOTC-E829",
            where=where,
            expected="a function that uses its own arguments only",
            found="an array that it kept from an earlier call, in a global or a default argument",
            hint="do not store arrays while tracing; return them",
        )


def check_keys(closed: Any, where: str, root: Path) -> Iterator[Finding]:
    """Arrays of random keys that a function closes over: jax writes them into the program, whatever
    their size, and into every executable with it.
    """
    for variable in private.constant_variables(closed.jaxpr):
        dtype = variable.aval.dtype
        is_key = jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
        if is_key and variable.aval.size * dtype.itemsize > EMBEDDED_BYTES_MAX:
            yield Finding(
                code="AOTC-E832",
                where=where,
                expected=f"to close over random keys of at most {EMBEDDED_BYTES_MAX} bytes",
                found=short(variable.aval),
                hint="close over jax.random.key_data(keys), which becomes a weight, and wrap it "
                "inside with jax.random.wrap_key_data",
            )


def _line(equation: Any, root: Path) -> str:
    """Where in the program an equation came from: "model.py:12 (predict)"."""
    frames = private.source_frames(equation)
    own = [frame for frame in frames if Path(frame.file).is_relative_to(root)]
    for frame in (*own, *frames):
        return f"{raised.place(frame.file, frame.line, root)} ({frame.function})"
    return "an unknown line"


CHECKS: tuple[Callable[[Any, str, Path], Iterable[Finding]], ...] = (
    check_callbacks,
    check_references,
    check_effects,
    check_keys,
)


def findings(closed: Any, where: str, root: Path) -> list[Finding]:
    """Everything in a traced function that cannot be shipped; an operation that a transformation
    has repeated (remat, grad) counts once.
    """
    return list(dict.fromkeys(f for check in CHECKS for f in check(closed, where, root)))


def check_output_leaf(leaf: Any, path: str, where: str) -> Iterator[Finding]:
    """An output must be an array, or a Python number that becomes one."""
    found = None
    if isinstance(leaf, (np.ndarray, np.generic)):
        found = f"an array of {leaf.dtype}" if leaf.dtype.kind in NO_NUMBERS else None
    elif type(getattr(leaf, "aval", None)).__name__ == "AbstractRef":
        found = f"a mutable reference, {leaf.aval}; return jax.freeze of it"
    elif not isinstance(leaf, (jax.Array, bool, int, float, complex)):
        found = with_article(type(leaf).__name__)
    if found:
        yield Finding(
            code="AOTC-E825",
            where=f"{where} output {path or 'result'}",
            expected="an array",
            found=found,
            hint="return arrays only; keep text and other values beside the entry point",
        )


def check_outputs(outputs: Any, where: str) -> Iterator[Finding]:
    """Every leaf of the result is an array, and there is one."""
    leaves = tree.leaf_paths(outputs)
    for path, leaf in leaves:
        yield from check_output_leaf(leaf, path, where)
    if not leaves:
        yield Finding(
            code="AOTC-E825",
            where=f"{where} output",
            expected="a result with at least one array",
            found="None" if outputs is None else f"{outputs!r:.60}, without any",
            hint="is a `return` missing?" if outputs is None else "return what it computes",
        )


def short(leaf: Any) -> str:
    """float32[8,10]."""
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"


def signature(outputs: Any) -> Any:
    """What must not change between profiles: the tree, and each leaf's rank and dtype."""
    leaves, structure = jax.tree.flatten(outputs)
    return structure, [(len(leaf.shape), leaf.dtype) for leaf in leaves]


def check_profiles(profiles: Sequence[tuple[str, Any]]) -> Iterator[Finding]:
    """Results, each with where it is from, that differ from the first in more than sizes."""
    first_where, first = profiles[0]
    for where, outputs in profiles[1:]:
        if signature(outputs) != signature(first):
            yield Finding(
                code="AOTC-E827",
                where=where,
                expected=f"results as in {first_where}: {_structure(first)}",
                found=_structure(outputs),
                hint="return the same structure and dtypes at every size; "
                "split the function into two entry points otherwise",
            )


def _structure(outputs: Any) -> str:
    named = tree.leaf_paths(outputs)
    return ", ".join(f"{path or 'result'} {short(leaf)}" for path, leaf in named) or "nothing"


def check_donation(
    donated: Iterable[tuple[str, Any]], outputs: Iterable[Any], where: str
) -> Iterator[Finding]:
    """Donated leaves by path whose buffer no output can take over; jax only warns of them.

    outputs: as the module gives them.
    """
    free = Counter(short(leaf) for leaf in outputs)
    for path, leaf in donated:
        data = short(keys.data_aval(leaf))
        if free[data]:
            free[data] -= 1
            continue
        yield Finding(
            code="AOTC-E837",
            where=f"{where} input {path}",
            expected=f"an output {short(leaf)} that takes over its buffer, since it is donated",
            found="no output, or none left, of this shape and dtype",
            hint="return the updated value with the same shape and dtype, "
            "or remove the input from `donate`",
        )


def check_dtype(dtype: Any, path: str, where: str) -> Iterator[Finding]:
    """A dtype of data that the bundle format knows."""
    if str(dtype) not in SHIPPABLE_DTYPES:
        extended = str(dtype).startswith("key<")
        yield Finding(
            code="AOTC-E832",
            where=f"{where} {path}".rstrip(),
            expected="one of " + ", ".join(sorted(SHIPPABLE_DTYPES)),
            found=f"dtype {dtype}",
            hint="pass and return jax.random.key_data(key); jax.random.wrap_key_data makes it a key"
            if extended
            else "convert to one of these dtypes inside the function",
        )
