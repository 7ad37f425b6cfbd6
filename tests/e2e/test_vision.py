"""The vision example from its manifest to a server: a deep network with an Equinox tree, no jax."""

from __future__ import annotations

from pathlib import Path

import jax
import jax_free
import numpy as np
import pytest
from jax_free import Array, Arrays
from operations import operation_paths

from aotc_runtime import LoadedBundle
from vision.model import init, predict

CONVOLUTIONS = 21


def pictures() -> Array:
    """Four images that differ in color, brightness and pattern: float32[4, 32, 32, 3]."""
    generator = np.random.default_rng(1)
    ramp = np.linspace(0, 1, 32)
    images = np.stack(
        [
            generator.uniform(0, 1, (32, 32, 3)),
            np.ones((32, 1, 1)) * ramp[:, None] * np.array([1.0, 0.2, 0.0]),
            np.full((32, 32, 3), [0.1, 0.2, 0.9]),
            np.where(np.indices((32, 32)).sum(0) // 4 % 2, 1.0, 0.0)[..., None] * np.ones(3),
        ]
    )
    return images.astype(np.float32)


@pytest.fixture(scope="module")
def expected() -> Arrays:
    """What plain JAX predicts."""
    prediction = jax.jit(predict)(init(), pictures())
    return {name: np.asarray(value) for name, value in prediction.items()}


def classify(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    """All images at once, and then one by one."""
    predict, image = bundle["predict"], inputs["image"]
    single = [predict(image=image[index : index + 1]) for index in range(len(image))]
    return {
        **predict(image),
        "single_label": np.concatenate([prediction["label"] for prediction in single]),
        "single_probabilities": np.concatenate([p["probabilities"] for p in single]),
    }


def test_the_bundle_classifies_as_plain_jax_does_in_batches_and_one_by_one(
    vision_bundle: tuple[Path, Path], tmp_path: Path, expected: Arrays
) -> None:
    outputs, report = jax_free.run(classify, vision_bundle, tmp_path, {"image": pictures()})

    for prefix in ("", "single_"):
        np.testing.assert_array_equal(outputs[f"{prefix}label"], expected["label"])
        np.testing.assert_allclose(
            outputs[f"{prefix}probabilities"], expected["probabilities"], rtol=1e-4, atol=1e-6
        )
    assert outputs["label"].dtype == np.int32
    assert report["entry_points"]["predict"]["calls"] == {
        "predict[batch=1]": 4,
        "predict[batch=4]": 1,
    }


def test_the_network_tells_the_pictures_apart(expected: Arrays) -> None:
    probabilities = expected["probabilities"]
    for first in range(len(probabilities)):
        for second in range(first):
            assert np.abs(probabilities[first] - probabilities[second]).max() > 0.01
    assert probabilities.max() < 0.99


def test_the_programs_in_the_bundle_are_deep_convolutional_networks(
    vision_bundle: tuple[Path, Path],
) -> None:
    programs = operation_paths(vision_bundle[0], "predict")

    assert [operations["convolution"] for operations in programs] == [CONVOLUTIONS] * 2


def test_the_weights_are_the_arrays_of_the_equinox_tree_and_nothing_else() -> None:
    leaves = jax.tree.leaves(init())

    assert all(isinstance(leaf, jax.Array) for leaf in leaves)
    assert sum(leaf.ndim == 4 for leaf in leaves) == CONVOLUTIONS
