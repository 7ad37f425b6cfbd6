"""Refuses traced functions that cannot be shipped: one check for each reason."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aotc.base.errors import finding, shorten
from aotc.capture import jax_private, jax_trees, random_keys, user_exceptions
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import with_article
from aotc_runtime.schema.bundle_manifest import DType

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
"""Primitives that call back into Python, by name: `pure_callback` leaves no effect to look for."""

REFERENCES = frozenset({"get", "swap", "addupdate"})

SHIPPABLE_DTYPES = frozenset(dtype.value for dtype in DType)

NO_NUMBERS = "OSUTMm"
"""Kinds of numpy dtypes that jax does not have: objects, text, times."""

EMBEDDED_BYTES_MAX = 32
"""Bytes. jax embeds arrays up to this size in the program; others become weights."""


ERROR_IF = ("equinox", "_errors.py")
"""The end of the path of the file in which `equinox.error_if` calls back into Python."""


def check_callbacks(closed: Any, where: str, root: Path) -> Iterator[Finding]:
    """Yield AOTC-E822 for calls back into Python.

    All those of `equinox.error_if` are one finding: every solver of diffrax, optimistix and lineax
    has them, and one setting of equinox turns them off.
    """
    checks: list[str] = []
    for chain in jax_private.equations_within(closed.jaxpr):
        if str(chain[0].primitive) not in CALLBACKS:
            continue
        frames = jax_private.source_frames(chain)
        if frames and Path(frames[0].file).parts[-len(ERROR_IF) :] == ERROR_IF:
            checks.append(own_line(chain, root))
            continue
        yield finding("AOTC-E822", where, f"{chain[0].primitive} at {_line(chain, root)}")
    if checks:
        found = "equinox.error_if at " + shorten(list(dict.fromkeys(checks)))
        yield finding("AOTC-E822", where, found, cause="equinox-error-check-in-the-program")


def check_references(closed: Any, where: str, root: Path) -> Iterator[Finding]:
    """AOTC-E824: mutable references that the function closes over."""
    for variable in closed.jaxpr.constvars:
        if type(variable.aval).__name__ == "AbstractRef":
            users = [
                chain
                for chain in jax_private.equations_within(closed.jaxpr)
                if str(chain[0].primitive) in REFERENCES
            ]
            line = f", used at {_line(users[0], root)}" if users else ""
            yield finding("AOTC-E824", where, f"{variable.aval}{line}")


def check_effects(closed: Any, where: str, root: Path) -> Iterator[Finding]:
    """Yield AOTC-E823 for effects for which no other check gives a reason.

    References that are created and used inside of the function are allowed.
    """
    explained = ("DebugEffect", "IOEffect", "OrderedIOEffect", "OrderedDebugEffect")
    internal = ("InternalMutableArrayEffect", "ReadEffect", "WriteEffect", "AccumEffect")
    for effect in sorted(closed.effects, key=str):
        if type(effect).__name__ not in explained + internal:
            yield finding("AOTC-E823", where, str(effect))


def check_empty(
    closed: Any, accelerators: Sequence[str], where: str, root: Path
) -> Iterator[Finding]:
    """Yield AOTC-E848 for arrays of `jnp.empty` in a program for these platforms.

    jax fills them with zeros on processors alone, where results are compared with plain JAX.
    """
    for chain in jax_private.equations_within(closed.jaxpr) if accelerators else ():
        is_kernel = any(each.primitive.name == "pallas_call" for each in chain)
        if chain[0].primitive.name == "empty" and not is_kernel:
            names = " and ".join(accelerators)
            yield finding("AOTC-E848", where, f"jnp.empty for {names}, at {_line(chain, root)}")


def check_inputs(closed: Any, inputs: int, where: str) -> Iterator[Finding]:
    """Yield AOTC-E829 for a function that uses an array it kept from an earlier trace.

    In jax 0.12 it becomes another input; `jit` raises UnexpectedTracerError only when called.
    """
    if len(closed.jaxpr.invars) != inputs:
        yield finding("AOTC-E829", where, "", cause="array-leaked-from-an-earlier-trace")


def check_keys(closed: Any, where: str, root: Path) -> Iterator[Finding]:
    """Yield AOTC-E832 for large arrays of random keys that the function closes over.

    jax embeds them in the program, and so in every executable, whatever their size.
    """
    for variable in jax_private.constant_variables(closed.jaxpr):
        dtype = variable.aval.dtype
        is_key = jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
        if is_key and variable.aval.size * dtype.itemsize > EMBEDDED_BYTES_MAX:
            cause = "random-keys-are-too-large-to-embed"
            expected = f"at most {EMBEDDED_BYTES_MAX} bytes"
            yield finding("AOTC-E832", where, short(variable.aval), cause=cause, expected=expected)


def _line(chain: jax_private.Chain, root: Path) -> str:
    """Return the program's line that an equation came from, and the library's that made it.

    As "model.py:12 (predict), through library/text.py:3 (say)".
    """
    frames = _frames(chain)
    line = own_line(chain, root)
    made = _frame_text(frames[0], root) if frames else line
    return line if made == line else f"{line}, through {made}"


def own_line(chain: jax_private.Chain, root: Path) -> str:
    """Return the innermost line of the program behind an equation: "model.py:12 (predict)".

    It is one of a library where the program itself has none, and the layer in a model file.
    """
    if own := _frames(chain):
        own.sort(key=lambda frame: user_exceptions.distance(frame.file, root))
        return _frame_text(own[0], root)
    layers = next(filter(None, map(jax_private.scopes, chain)), ())
    is_ours = bool(jax_private.source_frames(chain))
    return (
        f"{'/'.join(filter(None, layers)) or 'a node'} of the model file"
        if is_ours
        else "an unknown line"
    )


def _frames(chain: jax_private.Chain) -> list[jax_private.SourceFrame]:
    frames = jax_private.source_frames(chain)
    return [frame for frame in frames if user_exceptions.is_users(frame.file)]


def _frame_text(frame: jax_private.SourceFrame, root: Path) -> str:
    return f"{user_exceptions.place(frame.file, frame.line, root)} ({frame.function})"


PALLAS = ("__gpu$xla.gpu.triton", "mosaic_gpu_v2")
"""The custom calls that kernels of Pallas become for GPUs."""


def custom_calls(closed: Any, root: Path) -> dict[str, str]:
    """Map custom calls (`jax.ffi.ffi_call`, Pallas) to the line of the first of each name."""
    found: dict[str, str] = {}
    for chain in jax_private.equations_within(closed.jaxpr):
        match chain[0].primitive.name:
            case "ffi_call":
                found.setdefault(chain[0].params["target_name"], _line(chain, root))
            case "pallas_call":
                found = dict.fromkeys(PALLAS, _line(chain, root)) | found
    return found


CHECKS: tuple[Callable[[Any, str, Path], Iterable[Finding]], ...] = (
    check_callbacks,
    check_references,
    check_effects,
    check_keys,
)


def check_outputs(outputs: Any, where: str) -> Iterator[Finding]:
    """AOTC-E825: leaves of a result that are neither arrays nor Python numbers, or no leaves."""
    leaves = jax_trees.leaf_paths(outputs)
    for path, leaf in leaves:
        found = None
        if isinstance(leaf, (np.ndarray, np.generic)):
            found = f"an array of {leaf.dtype}" if leaf.dtype.kind in NO_NUMBERS else None
        elif type(getattr(leaf, "aval", None)).__name__ == "AbstractRef":
            found = f"a mutable reference, {leaf.aval}"
        elif not isinstance(leaf, (jax.Array, bool, int, float, complex)):
            found = with_article(type(leaf).__name__)
        if found:
            yield finding("AOTC-E825", f"{where} output {path or 'result'}", found)
    if not leaves:
        yield finding(
            "AOTC-E825", f"{where} output", f"{outputs!r:.60}", cause="entry-point-returns-nothing"
        )


def short(leaf: Any) -> str:
    """Dtype and shape as text: "float32[8,10]"."""
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"


def signature(values: Any, where: str) -> Any:
    """Return what must not change between profiles: the tree, and each leaf's rank and dtype.

    The tree is as a bundle describes it, without static fields. Raises CaptureError (AOTC-E833).
    """
    ranks = [(len(leaf.shape), leaf.dtype) for leaf in jax.tree.leaves(values)]
    return jax_trees.describe(values, itertools.count(), where), ranks


def check_profiles(profiles: Sequence[tuple[str, Any]], what: str) -> Iterator[Finding]:
    """Yield AOTC-E827 for labelled values that differ from the first in more than sizes.

    `what` names them ("results", "arguments") in the message.
    """
    first_where, first = profiles[0]
    wanted = signature(first, first_where)
    for where, values in profiles[1:]:
        if signature(values, where) != wanted:
            expected = f"{what} as in {first_where}: {_structure(first)}"
            yield finding("AOTC-E827", where, _structure(values), expected=expected)


def _structure(outputs: Any) -> str:
    named = jax_trees.leaf_paths(outputs)
    return ", ".join(f"{path or 'result'} {short(leaf)}" for path, leaf in named) or "nothing"


def check_donation(
    donated: Iterable[tuple[str, Any]], outputs: Iterable[Any], where: str
) -> Iterator[Finding]:
    """Yield AOTC-E837 for donated leaves whose buffer no output can reuse; jax only warns of them.

    `donated` has paths and leaves; `outputs` are as the module returns them.
    """
    free = Counter(short(leaf) for leaf in outputs)
    for path, leaf in donated:
        data = short(random_keys.data_aval(leaf))
        if free[data]:
            free[data] -= 1
            continue
        yield finding("AOTC-E837", f"{where} input {path}", "", expected=f"an output {short(leaf)}")


def check_dtype(dtype: Any, path: str, where: str) -> Iterator[Finding]:
    """AOTC-E832: a dtype that the bundle format does not know."""
    if str(dtype) not in SHIPPABLE_DTYPES:
        extended = str(dtype).startswith("key<")
        yield finding(
            "AOTC-E832",
            f"{where} {path}".rstrip(),
            str(dtype),
            expected="one of: " + ", ".join(sorted(SHIPPABLE_DTYPES)),
            hint="leave keys out of weights, as `nnx.split(model, nnx.Param, ...)` does, or pass "
            "`jax.random.key_data(key)`, and wrap it with `jax.random.wrap_key_data`"
            if extended
            else "convert to one of these dtypes inside the function",
        )
