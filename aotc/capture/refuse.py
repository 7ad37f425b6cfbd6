"""What cannot be shipped, one check per thing; each names the operation, its line, the way out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from aotc import private
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import DType

CALLBACKS = frozenset({"pure_callback", "io_callback", "debug_callback", "debug_print"})
"""Primitives that call back into Python. Names decide: `pure_callback` has no effect in a jaxpr."""

REFERENCES = frozenset({"get", "swap", "addupdate"})

SHIPPABLE_DTYPES = frozenset(dtype.value for dtype in DType)


def check_callbacks(closed: Any, where: str) -> Iterator[Finding]:
    for equation in private.equations(closed.jaxpr):
        if str(equation.primitive) in CALLBACKS:
            yield Finding(
                code="AOTC-E822",
                where=where,
                expected="a function that runs on the device alone",
                found=f"{equation.primitive}, a call into Python, "
                f"at {private.source_line(equation)}",
                hint="remove the callback (jax.debug.print, io_callback, pure_callback), "
                "or return the value and handle it where the entry point is called",
            )


def check_references(closed: Any, where: str) -> Iterator[Finding]:
    for variable in closed.jaxpr.constvars:
        if type(variable.aval).__name__ == "AbstractRef":
            users = [
                equation
                for equation in private.equations(closed.jaxpr)
                if str(equation.primitive) in REFERENCES
            ]
            line = f", used at {private.source_line(users[0])}" if users else ""
            yield Finding(
                code="AOTC-E824",
                where=where,
                expected="a pure function",
                found=f"a mutable reference it closes over, {variable.aval}{line}",
                hint="pass the state in as an argument and return the new state",
            )


def check_effects(closed: Any, where: str) -> Iterator[Finding]:
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


CHECKS: tuple[Callable[[Any, str], Iterable[Finding]], ...] = (
    check_callbacks,
    check_references,
    check_effects,
)


def findings(closed: Any, where: str) -> list[Finding]:
    """Everything in a traced function that cannot be shipped."""
    return [finding for check in CHECKS for finding in check(closed, where)]


def check_output_leaf(leaf: Any, path: str, where: str) -> Iterator[Finding]:
    """An output must be an array, or a Python number that becomes one."""
    if not isinstance(leaf, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
        yield Finding(
            code="AOTC-E825",
            where=f"{where} output {path or 'result'}",
            expected="an array",
            found=f"a {type(leaf).__name__}",
            hint="return arrays only; keep text and other values beside the entry point",
        )


def check_dtype(dtype: Any, path: str, where: str) -> Iterator[Finding]:
    """A dtype the bundle format knows."""
    if str(dtype) not in SHIPPABLE_DTYPES:
        extended = str(dtype).startswith("key<")
        yield Finding(
            code="AOTC-E832",
            where=f"{where} {path}",
            expected="one of " + ", ".join(sorted(SHIPPABLE_DTYPES)),
            found=f"dtype {dtype}",
            hint="pass jax.random.key_data(key) and wrap it inside with jax.random.wrap_key_data"
            if extended
            else "convert to one of these dtypes inside the function",
        )
