"""A token at a time with a cache that grows: compiled for a few lengths, exact at each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_programs import compiled_at_each_size
from small_programs import build_signed

import aotc_runtime
from aotc_runtime import DeviceArray, LoadedBundle

PROGRAM = """\
import jax
import jax.numpy as jnp
import numpy as np

WIDTH, VOCABULARY = 16, 64


def init():
    random = np.random.default_rng(0)
    normal = lambda *shape: random.normal(size=shape).astype(np.float32) / shape[0] ** 0.5
    return {"embedding": normal(VOCABULARY, WIDTH) * 8, "qkv": normal(WIDTH, 3 * WIDTH),
            "out": normal(WIDTH, VOCABULARY)}


def step(params, keys, values, token, length):
    \"\"\"Read a token after `length` others. keys, values: float32[batch, length, WIDTH].\"\"\"
    hidden = params["embedding"][token]
    query, key, value = jnp.split(hidden @ params["qkv"], 3, axis=1)

    def grown(past, new):
        room = jnp.concatenate([past, jnp.zeros_like(past[:, :1])], axis=1)
        room = jax.lax.dynamic_update_slice(room, new[:, None], (0, length, 0))
        return jnp.where((jnp.arange(room.shape[1]) <= length)[:, None], room, 0)

    keys, values = grown(keys, key), grown(values, value)
    scores = jnp.einsum("bw,bsw->bs", query, keys) / WIDTH**0.5
    there = jnp.arange(keys.shape[1]) <= length
    attention = jax.nn.softmax(jnp.where(there, scores, -jnp.inf))
    mixed = hidden + jnp.einsum("bs,bsw->bw", attention, values)
    return jnp.argmax(mixed @ params["out"], axis=1).astype(jnp.int32), keys, values
"""

MANIFEST = """\
schema = 1
name = "cache"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]

[weights.params]
init = "program:init"

[dimensions.batch]
range = [1, 4]
profiles = [2]

[dimensions.past]
range = [1, 16]
profiles = [4, 8, 16]

[entry_points.step]
function = "program:step"
bind = { params = "params" }
inputs.keys = { shape = ["batch", "past", 16], dtype = "float32" }
inputs.values = { shape = ["batch", "past", 16], dtype = "float32" }
inputs.token = { shape = ["batch"], dtype = "int32" }
inputs.length = { shape = [], dtype = "int32" }
out_of_profile.past = { policy = "pad", length = "length" }
[entry_points.step.fixtures]
ranges = { token = [0, 63] }
"""


PROMPT = np.array([[7, 3], [1, 60]], np.int32)
"""int32[tokens, batch]."""
TOKENS = 15


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build_signed(tmp_path_factory.mktemp("cache"), "cache", PROGRAM, MANIFEST)


Step = Callable[[Any, Any, Any], tuple[Any, Any, Any]]


def generate(step: Step, first: tuple[Any, Any]) -> list[list[int]]:
    """Greedy: the tokens after PROMPT. step: (keys, values, token); first: keys and values of the
    prompt's first token.
    """
    (keys, values), token, tokens = first, PROMPT[1], []
    for _ in range(TOKENS):
        token, keys, values = step(keys, values, token)
        tokens.append(np.asarray(token).tolist())
    return tokens


@pytest.fixture(scope="module")
def program(built: tuple[Path, Path]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(PROGRAM, names)
    return names


@pytest.fixture(scope="module")
def first(program: dict[str, Any]) -> tuple[Any, Any]:
    """The keys and values of the prompt's first token, float32[2, 1, WIDTH]."""
    params = program["init"]()
    _, key, value = np.split(params["embedding"][PROMPT[0]] @ params["qkv"], 3, axis=1)
    return key[:, None], value[:, None]


@pytest.fixture(scope="module")
def exact(program: dict[str, Any], first: tuple[Any, Any]) -> list[list[int]]:
    """What plain JAX generates, compiled for every length of the cache."""
    params, step = program["init"](), compiled_at_each_size(program["step"])
    return generate(
        lambda keys, values, token: step(params, keys, values, token, keys.shape[1]), first
    )


@pytest.fixture
def bundle(built: tuple[Path, Path]) -> Any:
    with aotc_runtime.load(built[0], trust=built[1]) as bundle:
        yield bundle


def test_tokens_equal_plain_jax_at_every_length_through_three_buckets(
    bundle: LoadedBundle, first: tuple[Any, Any], exact: list[list[int]]
) -> None:
    assert generate(bundle["step"], first) == exact
    assert len({tuple(tokens) for tokens in exact}) > TOKENS // 3, "no loop of a few tokens"
    paths = bundle.report()["entry_points"]["step"]["paths"]
    padded = {label: each["calls"] for label, each in paths["pad"].items() if each["calls"]}
    # Lengths 1 to 15: those of a profile are served as they are.
    assert padded == {
        "step[batch=2,past=4]": 3,
        "step[batch=2,past=8]": 3,
        "step[batch=2,past=16]": 7,
    }


def test_the_cache_may_stay_on_the_device(
    bundle: LoadedBundle, first: tuple[Any, Any], exact: list[list[int]]
) -> None:
    lengths: list[int] = []

    def step(keys: Any, values: Any, token: Any) -> tuple[Any, Any, Any]:
        result = bundle["step"].on_device(keys, values, token)
        assert all(isinstance(each, DeviceArray) for each in result)
        lengths.append(result[1].shape[1])
        return result

    assert generate(step, first) == exact
    assert lengths == list(range(2, TOKENS + 2)), "a place for every token, none for the padding"
