"""Differences between results of an engine and those of plain JAX."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from .engine_calls import ENGINES, Array, Loaded, Lowered, same_bits

if TYPE_CHECKING:
    import numpy as np

WORDS = ("same", "near", "small", "rounding", "denormal", "overflow", "wrong", "state")
"""Distances of results: bit by bit the same, but for which NaN; by the last bits; by numbers
small beside others, or the sign of a zero; as close to those of float64 as plain JAX's; otherwise
only where inputs have the smallest normal numbers; only where they have the largest; more; another
result of the same call."""

DIFFERING = ("wrong", "state", "failed", "crashed", "slow")
"""Findings for which an engine has to be repaired, or has to refuse the program."""

TOLERANCES = {2: (1e-2, 1e-2), 4: (1e-5, 1e-5), 8: (1e-12, 1e-12)}
"""By the bytes of a result's element."""

LARGE, SMALL = 1e15, 1e-15
"""Beyond these, numbers overflow or become denormal on the way through few operations."""


class Finding(NamedTuple):
    """found: one of WORDS; `refused` or `failed` of an engine, or else `crashed` or `slow`."""

    name: str
    found: str
    told: str
    engine: str = ""


def compared(actual: Array, expected: Array) -> tuple[str, str]:
    """Return how far results are apart, in a word, and the numbers that are the furthest.

    One of `same`, `near`, `small` and `wrong`.
    """
    import numpy as np

    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return "wrong", f"{actual.dtype}{actual.shape} for {expected.dtype}{expected.shape}"
    if actual.tobytes() == expected.tobytes():
        return "same", ""
    if expected.dtype.kind in "biu":
        place = np.argwhere(actual != expected)[0]
        return "wrong", f"{actual[tuple(place)]!r} for {expected[tuple(place)]!r} at {place}"
    if expected.dtype.kind == "c":
        parts = expected.real.dtype
        actual, expected = (np.atleast_1d(each).view(parts) for each in (actual, expected))
    bits = {2: 8e-3, 4: 1e-5, 8: 1e-13}[expected.dtype.itemsize]
    if expected.dtype == np.float16:
        bits = 2e-3
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        odd = ~(np.isfinite(actual) & np.isfinite(expected))
        differ = np.where(
            odd, (actual != expected) & ~(np.isnan(actual) & np.isnan(expected)), False
        )
        if differ.any():
            return "wrong", _told(actual, expected, differ)
        apart = np.where(odd, 0, np.abs(actual - expected))
        largest = np.max(np.abs(expected), initial=0, where=~odd)
        relative = apart / np.maximum(np.abs(expected), 1e-300)
        beyond = (relative > 10 * bits) & (apart > bits * max(largest, 1e-300))
        beyond &= apart > (bits if expected.ndim > 0 else 0)
        if beyond.any():
            return "wrong", _told(actual, expected, beyond)
        signs = (actual == 0) & (expected == 0) & (np.signbit(actual) != np.signbit(expected))
        little = (relative > bits) | signs
        if little.any():
            return "small", _told(actual, expected, little)
        worst = relative == relative.max()
        return ("near" if apart.any() else "same"), _told(actual, expected, worst)


def _told(actual: Any, expected: Any, where: Any) -> str:
    import numpy as np

    places = np.argwhere(where)
    shown = [
        f"{float(actual[tuple(p)])!r} for {float(expected[tuple(p)])!r} at {p.tolist()}"
        for p in places[:6]
    ]
    return f"{len(places)} of {actual.size}: {', '.join(shown)}"


def finding(engine: str, lowered: Lowered, load: type[Loaded] = Loaded) -> Finding:
    """Return how results of an engine differ from those of plain JAX the most.

    Raises RefusedError, and what engines raise.
    """
    import jax

    serialized = ENGINES[engine](lowered)
    with jax.enable_x64(lowered.case.x64):  # jaxlib's call path asks
        loaded = load(engine, serialized, lowered.weights, lowered.trials[0], lowered.outputs)
        return Finding(lowered.case.name, *_found(loaded, lowered), engine)


