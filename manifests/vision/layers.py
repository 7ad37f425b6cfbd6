"""The layers of the network, as Equinox modules. Images are [batch, height, width, channels]."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.random import Generator


class Convolution(eqx.Module):
    """Without a bias, which a batch normalization behind it would take away again.

    kernel: float32[size, size, inputs, outputs].
    """

    kernel: jax.Array
    stride: int = eqx.field(static=True)

    def __init__(
        self, random: Generator, inputs: int, outputs: int, *, size: int = 3, stride: int = 1
    ) -> None:
        deviation = (2 / (size * size * inputs)) ** 0.5
        # numpy draws at once what jax.random would compile a program for, shape by shape.
        kernel = deviation * random.standard_normal((size, size, inputs, outputs), np.float32)
        self.kernel = jnp.asarray(kernel, jnp.float32)
        self.stride = stride

    def __call__(self, image: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            image,
            self.kernel,
            window_strides=(self.stride, self.stride),
            padding="SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )


class BatchNorm(eqx.Module):
    """With the statistics of training, which are no less a part of the network than its kernels.

    scale, offset, mean, variance: float32[channels].
    """

    scale: jax.Array
    offset: jax.Array
    mean: jax.Array
    variance: jax.Array
    epsilon: float = eqx.field(static=True)

    def __init__(self, channels: int, *, scale: float = 1.0) -> None:
        self.scale = jnp.full(channels, scale)
        self.offset = jnp.zeros(channels)
        # Not 0 and 1, where an error in their use would not show.
        self.mean = jnp.linspace(-0.2, 0.2, channels)
        self.variance = jnp.linspace(0.5, 1.5, channels)
        self.epsilon = 1e-5

    def __call__(self, image: jax.Array) -> jax.Array:
        factor = self.scale * jax.lax.rsqrt(self.variance + self.epsilon)
        return image * factor + (self.offset - self.mean * factor)


class Residual(eqx.Module):
    """Two convolutions and a shortcut, which is None where the shape stays the same."""

    first: Convolution
    first_norm: BatchNorm
    second: Convolution
    second_norm: BatchNorm
    shortcut: Convolution | None
    activation: Callable[[jax.Array], jax.Array]

    def __init__(
        self, random: Generator, inputs: int, outputs: int, *, stride: int, branch_scale: float
    ) -> None:
        """Scale the sum of the convolutions, which is added to the shortcut, by `branch_scale`."""
        self.first = Convolution(random, inputs, outputs, stride=stride)
        self.first_norm = BatchNorm(outputs)
        self.second = Convolution(random, outputs, outputs)
        self.second_norm = BatchNorm(outputs, scale=branch_scale)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = Convolution(random, inputs, outputs, size=1, stride=stride)
        self.activation = jax.nn.relu

    def __call__(self, image: jax.Array) -> jax.Array:
        hidden = self.activation(self.first_norm(self.first(image)))
        added = self.second_norm(self.second(hidden))
        around = image if self.shortcut is None else self.shortcut(image)
        return self.activation(around + added)
