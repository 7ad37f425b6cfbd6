"""Results that torch recorded, and the distance of others from them."""

import os
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(os.environ.get("AOTC_TORCH", "out/torch/recorded"))


def named(value: Any, path: str = "") -> dict[str, Any]:
    """Arrays of a result by their path, as `record.results` names them."""
    if value is None:
        return {}
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, tuple | list):
        items = [(str(number), item) for number, item in enumerate(value)]
    else:
        return {path: value}
    return {
        name: array
        for key, item in items
        for name, array in named(item, f"{path}/{key}".removeprefix("/")).items()
    }


def apart(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """The largest difference, relative to the largest element where that is above 1; infinite where
    NaN, infinities, integers or booleans differ.
    """
    if found.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind in "biu":
        return 0.0 if np.array_equal(found, expected.astype(found.dtype)) else float("inf")
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    found, expected = found.astype(wide), expected.astype(wide)
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    found, expected = found[finite], expected[finite]
    return float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max()))
