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
    """kernel: float32[inputs, outputs].  bias: float32[outputs]."""

    kernel: jax.Array
    bias: jax.Array


class Params(TypedDict):
    """Two layers."""

    hidden: Dense
    output: Dense


class State(TypedDict):
    """All that training carries from step to step. step: int32[]."""

    params: Params
    optimizer: optax.OptState
    step: jax.Array


class Batch(TypedDict):
    """image: float32[batch, 64], pixels from 0 to 16.  label: int32[batch], 0 to 9."""

    image: jax.Array
    label: jax.Array


class Metrics(TypedDict):
    """Means over a batch. loss: float32[], cross entropy.  accuracy: float32[]."""

    loss: jax.Array
    accuracy: jax.Array


def init(seed: jax.Array) -> State:
    """The state before the first step. seed: uint32[]."""
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
    """One step of Adam. Returns the next state and the metrics before the step."""
    gradients, metrics = jax.grad(_objective, has_aux=True)(state["params"], batch)
    updates, optimizer = OPTIMIZER.update(gradients, state["optimizer"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "optimizer": optimizer, "step": state["step"] + 1}, metrics


def evaluate(state: State, batch: Batch) -> Metrics:
    """The metrics of a state on a batch, without training."""
    return _objective(state["params"], batch)[1]


def _objective(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    image = batch["image"] / BRIGHTEST_PIXEL
    hidden = jax.nn.relu(image @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    logits = hidden @ params["output"]["kernel"] + params["output"]["bias"]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
    correct = jnp.argmax(logits, axis=-1) == batch["label"]
    loss = losses.mean()
    return loss, {"loss": loss, "accuracy": correct.mean()}
