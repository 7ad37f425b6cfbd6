"""Flax NNX: a transformer that decodes with its cache as an argument, and a padded encoder."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from flax import nnx

MANIFESTS = {
    "decoder": """
        [weights.params]
        init = "with_flax_nnx:decoder_params"

        [entry_points.decode]
        function = "with_flax_nnx:decode"
        bind = { params = "params" }
        donate = ["cache"]
        inputs.cache = { like = "with_flax_nnx:empty_cache" }
        inputs.token = { shape = [2], dtype = "int32" }
        fixtures.ranges = { token = [0, 31] }
    """,
    "encoder": """
        [weights.params]
        init = "with_flax_nnx:encoder_params"

        [dimensions.length]
        range = [1, 8]
        profiles = [4, 8]

        [entry_points.encode]
        function = "with_flax_nnx:encode"
        bind = { params = "params" }
        inputs.tokens = { shape = [2, "length"], dtype = "int32" }
        inputs.mask = { shape = ["length"], dtype = "bool" }
        out_of_profile.length = { policy = "pad", mask = "mask" }
        fixtures.ranges = { tokens = [0, 31] }
    """,
    "training": """
        [entry_points.nnx_training]
        function = "with_flax_nnx:train"
        donate = ["state"]
        inputs.state = { like = "with_flax_nnx:training_state" }
        inputs.x = { shape = [8, 4], dtype = "float32" }
        inputs.y = { shape = [8, 1], dtype = "float32" }
    """,
}

ADDED = {"encode": ["mask"]}
STATES = {"decode": {"cache": 1}, "nnx_training": {"state": 1}}
WIDTH, LENGTH, WORDS = 16, 8, 32


class Block(nnx.Module):
    def __init__(self, rngs, decode):
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(
            num_heads=2, in_features=WIDTH, decode=decode, rngs=rngs
        )
        self.up = nnx.Linear(WIDTH, 2 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(2 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x, mask=None):
        x = x + self.attention(self.norm(x), mask=mask)
        return x + self.down(nnx.gelu(self.up(x)))


class Transformer(nnx.Module):
    def __init__(self, rngs, decode):
        self.embed = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs, decode) for _ in range(2)])
        self.out = nnx.Linear(WIDTH, WORDS, rngs=rngs)

    def __call__(self, tokens, mask=None):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.out(x)


def decoder():
    model = Transformer(nnx.Rngs(0), decode=True)
    for block in model.blocks:
        block.attention.init_cache((2, LENGTH, WIDTH))
    return model


def decoder_params():
    return nnx.state(decoder(), nnx.Param)


def empty_cache():
    return nnx.state(decoder(), nnx.Cache)


def decode(params, cache, token):
    graph, *_ = nnx.split(nnx.eval_shape(decoder), nnx.Param, nnx.Cache, ...)
    model = nnx.merge(graph, params, cache)
    logits = model(token[:, None])
    return logits[:, 0], nnx.state(model, nnx.Cache)


def fresh_decode(rng):
    return {"cache": empty_cache(), "token": rng.integers(0, WORDS, 2).astype(np.int32)}


def encoder():
    return Transformer(nnx.Rngs(1), decode=False)


def encoder_params():
    return nnx.state(encoder(), nnx.Param)


def encode(params, tokens, mask):
    """The mean over real positions."""
    model = nnx.merge(nnx.graphdef(nnx.eval_shape(encoder)), params)
    words = model(tokens, jnp.broadcast_to(mask, (tokens.shape[0], 1, 1, mask.size)))
    return jnp.sum(jnp.where(mask[:, None], words, 0), axis=1) / jnp.sum(mask)


def calls_encode(rng):
    """Of sizes between the profiles as well; plain JAX takes the mask that the loader passes."""
    return [
        {"tokens": rng.integers(0, WORDS, (2, n)).astype(np.int32), "mask": np.ones(n, bool)}
        for n in (1, 3, 4, 6, 8)
    ]


class Regression(nnx.Module):
    def __init__(self, rngs):
        first = nnx.Linear(4, 8, use_bias=False, rngs=rngs)
        self.layers = nnx.List([first, nnx.Linear(8, 1, rngs=rngs)])
        self.norm = nnx.BatchNorm(8, rngs=rngs)

    def __call__(self, x):
        return self.layers[1](nnx.relu(self.norm(self.layers[0](x))))


def trained():
    import optax

    model = Regression(nnx.Rngs(2))
    return model, nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)


def training_state():
    return nnx.state(trained())


def train(state, x, y):
    model, optimizer = nnx.merge(nnx.graphdef(trained()), state)
    loss, gradients = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    optimizer.update(model, gradients)
    return loss, nnx.state((model, optimizer))


def fresh_nnx_training(rng):
    x = rng.normal(size=(8, 4)).astype(np.float32)
    return {"state": training_state(), "x": x, "y": x[:, :1] * 2}
