"""Which of two results is right: an executable's and plain JAX's, judged by the same module computed
in float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from msgspec import Struct

type Array = np.ndarray[Any, Any]

MULTIPLE = 8
"""How many times plain JAX's own error an executable's error may be."""

ROUNDING = 1e-3
"""Differences up to this part of the largest number of a result may be rounding."""


class Verdict(Struct, frozen=True):
    """What came of judging one output. output: its path.  right: whether every element is as plain
    JAX has it, or at least as close to the truth.  different: elements beyond the tolerance, of so
    many elements.  first: index of the first of them.  median: of their absolute differences.
    found, plain: largest errors against the truth; None without one.  wrong: whose result is.
    """

    output: str
    right: bool
    elements: int
    different: int = 0
    first: tuple[int, ...] = ()
    median: float = 0.0
    found: float | None = None
    plain: float | None = None
    wrong: Literal["engine", "plain JAX", "rounding", ""] = ""


def judge(
    output: str,
    found: Array,
    plain: Array,
    truths: Sequence[Array],
    rtol: float,
    atol: float,
) -> Verdict:
    """Judge an output.

    Args:
        output: Its path, for messages.
        found: The executable's result.
        plain: Plain JAX's result for the same inputs.
        truths: The same in float64, one array for each way to compute it; may be empty.
        rtol: Tolerance, relative to what a result is compared with.
        atol: Absolute tolerance.
    """
    close = _close(found, plain, rtol, atol)
    if close.all():
        return Verdict(output, True, found.size)
    apart = ~close
    first = tuple(int(each[0]) for each in np.nonzero(apart))
    gaps = _gap(found, plain)[apart]
    finite = gaps[np.isfinite(gaps)]
    median = float(np.median(finite)) if finite.size else float("inf")
    verdict = Verdict(output, False, found.size, int(apart.sum()), first, median)
    if not truths:
        return verdict
    right = close.copy()
    for truth in truths:
        right |= _close(found, truth, rtol, atol)
    truth = truths[0]
    errors_found, errors_plain = _error(found, truth), _error(plain, truth)
    if found.dtype.kind not in "biu":
        right |= _as_good(found, plain, truth, rtol, atol)
    is_right = bool(right.all())
    plain_is_right = bool(_close(plain, truth, rtol, atol)[~right | apart].all())
    wrong: Literal["engine", "plain JAX", "rounding", ""] = "engine"
    if is_right:
        wrong = "rounding" if plain_is_right or errors_plain else "plain JAX"
    return Verdict(
        output,
        is_right,
        found.size,
        int(apart.sum()),
        first,
        median,
        errors_found,
        errors_plain,
        wrong,
    )


def _close(one: Array, other: Array, rtol: float, atol: float) -> Array:
    """Whether elements are equal, both NaN, or finite and within the tolerance of the other."""
    other = _as(other, one.dtype)
    if one.dtype.kind in "biu" or one.dtype.name in ("int4", "uint4"):
        return np.asarray(one == other)
    a, b = _wide(one), _wide(other)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        within = np.abs(a - b) <= atol + rtol * np.abs(b)
        return np.asarray(same | (within & np.isfinite(a) & np.isfinite(b)))


def _as(array: Array, dtype: np.dtype[Any]) -> Array:
    """A result of float64 as the type it stands for, whose largest number may be smaller."""
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _gap(one: Array, other: Array) -> Array:
    with np.errstate(all="ignore"):
        gap = np.abs(_wide(one) - _wide(other))
    return np.where(np.isnan(gap), np.inf, gap)


def _error(array: Array, truth: Array) -> float:
    """The largest error among elements that are finite on both sides."""
    gap = _gap(array, truth)
    finite = gap[np.isfinite(gap)]
    return float(finite.max()) if finite.size else 0.0


def _as_good(found: Array, plain: Array, truth: Array, rtol: float, atol: float) -> Array:
    """Whether elements are finite as in plain JAX, and their errors at most `MULTIPLE` times as
    large as its largest ones, both as they are and in units of the tolerance.
    """
    a, b, t = _wide(found), _wide(plain), _wide(truth)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(t)
    if not finite.any():
        return finite
    with np.errstate(all="ignore"):
        allowed = atol + rtol * np.abs(t)
        error_found, error_plain = np.abs(a - t), np.abs(b - t)
        unit_found, unit_plain = error_found / allowed, error_plain / allowed
    most, most_units = (MULTIPLE * np.max(each[finite]) for each in (error_plain, unit_plain))
    return np.asarray(finite & (error_found <= most) & (unit_found <= most_units))


class Judgement(Struct, frozen=True):
    """What came of judging one call: of the output that decides.  opinion: who is wrong by
    StableHLO's interpreter; "" if nobody asked it, or nobody is.
    """

    verdict: Verdict
    opinion: Literal["engine", "plain JAX", "both", ""] = ""

    @property
    def wrong(self) -> Literal["engine", "plain JAX", "both", "rounding", ""]:
        """Whose result is wrong, as far as it is known."""
        return self.opinion or self.verdict.wrong


def worst_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that decides: the first wrong one, or the one with most different elements."""
    return max(verdicts, key=lambda each: (not each.right, each.different))


def second_opinion(
    found: Sequence[Array],
    plain: Sequence[Array],
    opinion: Sequence[Array],
    rtol: float,
    atol: float,
) -> Literal["engine", "plain JAX", "both", ""]:
    """Return who differs from a third result of the same inputs; "" if neither does."""
    sides = [
        all(_close(one, third, rtol, atol).all() for one, third in zip(side, opinion, strict=True))
        for side in (found, plain)
    ]
    if all(sides):
        return ""
    if not any(sides):
        return "both"
    return "plain JAX" if sides[0] else "engine"
