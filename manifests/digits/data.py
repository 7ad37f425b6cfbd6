"""scikit-learn's handwritten digits, split once and for all."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

HELD_OUT = 360
SPLIT_SEED = 0


class Examples(NamedTuple):
    """Images, float32[n, 64] with pixels from 0 to 16 row by row, and labels, int32[n]."""

    image: np.ndarray[Any, np.dtype[np.float32]]
    label: np.ndarray[Any, np.dtype[np.int32]]


def load_split() -> tuple[Examples, Examples]:
    """Return 1437 images for training and 360 held-out ones, in a fixed random order."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    examples = Examples(images[order].astype(np.float32), labels[order].astype(np.int32))
    held_out = Examples(examples.image[:HELD_OUT], examples.label[:HELD_OUT])
    return Examples(examples.image[HELD_OUT:], examples.label[HELD_OUT:]), held_out
