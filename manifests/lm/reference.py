"""The same model without a cache: every token is computed from the whole text before it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lm.generate import likeliest
from lm.model import MAX_LENGTH, Params, finish, init, project, unembed

type Array = np.ndarray[Any, Any]


def forward(params: Params, tokens: jax.Array) -> jax.Array:
    """Return the logits after each token, float32[batch, n, VOCABULARY], of int32[batch, n]."""
    hidden = params["embedding"][tokens]
    for layer in params["layers"].values():
        query, key, value = project(layer, hidden, jnp.arange(tokens.shape[1]))
        mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        hidden = finish(layer, hidden, mixed)
    return unembed(params, hidden)


def generate_without_cache(prompt: Array, new_tokens: int) -> Array:
    """Return what `lm.generate.generate_greedy` must return: int32[batch, new_tokens].

    prompt: int32[batch, seq].
    """
    params = init()
    compiled_forward = jax.jit(forward)
    first, last = prompt.shape[1], prompt.shape[1] + new_tokens
    # Padding to one length compiles once; causal attention never looks at what comes later.
    text = np.zeros((prompt.shape[0], MAX_LENGTH), np.int32)
    text[:, :first] = prompt
    for position in range(first, last):
        logits = compiled_forward(params, text)
        text[:, position] = likeliest(logits[:, position - 1])
    return text[:, first:last]
