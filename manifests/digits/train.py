"""`python -m digits.train [FOLDER]`: train the network; write params.safetensors, fixtures.npz.

The same machine and packages give the same bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from safetensors.numpy import save

from digits.data import Examples, load_split
from digits.model import Params, init, logits, predict

SEED = 0
EPOCHS = 40
BATCH_SIZE = 64
PEAK_LEARNING_RATE = 3e-3
WEIGHT_DECAY = 1e-2
FIXTURE_IMAGES = 64


def loss(params: Params, image: jax.Array, label: jax.Array) -> jax.Array:
    """Return the mean cross entropy, float32[], for float32[batch, 64] and int32[batch]."""
    scores = logits(params, image)
    return optax.softmax_cross_entropy_with_integer_labels(scores, label).mean()


def accuracy(params: Params, examples: Examples) -> float:
    """Return the share of examples that `predict` labels correctly."""
    prediction = jax.jit(predict)(params, examples.image, temperature=1.0)
    return float(np.mean(np.asarray(prediction["label"]) == examples.label))


def train(examples: Examples) -> Params:
    """Train by AdamW with a cosine schedule over shuffled batches."""
    steps_per_epoch = len(examples.label) // BATCH_SIZE
    schedule = optax.cosine_decay_schedule(PEAK_LEARNING_RATE, EPOCHS * steps_per_epoch)
    optimizer = optax.adamw(schedule, weight_decay=WEIGHT_DECAY)

    def step(
        params: Params, state: optax.OptState, image: jax.Array, label: jax.Array
    ) -> tuple[Params, optax.OptState]:
        gradients = jax.grad(loss)(params, image, label)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    compiled_step = jax.jit(step, donate_argnums=(0, 1))
    params = init(jax.random.key(SEED))
    state = optimizer.init(params)
    shuffle = np.random.default_rng(SEED)
    for _ in range(EPOCHS):
        order = shuffle.permutation(len(examples.label))
        for batch in order[: steps_per_epoch * BATCH_SIZE].reshape(-1, BATCH_SIZE):
            image, label = jnp.asarray(examples.image[batch]), jnp.asarray(examples.label[batch])
            params, state = compiled_step(params, state, image, label)
    return params


def tensors(params: Params) -> dict[str, np.ndarray[Any, Any]]:
    """Return the parameters by name, with "/" between a layer and its part."""
    return {
        f"{layer}/{part}": np.asarray(value)
        for layer, parts in params.items()
        for part, value in parts.items()
    }


def main(folder: Path) -> None:
    """Train, print the accuracy, and write both files into the folder."""
    examples, held_out = load_split()
    params = train(examples)
    report = f"{accuracy(params, held_out):.4f} on {len(held_out.label)} held-out images"
    print(f"accuracy {accuracy(params, examples):.4f} on training images, {report}")
    # One key only: safetensors writes several in a random order.
    weights = save(tensors(params), metadata={"accuracy": report})
    (folder / "params.safetensors").write_bytes(weights)
    np.savez(folder / "fixtures.npz", image=held_out.image[:FIXTURE_IMAGES])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
