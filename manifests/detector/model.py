"""A convolutional detector: boxes of a fixed number, and maps that are as large as the image.

Heights and widths are counted in cells of STRIDE pixels, one place of the last map each. Images of
other sizes than a profile's are padded by the loader, which says by `real` which cells have image
in them. A convolution sees zeros behind the edge of an image, so that every layer writes zeros
where there is none: then a padded image gives what the image alone would.
"""

from __future__ import annotations

from functools import partial
from typing import TypedDict

import jax
import jax.numpy as jnp
import numpy as np

CHANNELS = (8, 16, 32, 32)
"""Of the layers, each of which halves the resolution."""
STRIDE = 2 ** len(CHANNELS)
CLASSES = 3
BOXES = 4
SEED = 0


class Layer(TypedDict):
    """A convolution: `kernel` is float32[3, 3, inputs, outputs], `bias` float32[outputs]."""

    kernel: jax.Array
    bias: jax.Array


class Params(TypedDict):
    """The layers; `head` has 1 x 1 kernels and gives scores of CLASSES, then 4 box coordinates."""

    layers: list[Layer]
    head: Layer


class Detections(TypedDict):
    """The BOXES places with the highest scores, best first, and what they were chosen from.

    boxes: float32[BOXES, 4], x, y, width and height in pixels; those that are no place of the image
    have score 0, label -1 and zeros.  scores: float32[BOXES].  labels: int32[BOXES].  heat:
    float32[rows, columns, CLASSES], scores everywhere.  edges: float32[STRIDE * rows / 2,
    STRIDE * columns / 2, CHANNELS[0]], the first layer.
    """

    boxes: jax.Array
    scores: jax.Array
    labels: jax.Array
    heat: jax.Array
    edges: jax.Array


def init() -> Params:
    """Return the weights of an untrained network, always the same."""
    random = np.random.default_rng(SEED)

    def layer(size: int, inputs: int, outputs: int) -> Layer:
        kernel = random.standard_normal((size, size, inputs, outputs), np.float32)
        return {
            "kernel": jnp.asarray(kernel * (2 / (size * size * inputs)) ** 0.5),
            "bias": jnp.asarray(random.normal(0, 0.1, outputs), jnp.float32),
        }

    return {
        "layers": [
            layer(3, before, after) for before, after in zip((3, *CHANNELS), CHANNELS, strict=False)
        ],
        "head": layer(1, CHANNELS[-1], CLASSES + 4),
    }


@partial(jax.jit, static_argnames=("rows", "columns"))
def picture(rows: int, columns: int) -> jax.Array:
    """Return an image, float32[STRIDE * rows, STRIDE * columns, 3], from 0 to 1."""
    y = jnp.arange(STRIDE * rows)[:, None, None]
    x = jnp.arange(STRIDE * columns)[None, :, None]
    waves = jnp.sin(0.31 * x + 0.05 * y) * jnp.cos(0.17 * y - 0.02 * x)
    return 0.5 + 0.5 * waves * jnp.asarray([1.0, 0.6, -0.8])


def detect(params: Params, image: jax.Array, real: jax.Array) -> Detections:
    """Detect objects in float32[STRIDE * rows, STRIDE * columns, 3]; `real` marks its cells."""
    columns = real.shape[1]
    hidden = jnp.where(_cells(real, STRIDE), image, 0)
    maps = []
    for depth, layer in enumerate(params["layers"], start=1):
        hidden = jax.nn.relu(_convolved(hidden, layer, stride=2))
        hidden = jnp.where(_cells(real, STRIDE >> depth), hidden, 0)
        maps.append(hidden)
    found = _convolved(hidden, params["head"], stride=1)
    heat = jax.nn.sigmoid(found[..., :CLASSES])
    # No score of a place in the padding may be the highest.
    best = jnp.where(real, heat.max(axis=-1), -1).reshape(-1)
    scores, places = _highest(best)
    row, column = places // columns, places % columns
    kept = scores > 0
    offsets = jax.nn.sigmoid(found[row, column, CLASSES : CLASSES + 2])
    sizes = jnp.exp(jnp.clip(found[row, column, CLASSES + 2 :], -4, 4))
    corners = (jnp.stack([column, row], axis=-1) + offsets) * STRIDE
    boxes = jnp.concatenate([corners, sizes * STRIDE], axis=-1)
    labels = heat[row, column].argmax(axis=-1).astype(jnp.int32)
    return {
        "boxes": jnp.where(kept[:, None], boxes, 0),
        "scores": jnp.where(kept, scores, 0),
        "labels": jnp.where(kept, labels, -1),
        "heat": heat,
        "edges": maps[0],
    }


def _convolved(image: jax.Array, layer: Layer, *, stride: int) -> jax.Array:
    """Return the convolution of float32[height, width, inputs]."""
    (result,) = jax.lax.conv_general_dilated(
        image[None],
        layer["kernel"],
        window_strides=(stride, stride),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return result + layer["bias"]


def _cells(real: jax.Array, pixels: int) -> jax.Array:
    """Return the mask by pixel, bool[pixels * rows, pixels * columns, 1]."""
    rows, columns = real.shape
    grown = jnp.broadcast_to(real[:, None, :, None], (rows, pixels, columns, pixels))
    return grown.reshape(pixels * rows, pixels * columns, 1)


def _highest(values: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the BOXES highest values and their indices; -1 where there are fewer."""
    filled = jnp.concatenate([values, jnp.full(BOXES, -1.0)])
    order = jax.lax.top_k(filled, BOXES)
    return order[0], jnp.minimum(order[1], values.shape[0] - 1)
