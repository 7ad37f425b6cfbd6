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
    from aotc_runtime.serving.distance import distance

    return distance(actual, expected, elements, rtol, atol)


def _differ(actual: Array, expected: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Flat mask of the elements whose bits differ, compared without arithmetic."""
    size = min(actual.dtype.itemsize, 8)
    rows = (
        np.ascontiguousarray(array).reshape(-1, 1).view(f"u{size}") for array in (actual, expected)
    )
    differ: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.not_equal(*rows).any(axis=1)
    return differ
