"""`python -m gp.data [FOLDER]`: noisy observations of a known function, written to fixtures.npz."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

POINTS = 64
NOISE = 0.1
SEED = 0
FIXTURES = Path(__file__).with_name("fixtures.npz")

type Array = np.ndarray[Any, np.dtype[np.float64]]


def truth(x: Array) -> Array:
    """Return the function behind the observations, float64[points], at float64[points, 2]."""
    return np.asarray(np.sin(2 * x[:, 0]) + 0.5 * np.cos(3 * x[:, 1]))


def observe() -> tuple[Array, Array]:
    """Return x, float64[POINTS, 2] in [-2, 2], and y, float64[POINTS]: the truth and NOISE."""
    generator = np.random.default_rng(SEED)
    x = generator.uniform(-2, 2, (POINTS, 2))
    return x, truth(x) + NOISE * generator.standard_normal(POINTS)


if __name__ == "__main__":
    path = Path(sys.argv[1]) / FIXTURES.name if len(sys.argv) > 1 else FIXTURES
    x, y = observe()
    np.savez(path, x=x, y=y)
