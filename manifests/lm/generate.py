"""Greedy generation with the cache: functions jitted by JAX, or taken from a loaded bundle.

`python -m lm.generate` continues a text with plain JAX; the weights are untrained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

type Array = np.ndarray[Any, Any]


class Functions(NamedTuple):
    """The entry points of `lm.model` with their weights bound, however they were compiled.

    prefill: tokens to (logits, cache).  decode: (cache, token, position) to (logits, cache); may
    consume the cache it is given.
    """

    prefill: Callable[[Array], tuple[Any, Any]]
    decode: Callable[[Any, Array, Array], tuple[Any, Any]]


def generate_greedy(functions: Functions, prompt: Array, new_tokens: int) -> Array:
    """The likeliest next token, again and again. prompt: int32[batch, seq]; seq + new_tokens is at
    most MAX_LENGTH; returns int32[batch, new_tokens].
    """
    logits, cache = functions.prefill(prompt)
    tokens = [likeliest(logits)]
    first = prompt.shape[1]
    for position in range(first, first + new_tokens - 1):
        logits, cache = functions.decode(cache, tokens[-1], np.asarray(position, np.int32))
        tokens.append(likeliest(logits))
    return np.stack(tokens, axis=1)


def likeliest(logits: Any) -> Array:
    """Return the likeliest token, int32[batch], of float32[batch, VOCABULARY]."""
    return np.asarray(logits).argmax(axis=-1).astype(np.int32)


def encode(text: str) -> Array:
    """Return the UTF-8 bytes of a text as tokens, int32[1, bytes]."""
    return np.frombuffer(text.encode(), np.uint8).astype(np.int32)[None]


def plain_jax() -> Functions:
    """Return the functions as JAX compiles them in this process."""
    # Imported here because the loop also drives a loaded bundle, in a process without jax.
    import jax

    from lm.model import decode, init, prefill

    params = init()
    compiled_prefill = jax.jit(prefill)
    compiled_decode = jax.jit(decode, donate_argnames="cache")
    return Functions(
        prefill=lambda tokens: compiled_prefill(params, tokens),
        decode=lambda cache, token, position: compiled_decode(params, cache, token, position),
    )


if __name__ == "__main__":
    continuation = generate_greedy(plain_jax(), encode("A bundle is "), 32)
    print(bytes(continuation[0].tolist()))
