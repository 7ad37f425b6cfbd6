"""Writes models of Keras and TensorFlow as `.onnx` by tf2onnx, with inputs and their results.

    PYTHON_WITH_TENSORFLOW tests/frontends/onnx_files/export_tensorflow.py FOLDER [NAME…]

It needs TensorFlow and tf2onnx, and nothing of aotc. Weights are random.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf2onnx
from keras import layers

IMAGE = (32, 32, 3)


def convolutional() -> Any:
    image = keras.Input(IMAGE)
    x = layers.Conv2D(8, 3, strides=2, padding="same")(image)
    x = layers.BatchNormalization()(x)
    x = layers.DepthwiseConv2D(3, padding="same", activation="relu6")(x)
    x = layers.UpSampling2D(2, interpolation="bilinear")(layers.MaxPooling2D(2)(x))
    x = layers.Conv2DTranspose(4, 3, strides=2, padding="same")(x)
    return keras.Model(image, layers.Dense(5, "softmax")(layers.GlobalAveragePooling2D()(x)))


def recurrent(layer: Any) -> Callable[[], Any]:
    def make() -> Any:
        x = keras.Input((7, 4))
        made = layers.Bidirectional(layer(5, return_sequences=True))(x)
        return keras.Model(x, layers.Dense(3)(layer(6)(made)))

    return make


def attention() -> Any:
    tokens = keras.Input((9,), dtype="int32")
    x = layers.Embedding(50, 16)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
    return keras.Model(tokens, layers.Dense(3, "elu")(layers.GlobalMaxPooling1D()(x)))


def shared() -> Any:
    one, other = keras.Input((6,)), keras.Input((6,))
    both = layers.Dense(4, "tanh")
    return keras.Model([one, other], layers.Dot(-1, normalize=True)([both(one), both(other)]))


def application(name: str) -> Callable[[], Any]:
    return lambda: getattr(keras.applications, name)(weights=None, input_shape=IMAGE, classes=7)


class Loop(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])
    def __call__(self, x: Any) -> Any:
        for _ in tf.range(tf.shape(x)[1]):
            x = tf.tanh(x) * 1.5 + tf.reduce_mean(x, 0, keepdims=True)
        return tf.where(x > 0, tf.math.cumsum(x, 1), tf.gather(x, [3, 2, 1, 0], axis=1))


class Branch(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([3, 4], tf.float32, "x")])
    def __call__(self, x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.softmax(x), lambda: x * 2)


MODELS: dict[str, Callable[[], Any]] = {
    "convolutional": convolutional,
    "lstm": recurrent(layers.LSTM),
    "gru": recurrent(layers.GRU),
    "attention": attention,
    "shared": shared,
    "mobilenet": application("MobileNetV2"),
    "resnet": application("ResNet50V2"),
    "loop": Loop,
    "branch": Branch,
}


def main() -> None:
    """Export what is named, or all."""
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    for name in names or MODELS:
        model = MODELS[name]()
        if isinstance(model, keras.Model):
            specs = [tf.TensorSpec(x.shape, x.dtype, f"x{i}") for i, x in enumerate(model.inputs)]

            @tf.function(input_signature=specs)
            def call(*given: Any, model: Any = model) -> Any:
                return model(list(given) if len(given) > 1 else given[0], training=False)
        else:
            call = model.__call__
        given = []
        for spec in call.input_signature:
            shape = [size or 3 for size in spec.shape]
            whole = spec.dtype.is_integer
            array = random.integers(0, 50, shape) if whole else random.normal(size=shape)
            given.append(array.astype(spec.dtype.as_numpy_dtype))
        made, _ = tf2onnx.convert.from_function(call, call.input_signature, opset=18)
        (folder / f"tf_{name}.onnx").write_bytes(made.SerializeToString())
        arrays = {f"input{i}": array for i, array in enumerate(given)}
        found = call(*map(tf.constant, given))
        np.savez(folder / f"tf_{name}.npz", **arrays, result0=found.numpy())
        print(f"{name}: exported", flush=True)


if __name__ == "__main__":
    main()
