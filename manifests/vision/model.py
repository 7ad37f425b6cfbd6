"""ResNet-20 for images of 32 by 32 pixels: `init` makes its parameters, `predict` uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.random import Generator

from vision.layers import BatchNorm, Convolution, Residual

CLASSES = 10
STAGES = ((16, 1), (32, 2), (64, 2))
"""Channels and stride of each stage."""
BLOCKS_PER_STAGE = 3
SEED = 0

PIXEL_MEAN = 0.5
PIXEL_DEVIATION = 0.25


class ResNet(eqx.Module):
    """A network from float32[batch, 32, 32, 3] to logits, float32[batch, CLASSES]."""

    stem: Convolution
    stem_norm: BatchNorm
    blocks: list[Residual]
    head: eqx.nn.Linear
    activation: Callable[[jax.Array], jax.Array]

    def __init__(self, random: Generator) -> None:
        channels = STAGES[0][0]
        self.stem = Convolution(random, 3, channels)
        self.stem_norm = BatchNorm(channels)
        self.blocks = []
        strides = [
            (outputs, stride if block == 0 else 1)
            for outputs, stride in STAGES
            for block in range(BLOCKS_PER_STAGE)
        ]
        # Activations keep their size however many branches are added up.
        branch_scale = len(strides) ** -0.5
        for outputs, stride in strides:
            block = Residual(random, channels, outputs, stride=stride, branch_scale=branch_scale)
            self.blocks.append(block)
            channels = outputs
        self.head = eqx.nn.Linear(channels, CLASSES, key=jax.random.key(SEED))
        self.activation = jax.nn.relu

    def __call__(self, image: jax.Array) -> jax.Array:
        hidden = (image - PIXEL_MEAN) / PIXEL_DEVIATION
        hidden = self.activation(self.stem_norm(self.stem(hidden)))
        for block in self.blocks:
            hidden = block(hidden)
        pooled = jnp.mean(hidden, axis=(1, 2))
        return jax.vmap(self.head)(pooled)


class Prediction(TypedDict):
    """The likeliest class, int32[batch], and the probabilities, float32[batch, CLASSES]."""

    label: jax.Array
    probabilities: jax.Array


def init() -> ResNet:
    """Return the arrays of an untrained network, always the same; None in place of functions."""
    arrays: ResNet = eqx.filter(ResNet(np.random.default_rng(SEED)), eqx.is_array)
    return arrays


def predict(params: ResNet, image: jax.Array) -> Prediction:
    """Classify images. params: as `init` returns them; image: float32[batch, 32, 32, 3], from 0
    to 1.
    """
    network = eqx.combine(params, _functions())
    logits = network(image)
    return {
        "label": jnp.argmax(logits, axis=-1).astype(jnp.int32),
        "probabilities": jax.nn.softmax(logits),
    }


def _functions() -> ResNet:
    """Return the functions, which `init` replaces by None."""
    skeleton = eqx.filter_eval_shape(ResNet, np.random.default_rng(SEED))
    functions: ResNet = eqx.filter(skeleton, callable)
    return functions
