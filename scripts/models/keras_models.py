"""Save models by Keras on TensorFlow, and what they compute there.

`python -m scripts.models.keras_models FOLDER`. Each has NAME.keras, and NAME.npz with its inputs
(by their names) and its results (`result/N`, in the order of `keras.tree.flatten`). Weights are
random, moving statistics too, so that a layer that is left out shows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
from keras import layers

type Made = tuple[Any, dict[str, np.ndarray]]

BATCH = 3
MODELS: dict[str, Callable[[np.random.Generator], Made]] = {}


def model(function: Callable[[np.random.Generator], Made]) -> Callable[..., Made]:
    MODELS[function.__name__] = function
    return function


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=(BATCH, *shape)).astype("float32")


def ids(rng: np.random.Generator, most: int, *shape: int) -> np.ndarray:
    return rng.integers(1, most, (BATCH, *shape)).astype("int32")


@model
def mlp(rng):
    made = keras.Sequential(
        [
            keras.Input((12,), name="x"),
            layers.Dense(16, "relu"),
            layers.Dropout(0.5),
            layers.BatchNormalization(),
            layers.Dense(5, "softmax"),
        ]
    )
    return made, {"x": floats(rng, 12)}


@model
def cnn(rng):
    made = keras.Sequential(
        [
            keras.Input((16, 16, 3), name="image"),
            layers.Rescaling(1 / 127.5, offset=-1),
            layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.DepthwiseConv2D(3, strides=2, padding="same"),
            layers.SeparableConv2D(8, 3, activation="gelu"),
            layers.Conv2DTranspose(4, 3, strides=2, padding="same"),
            layers.UpSampling2D(2, interpolation="bilinear"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )
    return made, {"image": floats(rng, 16, 16, 3) * 50}


@model
def residual(rng):
    image = keras.Input((16, 16, 8), name="image")
    x = image
    for stride in (1, 2):
        y = layers.Conv2D(8, 3, strides=stride, padding="same", use_bias=False)(x)
        y = layers.BatchNormalization()(y)
        y = layers.ReLU()(y)
        y = layers.Conv2D(8, 3, padding="same", use_bias=False)(y)
        y = layers.BatchNormalization()(y)
        short = x if stride == 1 else layers.Conv2D(8, 1, strides=stride)(x)
        x = layers.Activation("relu")(layers.add([y, short]))
    x = layers.Flatten()(x)
    return keras.Model(image, layers.Dense(10)(x)), {"image": floats(rng, 16, 16, 8)}


@model
def mobilenet_v2(rng):
    made = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=10)
    return made, {"input": floats(rng, 32, 32, 3)}


@model
def mobilenet_v3(rng):
    made = keras.applications.MobileNetV3Small((32, 32, 3), weights=None, classes=10)
    return made, {"input": floats(rng, 32, 32, 3) * 50}


@model
def resnet50(rng):
    made = keras.applications.ResNet50(input_shape=(32, 32, 3), weights=None, classes=10)
    return made, {"input": floats(rng, 32, 32, 3)}


@model
def efficientnet_b0(rng):
    made = keras.applications.EfficientNetB0(input_shape=(32, 32, 3), weights=None, classes=10)
    return made, {"input": floats(rng, 32, 32, 3) * 50}


@model
def lstm(rng):
    made = keras.Sequential(
        [
            keras.Input((7, 6), name="x"),
            layers.LSTM(8, return_sequences=True, dropout=0.3, recurrent_dropout=0.2),
            layers.LSTM(5),
        ]
    )
    return made, {"x": floats(rng, 7, 6)}


@model
def gru(rng):
    x = keras.Input((None, 6), name="x")
    y = layers.GRU(8, return_sequences=True)(x)
    y = layers.GRU(8, reset_after=False, return_sequences=True)(y)
    y, state = layers.GRU(4, return_state=True)(y)
    return keras.Model(x, [y, state]), {"x": floats(rng, 9, 6)}


@model
def bidirectional(rng):
    x = keras.Input((8, 6), name="x")
    y = layers.Bidirectional(layers.LSTM(5, return_sequences=True))(x)
    y = layers.Bidirectional(layers.GRU(4), merge_mode="sum")(y)
    return keras.Model(x, y), {"x": floats(rng, 8, 6)}


@model
def text_classifier(rng):
    tokens = keras.Input((20,), dtype="int32", name="tokens")
    x = layers.Embedding(100, 16)(tokens)
    x = x + layers.Embedding(20, 16)(keras.ops.arange(20) + 0 * tokens)
    y = layers.MultiHeadAttention(2, 8, dropout=0.1)(x, x)
    x = layers.LayerNormalization()(x + y)
    y = layers.Dense(16)(layers.Dense(32, "gelu")(x))
    x = layers.LayerNormalization()(x + y)
    x = layers.Dropout(0.1)(layers.GlobalMaxPooling1D()(x))
    return keras.Model(tokens, layers.Dense(3, "softmax")(x)), {"tokens": ids(rng, 100, 20)}


@model
def masked(rng):
    tokens = keras.Input((10,), dtype="int32", name="tokens")
    x = layers.Embedding(50, 8, mask_zero=True)(tokens)
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(x)
    x = layers.MultiHeadAttention(2, 4)(x, x)
    x = layers.GlobalAveragePooling1D()(x)
    given = ids(rng, 50, 10)
    for row, length in enumerate((4, 10, 1)):
        given[row, length:] = 0
    return keras.Model(tokens, layers.Dense(3)(x)), {"tokens": given}


@model
def several(rng):
    image = keras.Input((8, 8, 3), name="image")
    words = keras.Input((5,), dtype="int64", name="words")
    price = keras.Input((1,), name="price")
    seen = layers.Flatten()(layers.Conv2D(4, 3)(image))
    read = layers.Flatten()(layers.Embedding(30, 4)(words))
    both = layers.Concatenate()([seen, read, layers.Normalization(mean=1.0, variance=4.0)(price)])
    outputs = {"kind": layers.Dense(4, "softmax")(both), "value": layers.Dense(1)(both)}
    made = keras.Model({"image": image, "words": words, "price": price}, outputs)
    given = {"image": floats(rng, 8, 8, 3), "words": ids(rng, 30, 5), "price": floats(rng, 1)}
    return made, given


@model
def towers(rng):
    """One encoder, called twice, and another of the same layer names."""

    def encoder():
        x = keras.Input((6,), name="x")
        y = layers.Dense(8, "tanh", name="first")(x)
        return keras.Model(x, layers.Dense(4, name="second")(y))

    shared, other = encoder(), encoder()
    left, right = keras.Input((6,), name="left"), keras.Input((6,), name="right")
    x = layers.Dot(1, normalize=True)([shared(left), shared(right)])
    made = keras.Model([left, right], [x, layers.Dot(1)([other(left), shared(right)])])
    return made, {"left": floats(rng, 6), "right": floats(rng, 6)}


@model
def operations(rng):
    x = keras.Input((4, 6), name="x")
    y = keras.ops.softmax(keras.ops.einsum("bij,bkj->bik", x, x) / 2.5, axis=-1)
    y = keras.ops.where(y > 0.2, y, keras.ops.zeros_like(y)) @ x
    y = keras.ops.concatenate([y[:, ::2], keras.ops.flip(y, axis=1)[:, 1:3]], axis=1)
    top, index = keras.ops.top_k(keras.ops.sum(y, axis=1), 3)
    return keras.Model(x, [keras.ops.transpose(y, (0, 2, 1)), top, index]), {"x": floats(rng, 4, 6)}


@model
def unet(rng):
    image = keras.Input((None, None, 3), name="image")
    a = layers.Conv2D(4, 3, padding="same", activation="swish")(image)
    b = layers.Conv2D(8, 3, padding="same", activation="swish")(layers.AveragePooling2D(2)(a))
    b = layers.GroupNormalization(4)(b)
    c = layers.Concatenate()([layers.UpSampling2D()(b), a])
    return keras.Model(image, layers.Conv2D(2, 1)(c)), {"image": floats(rng, 12, 16, 3)}


@model
def augmented(rng):
    """Layers that do nothing but in training, and the states of their random numbers."""
    x = keras.Input((8, 8, 3), name="image")
    y = layers.RandomFlip()(x)
    y = layers.RandomRotation(0.2)(y)
    y = layers.GaussianNoise(0.5)(y)
    y = layers.SpatialDropout2D(0.3)(layers.Conv2D(4, 3)(y))
    y = layers.AlphaDropout(0.2)(layers.Flatten()(y))
    return keras.Model(x, layers.Dense(2)(y)), {"image": floats(rng, 8, 8, 3)}


@model
def mixed_float16(rng):
    return _policy(rng, "mixed_float16")


@model
def mixed_bfloat16(rng):
    return _policy(rng, "mixed_bfloat16")


@model
def bfloat16(rng):
    return _policy(rng, "bfloat16")


def _policy(rng, name):
    x = keras.Input((8,), name="x", dtype="float32")
    y = layers.Dense(16, "relu", dtype=name)(x)
    y = layers.LayerNormalization(dtype=name)(y)
    return keras.Model(x, layers.Dense(4, dtype=name)(y)), {"x": floats(rng, 8)}


def record(name: str, folder: Path) -> None:
    """Make a model and its weights, save it, and record what it computes."""
    keras.utils.clear_session()
    rng = np.random.default_rng([1, *name.encode()])
    keras.utils.set_random_seed(1)
    made, given = MODELS[name](rng)
    for each in made.variables:
        if each.name in ("moving_mean", "beta", "bias"):
            each.assign(rng.normal(0, 0.1, each.shape))
        elif each.name in ("moving_variance", "gamma"):
            each.assign(rng.uniform(0.8, 1.2, each.shape))
    made.save(folder / f"{name}.keras")
    arrays = [given[key] for key in given]
    if name == "several":
        found = made(given, training=False)
    else:
        found = made(arrays if len(arrays) > 1 else arrays[0], training=False)
    results = {
        f"result/{number}": np.asarray(keras.ops.convert_to_numpy(each), "float32")
        for number, each in enumerate(keras.tree.flatten(found))
    }
    np.savez(folder / f"{name}.npz", **given, **results)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for each in sys.argv[2:] or MODELS:
        record(each, out)
        print(each, flush=True)
