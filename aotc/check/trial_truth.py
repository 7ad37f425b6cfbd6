"""Decides whether an executable or plain JAX is right, by the same module in float64."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

type Array = np.ndarray[Any, Any]

MULTIPLE = 8
"""Most times that an executable's error may be plain JAX's own."""


FAR = 1e-2
"""Errors of plain JAX above this part of the largest number are more than rounding."""


type Side = Literal["engine", "plain JAX", "both", "rounding", ""]


class Verdict(Struct, frozen=True):
    """The judgement of one output, or of a call by the output that decides.

    Attributes:
        output: Its path.
        right: Whether every element is plain JAX's, or at least as close to the truth.
        different: Elements beyond the tolerance.
        first: Index of the first of them.
        median: Of their absolute differences.
        found: Largest error of the executable against the truth; None without one.
        plain: Largest error of plain JAX against the truth; None without one.
        scale: The largest finite number of the truth.
        by_truth: The side whose result is wrong by the truth.
        is_order: Whether sums in another order explain every element beyond the tolerance.
        opinion: The wrong side by StableHLO's interpreter; "" if it was not run, or none is.
    """

    output: str
    right: bool
    elements: int
    different: int = 0
    first: tuple[int, ...] = ()
    median: float = 0.0
    found: float | None = None
    plain: float | None = None
    scale: float = 0.0
    by_truth: Side = ""
    is_order: bool = False
    opinion: Side = ""

    @property
    def wrong(self) -> Side:
        """Return the side whose result is wrong, if it is known."""
        return self.opinion or self.by_truth

    @property
    def is_accepted(self) -> bool:
        """Return whether the executable may differ from plain JAX here."""
        return self.right and self.opinion != "engine"

    @property
    def is_settled(self) -> bool:
        """Return whether the executable is right by the truth or by the order of sums.

        The truth counts if plain JAX is close to it as well. Elsewhere the program amplifies
        rounding, or plain JAX is wrong: the interpreter adds in plain JAX's order, and agrees with
        it in both cases.
        """
        return self.right and (self.is_order or (self.plain or 0.0) <= FAR * self.scale)


class Truth(Struct, frozen=True):
    """One output in float64.

    `ways` has results as XLA compiles the module, and otherwise, also in the module's own types for
    what is not finite there alone. `neighbours` has results of plain JAX for the next inputs, each
    with its truth, since one result may be right by luck. `orders` has results for the same inputs
    with sums in another order.
    """

    ways: Sequence[Array]
    neighbours: Sequence[tuple[Array, Array]] = ()
    orders: Sequence[Array] = ()


def verdict_of(
    output: str, found: Array, plain: Array, truth: Truth | None, rtol: float, atol: float
) -> Verdict:
    """Return the verdict on the output at the path `output`.

    An element is right if it is plain JAX's, or one of the truth's, within the tolerance; or if its
    error is at most `MULTIPLE` times as large as plain JAX's errors. `truth` is None where it
    cannot be computed; `rtol` is relative to what a result is compared with.
    """
    close = _close(found, plain, rtol, atol)
    if close.all():
        return Verdict(output, True, found.size)
    apart = np.atleast_1d(~close)
    first = tuple(int(each[0]) for each in np.nonzero(apart))[: found.ndim]
    gaps = np.atleast_1d(_gap(found, plain))[apart]
    finite = gaps[np.isfinite(gaps)]
    median = float(np.median(finite)) if finite.size else float("inf")
    verdict = Verdict(output, False, found.size, int(apart.sum()), first, median)
    if truth is None:
        return verdict
    right = close.copy()
    for way in truth.ways:
        right |= _close(found, way, rtol, atol)
    exact = truth.ways[0]
    own = [(plain, exact), *truth.neighbours, *((order, exact) for order in truth.orders)]
    if _is_whole(found):
        wrong = [int((~_close(*pair, rtol, atol)).sum()) for pair in own]
        if int((found != _as(exact, found.dtype)).sum()) <= MULTIPLE * max(wrong):
            right |= True
    else:
        right |= _as_good(found, exact, own, rtol, atol)
    is_right = bool(right.all())
    return replace(
        verdict,
        right=is_right,
        found=_error(found, exact),
        plain=max(_error(*pair) for pair in own),
        scale=_error(exact, np.zeros_like(exact)),
        by_truth=_wrong_side(found, plain, exact, rtol, atol) if is_right else "engine",
        is_order=bool((close | _is_order(found, exact, truth.orders)).all()),
    )


def _wrong_side(found: Array, plain: Array, exact: Array, rtol: float, atol: float) -> Side:
    """Return which of two results differs from the truth by more than rounding."""
    is_close = bool(_close(found, exact, rtol, atol).all())
    return "plain JAX" if is_close and not _close(plain, exact, rtol, atol).all() else "rounding"


def _is_whole(array: Array) -> bool:
    return array.dtype.kind in "biu" or array.dtype.name in ("int4", "uint4")


def _close(one: Array, other: Array, rtol: float, atol: float) -> Array:
    """Return whether elements are equal, both NaN, or finite and within the tolerance."""
    other = _as(other, one.dtype)
    if _is_whole(one):
        return np.asarray(one == other)
    a, b = _wide(one), _wide(other)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        within = np.abs(a - b) <= atol + rtol * np.abs(b)
        return np.asarray(same | (within & np.isfinite(a) & np.isfinite(b)))


def _as(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return a result of float64 as the type it stands for, whose largest number may be smaller."""
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _gap(one: Array, other: Array) -> Array:
    with np.errstate(all="ignore"):
        gap = np.abs(_wide(one) - _wide(other))
    return np.where(np.isnan(gap), np.inf, gap)


