"""A multilayer perceptron over the 64 pixels of an image."""

from __future__ import annotations

from typing import TypedDict

import jax
import jax.numpy as jnp

LAYER_SIZES = {"hidden_1": (64, 256), "hidden_2": (256, 128), "output": (128, 10)}
BRIGHTEST_PIXEL = 16.0


class Dense(TypedDict):
    """A dense layer: `kernel` is float32[inputs, outputs], `bias` float32[outputs]."""

    kernel: jax.Array
    bias: jax.Array


type Params = dict[str, Dense]


class Prediction(TypedDict):
    """The likeliest digit, int32[batch], and the probabilities, float32[batch, 10]."""

    label: jax.Array
    probabilities: jax.Array


def init(key: jax.Array) -> Params:
    """Return the parameters of an untrained network, drawn with a jax.random key."""
    keys = jax.random.split(key, len(LAYER_SIZES))
    initializer = jax.nn.initializers.he_normal()
    return {
        name: {"kernel": initializer(layer_key, shape), "bias": jnp.zeros(shape[1])}
        for layer_key, (name, shape) in zip(keys, LAYER_SIZES.items(), strict=True)
    }


def logits(params: Params, image: jax.Array) -> jax.Array:
    """Return unnormalized log probabilities, float32[batch, 10], of float32[batch, 64]."""
    hidden = image / BRIGHTEST_PIXEL
    for name in ("hidden_1", "hidden_2"):
        hidden = jax.nn.relu(hidden @ params[name]["kernel"] + params[name]["bias"])
    return hidden @ params["output"]["kernel"] + params["output"]["bias"]


def predict(params: Params, image: jax.Array, *, temperature: float) -> Prediction:
    """Classify images. image: float32[batch, 64], pixels from 0 to 16; temperature: above 0."""
    scores = logits(params, image) / temperature
    return {
        "label": jnp.argmax(scores, axis=-1).astype(jnp.int32),
        "probabilities": jax.nn.softmax(scores),
    }
