"""Differences of numbers: absolute, relative, and in units in the last place.

Imported for results whose bits differ from their reference's.
"""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def distance(
    actual: Array, expected: Array, rtol: float, atol: float
) -> tuple[float, float, int, bool, float]:
    """Compare flat arrays.

    Returns largest absolute and relative error, largest distance in units in the last place,
    whether all are within the tolerance, and the largest excess, as `readiness.Difference` defines
    them.
    """
    if actual.dtype.kind in "biu" or actual.dtype.name in ("int4", "uint4"):
        wrong = bool(np.any(actual != expected))
        distance = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
        scale = np.maximum(np.abs(expected.astype(np.float64)), 1.0)
        return (
            float(distance.max()),
            float((distance / scale).max()),
            min(int(distance.max()), 2**63 - 1),
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
    return (
        float(error.max()),
        float(relative.max()),
        ulp,
        bool((error <= allowance).all()),
        float(excess.max()),
    )


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
    """Return each float's position among those of its type; -0.0 and 0.0 share one."""
    bits = np.ascontiguousarray(array).view(_BITS[array.dtype.itemsize]).astype(np.int64)
    lowest = -(2 ** (8 * array.dtype.itemsize - 1))
    return np.where(bits < 0, lowest - bits, bits)
