"""A small network, its optimizer, and one step of training as a pure function."""

from __future__ import annotations

from typing import TypedDict

import jax
import jax.numpy as jnp
import optax

PIXELS, HIDDEN, CLASSES = 64, 256, 10
BRIGHTEST_PIXEL = 16.0
OPTIMIZER = optax.adam(learning_rate=5e-3)


class Dense(TypedDict):
    """A dense layer: `kernel` is float32[inputs, outputs], `bias` float32[outputs]."""

    kernel: jax.Array
    bias: jax.Array


class Params(TypedDict):
    """Two layers."""

    hidden: Dense
    output: Dense


class State(TypedDict):
    """The state of training between steps; `step` is int32[]."""

    params: Params
    optimizer: optax.OptState
    step: jax.Array


class Batch(TypedDict):
    """Images, float32[batch, 64] with pixels from 0 to 16, and labels, int32[batch]."""

    image: jax.Array
    label: jax.Array


class Metrics(TypedDict):
    """Means over a batch, float32[]: cross entropy and accuracy."""

    loss: jax.Array
    accuracy: jax.Array


def init(seed: jax.Array) -> State:
    """Return the state before the first step; `seed` is uint32[]."""
    hidden_key, output_key = jax.random.split(jax.random.key(seed))
    initializer = jax.nn.initializers.he_normal()
    params: Params = {
        "hidden": {
            "kernel": initializer(hidden_key, (PIXELS, HIDDEN)),
            "bias": jnp.zeros(HIDDEN),
        },
        "output": {
            "kernel": initializer(output_key, (HIDDEN, CLASSES)),
            "bias": jnp.zeros(CLASSES),
        },
    }
    return {
        "params": params,
        "optimizer": OPTIMIZER.init(params),
        "step": jnp.zeros((), jnp.int32),
    }


def train_step(state: State, batch: Batch) -> tuple[State, Metrics]:
    """Take a step of Adam; return the next state and the metrics before it."""
    gradients, metrics = jax.grad(_objective, has_aux=True)(state["params"], batch)
    updates, optimizer = OPTIMIZER.update(gradients, state["optimizer"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "optimizer": optimizer, "step": state["step"] + 1}, metrics


def evaluate(state: State, batch: Batch) -> Metrics:
    """Return the metrics of a state on a batch, without training."""
    return _objective(state["params"], batch)[1]


def _objective(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    image = batch["image"] / BRIGHTEST_PIXEL
    hidden = jax.nn.relu(image @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    logits = hidden @ params["output"]["kernel"] + params["output"]["bias"]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
    correct = jnp.argmax(logits, axis=-1) == batch["label"]
    loss = losses.mean()
    return loss, {"loss": loss, "accuracy": correct.mean()}
