"""How far a result is from its reference: absolute, relative, and in units in the last place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

Array = np.ndarray[Any, Any]


class Difference(Struct, frozen=True):
    """max_abs, max_rel: largest errors (inf where only one side is finite).  ulp_max: largest
    distance in units in the last place.  elements: numbers compared.  within: whether every element
    satisfies |actual - expected| <= atol + rtol * |expected|; integers and booleans must be equal.
    excess: largest error as a multiple of its allowance, for ranking.  worst: of several arrays,
    the path of the one with the largest excess.
    """

    max_abs: float
    max_rel: float
    ulp_max: int
    elements: int
    within: bool
    excess: float
    worst: str = ""


def over_all(differences: Sequence[tuple[str, Difference]]) -> Difference:
    """The difference of several arrays together. differences: each with the array's path."""
    every = [difference for _, difference in differences]
    worst, _ = max(
        differences, key=lambda each: (not each[1].within, each[1].excess), default=("", None)
    )
    return Difference(
        max_abs=max((d.max_abs for d in every), default=0.0),
        max_rel=max((d.max_rel for d in every), default=0.0),
        ulp_max=max((d.ulp_max for d in every), default=0),
        elements=sum(d.elements for d in every),
        within=all(d.within for d in every),
        excess=max((d.excess for d in every), default=0.0),
        worst=worst,
    )


def compare(actual: Array, expected: Array, rtol: float, atol: float) -> Difference:
    """Compare two arrays of one shape and dtype. NaN equals NaN, an infinity equals itself."""
    elements = actual.size
    differ = _differ(actual, expected)
    if not differ.any():
        return Difference(0.0, 0.0, 0, elements, True, 0.0)
    # The rest is the same to the bit and adds nothing; it is often most of a large result.
    actual, expected = actual.reshape(-1)[differ], expected.reshape(-1)[differ]
    if actual.dtype.kind in "biu" or actual.dtype.name in ("int4", "uint4"):
        wrong = bool(np.any(actual != expected))
        distance = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
        scale = np.maximum(np.abs(expected.astype(np.float64)), 1.0)
        return Difference(
            float(distance.max()),
            float((distance / scale).max()),
            min(int(distance.max()), 2**63 - 1),
            elements,
            not wrong,
            float(np.inf) if wrong else 0.0,
        )
    ulp = _ulp(actual, expected)
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    a, e = actual.astype(wide), expected.astype(wide)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    with np.errstate(all="ignore"):
        error = np.where(same, 0.0, np.abs(a - e))
        error = np.where(np.isnan(error), np.inf, error)
        magnitude = np.abs(e)
        relative = np.where(error == 0, 0.0, error / magnitude)
        allowance = atol + rtol * np.where(np.isfinite(magnitude), magnitude, 0.0)
        excess = np.where(error == 0, 0.0, error / allowance)
    relative = np.where(np.isnan(relative), np.inf, relative)
    return Difference(
        float(error.max()),
        float(relative.max()),
        ulp,
        elements,
        bool((error <= allowance).all()),
        float(excess.max()),
    )


def _differ(actual: Array, expected: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Flat mask of the elements whose bits differ, compared without arithmetic."""
    size = min(actual.dtype.itemsize, 8)
    rows = (
        np.ascontiguousarray(array).reshape(-1, 1).view(f"u{size}") for array in (actual, expected)
    )
    differ: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.not_equal(*rows).any(axis=1)
    return differ


_BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def _ulp(actual: Array, expected: Array) -> int:
    """Distance in representable numbers; NaN against NaN counts as none."""
    if actual.dtype.kind == "c":
        part = np.float32 if actual.dtype.itemsize == 8 else np.float64
        actual, expected = actual.view(part), expected.view(part)
    both_nan = np.isnan(actual.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    steps = [_ordinal(array) for array in (actual, expected)]
    # Python integers: the distance of two 64-bit ordinals does not fit 64 bits.
    far = np.abs(steps[0].astype(np.float64) - steps[1].astype(np.float64))
    worst = int(np.argmax(np.where(both_nan, 0.0, far)))
    if both_nan[worst]:
        return 0
    return abs(int(steps[0][worst]) - int(steps[1][worst]))


def _ordinal(array: Array) -> Array:
    """The position of each float among all floats of its type; -0.0 and 0.0 have the same."""
    bits = np.ascontiguousarray(array).view(_BITS[array.dtype.itemsize]).astype(np.int64)
    lowest = -(2 ** (8 * array.dtype.itemsize - 1))
    return np.where(bits < 0, lowest - bits, bits)
