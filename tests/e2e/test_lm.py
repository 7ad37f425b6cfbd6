"""The language model from its manifest to a server: greedy generation with the cache, no jax."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import jax_free
import numpy as np
import pytest
from jax_free import Arrays

from aotc_runtime import LoadedBundle
from lm.generate import generate_greedy, plain_jax
from lm.model import HEAD_WIDTH, HEADS, LAYERS, MAX_LENGTH, VOCABULARY
from lm.reference import generate_without_cache

NEW_TOKENS = 24
PROMPT_SHAPES = [(1, 16), (1, 32), (2, 16), (2, 32)]
"""batch and seq, each a profile."""


def prompts() -> Arrays:
    generator = np.random.default_rng(0)
    return {
        f"{batch}x{seq}": generator.integers(0, VOCABULARY, (batch, seq), np.int32)
        for batch, seq in PROMPT_SHAPES
    }


class Expected(NamedTuple):
    """What continues each prompt, int32[batch, NEW_TOKENS] by its name. plain_jax: as JAX compiles
    the functions here.  without_cache: by the model that computes every token from the whole text.
    """

    plain_jax: Arrays
    without_cache: Arrays


@pytest.fixture(scope="module")
def expected() -> Expected:
    """Prompts of one length are continued together, so that less is compiled: a text does not
    depend on those beside it.
    """
    found, given, functions = Expected({}, {}), prompts(), plain_jax()
    for seq in sorted({prompt.shape[1] for prompt in given.values()}):
        alike = {name: prompt for name, prompt in given.items() if prompt.shape[1] == seq}
        together = np.concatenate([*alike.values()])
        ends = np.cumsum([len(prompt) for prompt in alike.values()])[:-1]
        for texts, tokens in (
            (found.plain_jax, generate_greedy(functions, together, NEW_TOKENS)),
            (found.without_cache, generate_without_cache(together, NEW_TOKENS)),
        ):
            texts.update(zip(alike, np.split(tokens, ends), strict=True))
    return found


def generate_all(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    from lm.generate import Functions, generate_greedy

    functions = Functions(bundle["prefill"].on_device, bundle["decode"].on_device)
    new_tokens = int(inputs.pop("new_tokens"))
    return {name: generate_greedy(functions, prompt, new_tokens) for name, prompt in inputs.items()}


def test_greedy_generation_equals_plain_jax_and_the_model_without_a_cache(
    lm_bundle: tuple[Path, Path], tmp_path: Path, expected: Expected
) -> None:
    inputs = {**prompts(), "new_tokens": np.asarray(NEW_TOKENS)}
    outputs, report = jax_free.run(generate_all, lm_bundle, tmp_path, inputs)

    for name, prompt in prompts().items():
        assert outputs[name].shape == (len(prompt), NEW_TOKENS)
        for texts in expected:
            np.testing.assert_array_equal(outputs[name], texts[name], err_msg=name)
    # Texts that did not depend on the prompt would also come out of an empty cache.
    texts = [row for tokens in outputs.values() for row in tokens.tolist()]
    assert len({tuple(text) for text in texts}) == len(texts)
    assert all(len(set(text)) > 1 for text in texts)
    assert report["entry_points"]["prefill"]["calls"] == {
        f"prefill[batch={batch},seq={seq}]": 1 for batch, seq in PROMPT_SHAPES
    }
    assert report["entry_points"]["decode"]["calls"] == {
        f"decode[batch={batch}]": 2 * (NEW_TOKENS - 1) for batch in (1, 2)
    }


def watch_the_cache(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    """Generate, looking at every cache on its way and at every array copied to the host."""
    from aotc_runtime import DeviceArray, ShapeError
    from lm.generate import Functions, generate_greedy

    caches = []
    copied_shapes = []
    copy = DeviceArray.__array__

    def recording_copy(self, dtype=None, copy_=None):  # type: ignore[no-untyped-def]
        copied_shapes.append(self.shape)
        return copy(self, dtype, copy_)

    def recording_decode(cache, token, position):  # type: ignore[no-untyped-def]
        caches.append(cache)
        return bundle["decode"].on_device(cache, token, position)

    DeviceArray.__array__ = recording_copy
    functions = Functions(bundle["prefill"].on_device, recording_decode)
    tokens = generate_greedy(functions, inputs["prompt"], 8)
    leaves = [leaf for cache in caches for layer in cache for leaf in layer.values()]
    try:
        np.asarray(leaves[0])
        code = "still there"
    except ShapeError as error:
        code = error.code
    return {
        "tokens": tokens,
        "on_device": np.array([type(leaf) is DeviceArray for leaf in leaves]),
        "used_up": np.array([leaf.is_deleted for leaf in leaves]),
        "cache_shapes": np.array([leaf.shape for leaf in leaves]),
        "copied_ranks": np.array([len(shape) for shape in copied_shapes]),
        "code": np.array(code),
    }


def test_the_cache_stays_on_the_device_and_each_step_uses_up_the_one_before(
    lm_bundle: tuple[Path, Path], tmp_path: Path, expected: Expected
) -> None:
    prompt = prompts()["2x16"]
    outputs, _ = jax_free.run(watch_the_cache, lm_bundle, tmp_path, {"prompt": prompt})

    np.testing.assert_array_equal(outputs["tokens"], expected.plain_jax["2x16"][:, :8])
    assert len(outputs["on_device"]) == 7 * LAYERS * 2
    assert outputs["on_device"].all()
    assert outputs["used_up"].all()
    assert (outputs["cache_shapes"] == (2, MAX_LENGTH, HEADS, HEAD_WIDTH)).all()
    # The logits of each step, [batch, VOCABULARY], and the attempt on the used-up cache.
    assert outputs["copied_ranks"].tolist() == [2] * 8 + [4]
    assert outputs["code"] == "AOTC-E631"


def generate_through_the_host(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    from lm.generate import Functions, generate_greedy

    functions = Functions(bundle["prefill"], bundle["decode"])
    return {"tokens": generate_greedy(functions, inputs["prompt"], 8)}


@pytest.mark.parametrize("shape", ["1x16", "2x32"])
def test_a_cache_taken_to_the_host_and_back_gives_the_same_text(
    lm_bundle: tuple[Path, Path], tmp_path: Path, expected: Expected, shape: str
) -> None:
    prompt = prompts()[shape]
    outputs, _ = jax_free.run(generate_through_the_host, lm_bundle, tmp_path, {"prompt": prompt})

    np.testing.assert_array_equal(outputs["tokens"], expected.plain_jax[shape][:, :8])
