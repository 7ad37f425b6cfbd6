"""Saves models of Keras that no other test has, with random weights.

`python write_keras.py FOLDER [NAME …]` writes NAME.keras and NAME.npz: of each call its inputs
(`CALL/in/N`) and what Keras computes on TensorFlow (`CALL/out/`). Runs where both are installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"

import inputs
import keras
import numpy as np
from keras import layers

type Case = tuple[Any, list[tuple[int, ...]]]

BATCH = 2
CASES: dict[str, Callable[[], Case]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    CASES[f"keras_{function.__name__}"] = function
    return function


def chain(shape: tuple[int, ...], *steps: Any) -> Case:
    return keras.Sequential([keras.Input(shape), *steps]), [shape]


@case
def temporal_convolutions() -> Case:
    return chain(
        (24, 4),
        layers.Conv1D(8, 3, padding="causal", activation="elu"),
        layers.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="selu"),
        layers.SeparableConv1D(8, 3, strides=2),
        layers.MaxPooling1D(),
        layers.GlobalAveragePooling1D(),
        layers.Dense(3, "softplus"),
    )


@case
def convolutional_lstm() -> Case:
    return chain(
        (4, 8, 8, 2), layers.ConvLSTM2D(4, 3, padding="same"), layers.Flatten(), layers.Dense(2)
    )


@case
def volumes() -> Case:
    return chain(
        (8, 8, 8, 1),
        layers.Conv3D(4, 3, activation="relu"),
        layers.AveragePooling3D(2),
        layers.Conv3DTranspose(2, 3),
        layers.GlobalMaxPooling3D(),
    )


@case
def additive_attention() -> Case:
    query, value = keras.Input((6, 8)), keras.Input((5, 8))
    seen = layers.AdditiveAttention()([query, value])
    both = layers.Concatenate()([query, seen])
    grouped = layers.GroupQueryAttention(4, 4, 2)(both, both)
    return keras.Model([query, value], layers.Dense(3)(grouped)), [(6, 8), (5, 8)]


@case
def mixer() -> Case:
    x = keras.Input((16, 8))
    y = layers.Permute((2, 1))(layers.LayerNormalization()(x))
    y = layers.Permute((2, 1))(layers.Dense(16, "gelu")(y))
    y = layers.Add()([x, y])
    z = layers.EinsumDense("bsd,de->bse", (16, 8), bias_axes="e", activation="silu")(y)
    return keras.Model(x, layers.GlobalAveragePooling1D()(layers.Add()([y, z]))), [(16, 8)]


@case
def normalizations() -> Case:
    return chain(
        (8, 8, 6),
        layers.SpectralNormalization(layers.Conv2D(6, 3)),
        layers.GroupNormalization(3),
        layers.PReLU(),
        layers.RMSNormalization(),
        layers.UnitNormalization(),
        layers.LeakyReLU(),
        layers.Flatten(),
        layers.Dense(4, "log_softmax"),
    )


@case
def shapes() -> Case:
    return chain(
        (8, 8, 3),
        layers.ZeroPadding2D(((1, 2), (0, 1))),
        layers.Cropping2D(1),
        layers.Resizing(12, 10),
        layers.DepthwiseConv2D(3, dilation_rate=2, activation="hard_swish"),
        layers.Reshape((-1, 3)),
        layers.GlobalMaxPooling1D(),
    )


@case
def recurrent() -> Case:
    return chain(
        (9, 5),
        layers.TimeDistributed(layers.Dense(6, "tanh")),
        layers.SimpleRNN(6, return_sequences=True),
        layers.RNN([layers.GRUCell(5), layers.LSTMCell(4)], go_backwards=True),
        layers.Dense(3, "sigmoid"),
    )


def application(name: str, size: int, **options: Any) -> None:
    def make() -> Case:
        made = getattr(keras.applications, name)
        shape = (size, size, 3)
        return made(weights=None, input_shape=shape, classes=10, **options), [shape]

    CASES[f"keras_{name.lower()}"] = make


application("NASNetMobile", 64)
application("DenseNet121", 64)
application("EfficientNetV2B0", 64)
application("ConvNeXtTiny", 64)


def write(folder: Path, name: str) -> None:
    """Save a model, its weights moved from where they start, and record what it computes."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng([1, *name.encode()])
    made, shapes = CASES[name]()
    for each in made.variables:
        if each.name in ("moving_mean", "beta", "bias"):
            each.assign(rng.normal(0, 0.1, each.shape))
        elif each.name in ("moving_variance", "gamma"):
            each.assign(rng.uniform(0.8, 1.2, each.shape))
    given = [[rng.normal(size=(BATCH, *shape)).astype("float32") for shape in shapes] for _ in "12"]
    recorded: dict[str, Any] = {}
    for call, arrays in inputs.every(*given).items():
        found = made(arrays if len(arrays) > 1 else arrays[0], training=False)
        recorded |= {f"{call}/in/{number:03}": array for number, array in enumerate(arrays)}
        recorded[f"{call}/out/"] = keras.ops.convert_to_numpy(found)
    made.save(folder / f"{name}.keras")
    np.savez(folder / f"{name}.npz", **recorded)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for each in sys.argv[2:] or CASES:
        try:
            write(out, each)
            print(each, "written", flush=True)
        except Exception as error:  # noqa: BLE001  what Keras cannot save is told
            print(each, "not saved:", str(error).splitlines()[0][:200], flush=True)