def _found(loaded: Loaded, lowered: Lowered) -> tuple[str, str]:
    weights, inputs = _digest(lowered.weights), [*map(_digest, lowered.trials)]
    made = [loaded.call(given) for given in lowered.trials]
    again = {
        "the first call again": loaded.call(lowered.trials[0]),
        "the first call, by buffers": loaded.by_buffers(lowered.trials[0]),
    }
    found = [("same", "")]
    for kind, given, ours in zip(lowered.case.trials, lowered.trials, made, strict=True):
        plain = lowered.plain(given)
        word, told = _worst(ours, plain)
        if word == "wrong":
            word = _tamed(loaded, lowered, kind, ours, plain)
        found.append((word, f"{kind}: {told}"))
    for kind, results in again.items():
        if not same_bits(results, made[0]):
            pairs = zip(results, made[0], strict=True)
            told = next((told for p in pairs if (told := compared(*p)[1])), "bits")
            found.append(("state", f"{kind}: {told}"))
    if _digest(loaded.kept) != weights:
        found.append(("state", "weights changed"))
    if [*map(_digest, lowered.trials)] != inputs:
        found.append(("state", "inputs changed"))
    return max(found, key=lambda each: WORDS.index(each[0]))


def _worst(ours: Sequence[Array], plain: Sequence[Array]) -> tuple[str, str]:
    found = [("same", "")]
    for result, pair in enumerate(zip(ours, plain, strict=True)):
        word, told = compared(*pair)
        found.append((word, f"result {result}: {told}"))
    return max(found, key=lambda each: WORDS.index(each[0]))


def _tamed(
    loaded: Loaded, lowered: Lowered, kind: str, ours: Sequence[Array], plain: Sequence[Array]
) -> str:
    """Return a word for results that differ from plain JAX.

    The truth decides, and the same call without what overflows.
    """
    given = lowered.case.trials[kind]
    if _is_as_good(lowered, given, ours, plain):
        return "rounding"
    for word, low in (("overflow", 0.0), ("denormal", SMALL)) if kind == "extreme" else ():
        inputs = [_without(each, low, LARGE) for each in given]
        again, expected = loaded.call(inputs), lowered.plain(inputs)
        if _worst(again, expected)[0] != "wrong" or _is_as_good(lowered, inputs, again, expected):
            return word
    return "wrong"


def _without(array: Array, low: float, high: float) -> Array:
    """Replace numbers beyond these magnitudes by ordinary ones."""
    import numpy as np

    if array.dtype.kind in "biu":
        return array
    with np.errstate(all="ignore"):
        size = np.abs(array.astype(np.float64))
        odd = (np.isfinite(size) & (size > high)) | ((size > 0) & (size < low))
        return np.asarray(np.where(odd, np.sign(array) * 1.5, array).astype(array.dtype))


def _is_as_good(
    lowered: Lowered, given: Sequence[Array], ours: Sequence[Array], plain: Sequence[Array]
) -> bool:
    """Return whether results are as close to those of float64 as plain JAX's."""
    import numpy as np

    from aotc.check.trial_truth import Truth, verdict_of

    truth = lowered.truth(given)
    if truth is None:
        return False
    shaken, random = [], np.random.default_rng(0)
    moving: list[Any] = [np.float64]
    if lowered.case.name.startswith("quantized."):
        moving.append(np.float32)  # what is near the middle of two integers becomes either
    if any(each.dtype in moving for each in (*lowered.weights, *given)):
        for _ in range(4):
            weights, moved = (
                [_moved(x, random) if x.dtype in moving else x for x in each]
                for each in (lowered.weights, given)
            )
            if (other := lowered.truth(moved, weights)) is not None:
                shaken += [(other, truth), (lowered.plain(moved, weights), other)]
    for place, (found, expected, exact) in enumerate(zip(ours, plain, truth, strict=True)):
        known = Truth([exact], [(one[place], other[place]) for one, other in shaken])
        tolerance = TOLERANCES.get(expected.itemsize, (0.0, 0.0))
        if not verdict_of("", found, expected, known, *tolerance).right:
            return False
    return True


def _moved(array: Array, random: np.random.Generator) -> Array:
    """Return the next numbers, up or down."""
    import numpy as np

    ends = np.where(random.random(array.shape) < 0.5, np.inf, -np.inf)
    return np.asarray(np.nextafter(array, ends.astype(array.dtype)))


def _digest(arrays: Sequence[Array]) -> str:
    whole = sha256()
    for each in arrays:
        whole.update(each.tobytes())
    return whole.hexdigest()