def _error(array: Array, truth: Array) -> float:
    """Return the largest error among elements that are finite on both sides."""
    gap = _gap(array, truth)
    finite = gap[np.isfinite(gap)]
    return float(finite.max()) if finite.size else 0.0


def _as_good(
    found: Array, exact: Array, own: Sequence[tuple[Array, Array]], rtol: float, atol: float
) -> Array:
    """Return whether elements are finite where the truth is, with errors of plain JAX's size.

    They are at most `MULTIPLE` times its largest ones, both as they are and in units of the
    tolerance. `own` has results of plain JAX with their truth; the first is for the same inputs.
    """

    def errors(result: Array, truth: Array) -> tuple[Array, Array]:
        gap = np.atleast_1d(_gap(result, truth))
        units = gap / (atol + rtol * np.abs(_wide(np.atleast_1d(truth))))
        is_known = np.isfinite(gap) & np.isfinite(units)
        return gap[is_known], units[is_known]

    with np.errstate(all="ignore"):
        known = [errors(*pair) for pair in own]
        most, units = (
            MULTIPLE * max((float(each.max()) for each in every if each.size), default=0.0)
            for every in zip(*known, strict=True)
        )
        error = _gap(found, exact)
        is_small = (error <= most) & (error / (atol + rtol * np.abs(_wide(exact))) <= units)
    # Where the truth overflows nowhere, plain JAX's sums may have.
    finite = np.isfinite(_wide(found)) & np.isfinite(_wide(_as(exact, found.dtype)))
    return np.asarray(finite & is_small)


def _is_order(found: Array, exact: Array, orders: Sequence[Array]) -> Array:
    """Return whether elements are off by at most `MULTIPLE` times what other orders change them.

    Unlike plain JAX's errors, that is known without plain JAX.
    """
    with np.errstate(all="ignore"):
        changes = [_gap(order, exact) for order in orders]
        known = [np.where(np.isfinite(each), each, 0.0) for each in changes]
        most = MULTIPLE * np.max([np.zeros(exact.shape), *known], axis=0)
        return np.asarray(_gap(found, exact) <= most)


def worst_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the decisive verdict: the first wrong one, or that with most differences."""
    return max(verdicts, key=lambda each: (not each.right, each.different))


def second_opinion(
    found: Sequence[Array], plain: Sequence[Array], third: Sequence[Array], rtol: float, atol: float
) -> Side:
    """Return who differs from a third result of the same inputs; "" if neither does."""
    sides = [
        all(_close(one, other, rtol, atol).all() for one, other in zip(side, third, strict=True))
        for side in (found, plain)
    ]
    if all(sides):
        return ""
    if not any(sides):
        return "both"
    return "plain JAX" if sides[0] else "engine"
