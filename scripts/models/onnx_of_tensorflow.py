"""Writes models of Keras and TensorFlow as `.onnx` by tf2onnx, with inputs and their results.

    PYTHON_WITH_TENSORFLOW -m scripts.models.onnx_of_tensorflow FOLDER [NAME…]

It needs TensorFlow and tf2onnx, and nothing of aotc. Models of Keras are those of
`keras_models.py`; weights are random.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf2onnx

from scripts.models.keras_models import MODELS

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


@tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])
def loop(x: Any) -> Any:
    for _ in tf.range(tf.shape(x)[1]):
        x = tf.tanh(x) * 1.5 + tf.reduce_mean(x, 0, keepdims=True)
    return tf.where(x > 0, tf.math.cumsum(x, 1), tf.gather(x, [3, 2, 1, 0], axis=1))


@tf.function(input_signature=[tf.TensorSpec([3, 4], tf.float32, "x")])
def branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.softmax(x), lambda: x * 2)


FUNCTIONS = {"loop": loop, "branch": branch}
KERAS = (
    *("residual", "lstm", "gru", "bidirectional", "masked", "towers", "unet"),
    *("mobilenet_v2", "resnet50"),
)


def of_keras(name: str) -> tuple[Any, list[Any]]:
    """Return a model of `keras_models` as a function, and its inputs."""
    model, given = MODELS[name](np.random.default_rng(0))
    specs = [tf.TensorSpec(x.shape, x.dtype, f"x{i}") for i, x in enumerate(model.inputs)]

    @tf.function(input_signature=specs)
    def call(*arrays: Any) -> Any:
        return model(list(arrays) if len(arrays) > 1 else arrays[0], training=False)

    return call, [*given.values()]


def main() -> None:
    """Export what is named, or all."""
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(0)
    for name in names or (*KERAS, *FUNCTIONS):
        call, given = (FUNCTIONS[name], [X]) if name in FUNCTIONS else of_keras(name)
        made, _ = tf2onnx.convert.from_function(call, call.input_signature, opset=18)
        (folder / f"tf_{name}.onnx").write_bytes(made.SerializeToString())
        arrays = {f"input{i}": array for i, array in enumerate(given)}
        found = tf.nest.flatten(call(*map(tf.constant, given)))
        arrays |= {f"result{i}": each.numpy() for i, each in enumerate(found)}
        np.savez(folder / f"tf_{name}.npz", **arrays)
        print(f"{name}: exported", flush=True)


if __name__ == "__main__":
    main()
