"""mctx: a tree search with random keys."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mctx
import numpy as np

MANIFESTS = {
    "search": """
        [entry_points.search]
        function = "with_mctx:search"
        inputs.key = { shape = [], dtype = "key<fry>" }
        inputs.logits = { shape = [2, 3], dtype = "float32" }
    """
}


def search(key, logits):
    def recurrent(params, key, action, embedding):
        moved = jnp.roll(embedding, 1, axis=-1) + action[:, None]
        output = mctx.RecurrentFnOutput(
            reward=jnp.tanh(moved[:, 0]),
            discount=jnp.full(2, 0.9),
            prior_logits=jnp.cos(moved),
            value=jnp.sin(moved.sum(-1)),
        )
        return output, moved

    root = mctx.RootFnOutput(prior_logits=logits, value=logits.sum(-1), embedding=logits)
    found = mctx.gumbel_muzero_policy(None, key, root, recurrent, num_simulations=8)
    return found.action, found.action_weights, found.search_tree.summary()


def fresh_search(rng):
    key = jax.random.key(int(rng.integers(2**31)))
    return {"key": key, "logits": rng.normal(size=(2, 3)).astype(np.float32)}
