"""`python -m scripts.models.saved_models FOLDER`: SavedModels, and inputs for them.

Each is a folder NAME with NAME.json (signature, profiles) and NAME.npz (inputs) beside it; those
whose name begins with `refused_` cannot be exported.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from tensorflow.python.trackable import resource

F32 = tf.float32
BATCHES = [{"batch": 1}, {"batch": 4}]
MODELS: dict[
    str, Callable[[Path, Any], tuple[str | None, list[dict[str, int]], dict[str, Any]]]
] = {}


def model(function: Any) -> Any:
    MODELS[function.__name__] = function
    return function


def spec(shape: list[int | None], dtype: Any = F32, name: str = "x") -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype, name)


@model
def keras_export(path, rng):
    made = keras.Sequential(
        [
            keras.Input((8, 8, 3), name="image"),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(5, "softmax"),
        ]
    )
    made.export(path, verbose=False)
    return None, BATCHES, {"image": rng.normal(size=(4, 8, 8, 3)).astype("float32")}


@model
def keras_text(path, rng):
    tokens = keras.Input((12,), dtype="int32", name="tokens")
    x = layers.Embedding(40, 8, mask_zero=True)(tokens)
    x = layers.LSTM(6, return_sequences=True)(x)
    x = layers.GlobalAveragePooling1D()(layers.MultiHeadAttention(2, 4)(x, x))
    keras.Model(tokens, layers.Dense(3)(x)).export(path, verbose=False)
    given = rng.integers(1, 40, (4, 12)).astype("int32")
    given[1, 5:] = 0
    return None, BATCHES, {"tokens": given}


class Several(tf.Module):
    """An encoder and a decoder over shared variables."""

    def __init__(self, rng):
        super().__init__(name="several")
        self.matrix = tf.Variable(rng.normal(size=(6, 4)), dtype=F32, name="matrix")
        self.bias = tf.Variable(rng.normal(size=4), dtype=F32, name="bias")

    @tf.function(input_signature=[spec([None, 6])])
    def encode(self, x):
        return {"code": tf.nn.gelu(x @ self.matrix + self.bias)}

    @tf.function(input_signature=[spec([None, 4], name="code")])
    def decode(self, code):
        y = tf.matmul(code - self.bias, self.matrix, transpose_b=True)
        return {"image": y, "norm": tf.norm(y, axis=1)}


def _several(path, rng, signature):
    made = Several(np.random.default_rng(7))
    signatures = {"encode": made.encode, "decode": made.decode}
    tf.saved_model.save(made, str(path), signatures=signatures)
    name, size = ("x", 6) if signature == "encode" else ("code", 4)
    return signature, BATCHES, {name: rng.normal(size=(4, size)).astype("float32")}


@model
def several_encode(path, rng):
    return _several(path, rng, "encode")


@model
def several_decode(path, rng):
    return _several(path, rng, "decode")


def save(path, function, **captured):
    made = tf.Module()
    for name, value in captured.items():
        setattr(made, name, value)
    made.call = function
    tf.saved_model.save(made, str(path), signatures=function)


@model
def control_flow(path, rng):
    table = tf.Variable(rng.normal(size=(5, 5)), dtype=F32, name="table")

    @tf.function(input_signature=[spec([None, 5]), spec([], tf.int32, "steps")])
    def call(x, steps):
        while steps > 0:
            x = tf.tanh(x @ table)
            steps -= 1
        return {"y": tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x - 1.0)}

    save(path, call, table=table)
    given = {"x": rng.normal(size=(4, 5)).astype("float32"), "steps": np.int32(3)}
    return None, BATCHES, given


@model
def hub_like(path, rng):
    """A text encoder as TF-Hub has them: dict in, dict out, tied embeddings, large constants."""
    words = tf.Variable(rng.normal(size=(50, 8)), dtype=F32, name="encoder/embeddings")
    positions = tf.constant(rng.normal(size=(64, 8)), F32)

    @tf.function(
        input_signature=[
            spec([None, None], tf.int32, "input_word_ids"),
            spec([None, None], tf.int32, "input_mask"),
        ]
    )
    def call(input_word_ids, input_mask):
        x = tf.gather(words, input_word_ids) + positions[: tf.shape(input_word_ids)[1]]
        scores = tf.einsum("bid,bjd->bij", x, x) / 3.0
        scores += (1.0 - tf.cast(input_mask[:, None, :], F32)) * -1e9
        x = tf.nn.softmax(scores) @ x
        logits = tf.matmul(x, words, transpose_b=True)
        top = tf.math.top_k(logits[:, 0], 3)
        return {"pooled": x[:, 0], "logits": logits, "top": top.indices}

    save(path, call, words=words)
    profiles = [
        {"batch": b, "input_word_ids_1": s, "input_mask_1": s} for b, s in ((1, 6), (2, 6), (2, 10))
    ]
    mask = np.ones((2, 10), "int32")
    mask[1, 4:] = 0
    given = {"input_word_ids": rng.integers(0, 50, (2, 10)).astype("int32"), "input_mask": mask}
    return None, profiles, given


@model
def images(path, rng):
    """Resizing, normalization of the image, and types that are not float32."""

    @tf.function(input_signature=[spec([None, 12, 10, 3], tf.uint8, "image")])
    def call(image):
        x = tf.image.resize(tf.cast(image, F32) / 255.0, (8, 8))
        x = (x - tf.reduce_mean(x, [1, 2], keepdims=True)) / tf.math.reduce_std(x)
        half = tf.cast(x, tf.float16)
        return {"x": x, "half": half, "bright": x[..., 0] > 0, "where": tf.argmax(x, 1, tf.int32)}

    save(path, call)
    return None, BATCHES, {"image": rng.integers(0, 256, (4, 12, 10, 3)).astype("uint8")}


@model
def mobilenet(path, rng):
    made = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=10)
    made.export(path, verbose=False)
    return None, [{"batch": 2}], {"keras_tensor": rng.normal(size=(2, 32, 32, 3)).astype("float32")}


@model
def refused_texts(path, rng):
    @tf.function(input_signature=[spec([None], tf.string, "text")])
    def call(text):
        return {"length": tf.strings.length(text)}

    save(path, call)
    return None, BATCHES, {}


@model
def refused_table(path, rng):
    keys = tf.constant([1, 2, 3], tf.int64)
    filled = tf.lookup.KeyValueTensorInitializer(keys, tf.constant([10.0, 20.0, 30.0]))
    table = tf.lookup.StaticHashTable(filled, 0.0)

    @tf.function(input_signature=[spec([None], tf.int64, "key")])
    def call(key):
        return {"value": table.lookup(key)}

    save(path, call, table=table)
    return None, BATCHES, {}


@model
def refused_by_tensorflow(path, rng):
    @tf.function(input_signature=[spec([None, 12, 12, 3])])
    def call(x):
        return {"y": tf.image.resize(x, (8, 8), antialias=True)}

    save(path, call)
    return None, BATCHES, {}


@model
def refused_state(path, rng):
    count = tf.Variable(0.0, name="count")

    @tf.function(input_signature=[spec([None])])
    def call(x):
        count.assign_add(1.0)
        return {"y": x + count}

    save(path, call, count=count)
    return None, BATCHES, {}


@model
def refused_random(path, rng):
    @tf.function(input_signature=[spec([None])])
    def call(x):
        return {"y": x + tf.random.normal(tf.shape(x))}

    save(path, call)
    return None, BATCHES, {}


@model
def refused_unique(path, rng):
    @tf.function(input_signature=[spec([None])])
    def call(x):
        return {"y": tf.unique(x)[0]}

    save(path, call)
    return None, BATCHES, {}


@model
def refused_python(path, rng):
    @tf.function(input_signature=[spec([None])])
    def call(x):
        return {"y": tf.numpy_function(np.sin, [x], F32)}

    save(path, call)
    return None, BATCHES, {}


class _Written(resource.TrackableResource):
    """Writes a file while its model is loaded."""

    def _create_resource(self):
        return tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64)

    def _initialize(self):
        tf.io.write_file("/tmp/aotc-written-while-loading", "text")


@model
def refused_file(path, rng):
    @tf.function(input_signature=[spec([None])])
    def call(x):
        return {"y": x}

    written = _Written()
    assert written.resource_handle is not None
    save(path, call, written=written)
    return None, BATCHES, {}


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        keras.utils.clear_session()
        keras.utils.set_random_seed(1)
        generator = np.random.default_rng([1, *name.encode()])
        signature, profiles, given = MODELS[name](out / name, generator)
        described = json.dumps({"signature": signature, "profiles": profiles})
        (out / f"{name}.json").write_text(described, encoding="utf-8")
        np.savez(out / f"{name}.npz", **given)
        print(name, flush=True)
