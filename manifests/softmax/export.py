"""Writes inputs for softmax.mlir, which is written by hand, and what numpy computes with them.

python manifests/softmax/export.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


def main() -> None:
    """Write one batch of scores, and their softmax."""
    scores = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    scores[0] += 100  # what overflows without the maximum that is taken off
    raised = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    found: dict[str, Any] = {"0": (raised / raised.sum(1, keepdims=True)).astype(np.float32)}
    np.savez_compressed(HERE / "inputs.npz", scores=scores)
    np.savez_compressed(HERE / "expected.npz", **found)


if __name__ == "__main__":
    main()
