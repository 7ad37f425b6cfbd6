"""Flax linen: a network with convolutions, batch norm and a recurrent cell, and a `TrainState`."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.training.train_state import TrainState

MANIFESTS = {
    "classifier": """
        [weights.variables]
        init = "with_flax_linen:variables"

        [dimensions.batch]
        range = [1, 8]
        profiles = [1, 4]

        [entry_points.classify]
        function = "with_flax_linen:classify"
        bind = { variables = "variables" }
        inputs.image = { shape = ["batch", 10, 10, 1], dtype = "float32" }
        out_of_profile.batch = "split"
    """,
    "training": """
        [entry_points.train]
        function = "with_flax_linen:train"
        donate = ["state"]
        inputs.state = { like = "with_flax_linen:training_state" }
        inputs.image = { shape = [8, 10, 10, 1], dtype = "float32" }
        inputs.label = { shape = [8], dtype = "int32" }
        fixtures.ranges = { label = [0, 4] }
    """,
}

STATES = {"train": {"state": 1}}


class Network(nn.Module):
    @nn.compact
    def __call__(self, image, training=False):
        x = nn.Conv(8, (3, 3), use_bias=False)(image)
        x = nn.relu(nn.BatchNorm(use_running_average=not training)(x))
        x = nn.max_pool(x, (2, 2), (2, 2))
        rows = x.reshape(x.shape[0], x.shape[1], -1)
        return nn.Dense(5)(nn.RNN(nn.OptimizedLSTMCell(12))(rows)[:, -1])


class BatchNormState(TrainState):
    batch_stats: dict


def variables():
    return Network().init(jax.random.key(0), jnp.ones((1, 10, 10, 1)))


def classify(variables, image):
    return Network().apply(variables, image)


def calls_classify(rng):
    return [{"image": rng.normal(size=(n, 10, 10, 1)).astype(np.float32)} for n in (1, 2, 4, 7)]


@functools.cache
def optimizer():
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))


def training_state():
    """As `create` makes it, with a Python number for the step."""
    made = variables()
    return BatchNormState.create(
        apply_fn=None, params=made["params"], tx=optimizer(), batch_stats=made["batch_stats"]
    )


def train(state, image, label):
    def loss_of(params):
        logits, updated = Network().apply(
            {"params": params, "batch_stats": state.batch_stats},
            image,
            training=True,
            mutable=["batch_stats"],
        )
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, label)
        return losses.mean(), updated["batch_stats"]

    (loss, stats), gradients = jax.value_and_grad(loss_of, has_aux=True)(state.params)
    return loss, state.apply_gradients(grads=gradients, batch_stats=stats)


def fresh_train(rng):
    return {
        "state": training_state(),
        "image": rng.normal(size=(8, 10, 10, 1)).astype(np.float32),
        "label": rng.integers(0, 5, 8).astype(np.int32),
    }
