"""Findings from the exceptions of a trace, jax's own or the function's."""

from collections import Counter
from pathlib import Path
from traceback import walk_tb

import jax

from aotc.base.errors import finding, shorten
from aotc.capture import jax_trees, trace_refusals, user_exceptions
from aotc.capture.call_arguments import FlatCall
from aotc.capture.checkpoint_tensors import AT_DOTS
from aotc_runtime.base.errors import Finding

NARROWED = "Explicitly requested dtype"
"""The start of jax's warning that a 64-bit type becomes a 32-bit one."""


def arguments(call: FlatCall) -> str:
    """Describe the arguments of a call: "params: 6 tensors, image float32[8,64]"."""
    counts = Counter(leaf.owner for leaf in call.leaves if leaf.is_weight)
    sets = [
        f"{name}: {counts[owner]} tensor{'s' * (counts[owner] != 1)}"
        for name, owner in call.plan.bound.items()
    ]
    inputs = [
        f"{jax_trees.join(leaf.owner, leaf.path)} {trace_refusals.short(leaf.aval)}"
        for leaf in call.leaves
        if not leaf.is_weight
    ]
    return shorten([*sets, *inputs]) or "no arguments"


def not_traced(error: BaseException, call: FlatCall, where: str, root: Path) -> Finding:
    """AOTC-E826, E828 or E829 for an exception that ended a trace."""
    code, cause, expected = "AOTC-E826", "", ""
    if culprit := _outside_jax(error):
        line = user_exceptions.user_line(error, root)
        cause = "numpy-call-on-a-traced-array"
        hint = f"use jnp instead of {culprit}" + (f" at {line}" if line else "")
        if _within(error, "keras"):
            hint = (
                f"Keras uses {culprit} there, as its predict, evaluate and fit do, which are loops "
                "on the host: call model.stateless_call(trainable, non_trainable, x, "
                "training=False) in a function"
            )
    elif _needs_value(error):
        hint = (
            "use `jax.lax.cond`, `jax.lax.while_loop` or `jnp.where`, or make the parameter "
            "`static`"
        )
    elif isinstance(error, UserWarning) and str(error).startswith(NARROWED):
        code = "AOTC-E828"
        hint = "set `enable_x64 = true` in the build manifest, or use a 32-bit type"
    else:
        code = "AOTC-E829"
        expected = f"a trace with {arguments(call)}"
        hint = (
            _missing_key(error, call)
            or _other_structure(error, call)
            or f"correct the function, or {call.stated}; `-v` shows the traceback"
        )
    found = user_exceptions.describe(error, root)
    return finding(code, where, found, cause=cause, expected=expected, hint=hint)


def not_lowered(error: BaseException, platform: str, where: str, root: Path) -> Finding:
    """AOTC-E841 for an exception that ended the lowering for a platform of the targets."""
    found = user_exceptions.describe(error, root)
    return finding("AOTC-E841", where, found, expected=f"operations that jax lowers for {platform}")


def not_run(error: BaseException, where: str, root: Path) -> Finding:
    """AOTC-E842 for an exception by which plain JAX cannot run a function on this host."""
    return finding("AOTC-E842", where, user_exceptions.describe(error, root))


def _outside_jax(error: BaseException) -> str | None:
    """Return what asked a traced array for its values, numpy or math.sin and the like; or None."""
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return "numpy"
    words = "The problem arose with the `float` function"
    is_float = isinstance(error, jax.errors.ConcretizationTypeError) and words in str(error)
    return "float() and math" if is_float else None


def _within(error: BaseException, package: str) -> bool:
    """Return whether it was code of this package that called jax."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    outside = [name for name in modules if name.partition(".")[0] not in ("jax", "jaxlib")]
    return bool(outside) and outside[-1].partition(".")[0] == package


def _needs_value(error: BaseException) -> bool:
    """Return whether jax raised this where Python needs a value that is only known at run time."""
    kinds = (
        jax.errors.ConcretizationTypeError,
        jax.errors.NonConcreteBooleanIndexError,
        jax.errors.TracerIntegerConversionError,
    )
    # For an array as a size, jax raises a TypeError that only its message tells from others.
    words = "Shapes must be 1D sequences of concrete values"
    return isinstance(error, kinds) or (isinstance(error, TypeError) and words in str(error))


def _missing_key(error: BaseException, call: FlatCall) -> str | None:
    """Return a hint for a KeyError: the names in bound dicts of weights."""
    if not isinstance(error, KeyError):
        return None
    hints = []
    for parameter, abstract in call.trees.items():
        if parameter in call.plan.bound and isinstance(abstract, dict):
            names = [path for path, _ in jax_trees.leaf_paths(abstract)]
            hints.append(f"{parameter} has the tensors {shorten(names)}")
            if any("." in name for name in names) and not any("/" in name for name in names):
                hints.append(f"{AT_DOTS} to split them into nested dicts")
    if hints and isinstance(error.args[0], int):
        hints.append('for lists, state `init = "package.module:function"` beside `source`')
    return "; ".join(hints) or None


ABOUT_STRUCTURE = ("dict", "pytree", "tree structure", "node type")
"""Texts of exceptions of Python and jax about a value of another structure."""


def _other_structure(error: BaseException, call: FlatCall) -> str | None:
    """Return a hint for weights that a function takes in a structure of its own."""
    said = str(error).lower() if isinstance(error, (AttributeError, TypeError, ValueError)) else ""
    if not call.as_stored or not any(words in said for words in ABOUT_STRUCTURE):
        return None
    names = " and ".join(call.as_stored)
    is_one = len(call.as_stored) == 1
    return (
        f"{names} {'is a dict' if is_one else 'are dicts'} of the names in the weights file: for "
        "another structure, state the function that returns it beside `source`: "
        'init = "package.module:function"'
    )
