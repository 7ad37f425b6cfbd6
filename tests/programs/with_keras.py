"""Keras: an image classifier of its applications, and a training step with dropout and norms."""

from __future__ import annotations

import keras
import numpy as np

ENVIRONMENT = {"KERAS_BACKEND": "jax"}

MANIFESTS = {
    "mobilenet": """
        [weights.weights]
        init = "with_keras:mobilenet_weights"

        [entry_points.mobilenet]
        function = "with_keras:mobilenet"
        bind = { weights = "weights" }
        inputs.image = { shape = [2, 32, 32, 3], dtype = "float32" }
    """,
    "training": """
        [entry_points.training]
        function = "with_keras:training"
        donate = ["state"]
        inputs.state = { like = "with_keras:training_state" }
        inputs.image = { shape = [8, 12, 12, 1], dtype = "float32" }
        inputs.label = { shape = [8], dtype = "int32" }
        fixtures.ranges = { label = [0, 9] }
    """,
}

STATES = {"training": {"state": 1}}

keras.utils.set_random_seed(0)
MOBILENET = keras.applications.MobileNet(
    input_shape=(32, 32, 3), alpha=0.25, weights=None, classes=10
)
NETWORK = keras.Sequential(
    [
        keras.Input((12, 12, 1)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(10),
    ]
)
OPTIMIZER = keras.optimizers.Adam(1e-2)
OPTIMIZER.build(NETWORK.trainable_variables)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def mobilenet_weights():
    return {
        "trainable": [variable.value for variable in MOBILENET.trainable_variables],
        "fixed": [variable.value for variable in MOBILENET.non_trainable_variables],
    }


def mobilenet(weights, image):
    outputs, _ = MOBILENET.stateless_call(
        weights["trainable"], weights["fixed"], image, training=False
    )
    return outputs


def fresh_mobilenet(rng):
    return {"image": rng.normal(size=(2, 32, 32, 3)).astype(np.float32)}


def training_state():
    """Trainable variables, others, and those of the optimizer."""
    return tuple(
        [variable.value for variable in variables]
        for variables in (
            NETWORK.trainable_variables,
            NETWORK.non_trainable_variables,
            OPTIMIZER.variables,
        )
    )


def training(state, image, label):
    import jax

    trainable, others, optimizer = state

    def loss_of(trainable):
        logits, updated = NETWORK.stateless_call(trainable, others, image, training=True)
        return LOSS(label, logits), updated

    (loss, others), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable)
    trainable, optimizer = OPTIMIZER.stateless_apply(optimizer, gradients, trainable)
    return loss, (trainable, others, optimizer)


def fresh_training(rng):
    return {
        "state": training_state(),
        "image": rng.normal(size=(8, 12, 12, 1)).astype(np.float32),
        "label": rng.integers(0, 10, 8).astype(np.int32),
    }
