"""Writes texts.keras and what Keras computes with it on PyTorch; aotc computes with jax.

KERAS_BACKEND=torch python manifests/texts/export.py    # with keras and torch
"""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
from keras import layers

HERE = Path(__file__).parent
WORDS, LENGTH = 64, 12


def model() -> keras.Model:
    """Return a classifier of texts of up to twelve words, padded with 0."""
    words = keras.Input((LENGTH,), dtype="int32", name="words")
    hidden = layers.Embedding(WORDS, 16, mask_zero=True, name="embedding")(words)
    attended = layers.MultiHeadAttention(2, 8, name="attention")(hidden, hidden)
    hidden = layers.LayerNormalization(name="norm")(hidden + attended)
    hidden = layers.GlobalAveragePooling1D(name="mean")(hidden)
    return keras.Model(words, layers.Dense(3, "softmax", name="classes")(hidden), name="texts")


def main() -> None:
    """Write the model, inputs, and Keras's results in both sizes."""
    assert keras.backend.backend() == "torch"
    keras.utils.set_random_seed(0)
    made = model()
    made.save(HERE / "texts.keras")
    random = np.random.default_rng(0)
    words = random.integers(1, WORDS, (8, LENGTH)).astype(np.int32)
    words[np.arange(LENGTH) >= random.integers(1, LENGTH + 1, (8, 1))] = 0
    np.savez_compressed(HERE / "inputs.npz", words=words)
    found = {
        f"result[batch={n}]": keras.ops.convert_to_numpy(made(words[:n], training=False))
        for n in (1, 8)
    }
    np.savez_compressed(HERE / "expected.npz", **found)


if __name__ == "__main__":
    main()
