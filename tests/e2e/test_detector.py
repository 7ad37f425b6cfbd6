"""The detector from its manifest to a server: images of any height and width."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import jax
import jax_free
import numpy as np
import pytest
from jax_free import Arrays
from plain import compiled_at_each_size

from aotc_runtime import LoadedBundle
from detector.model import BOXES, CHANNELS, CLASSES, STRIDE, detect, init

SIZES = list(product((1, 2, 3, 4), repeat=2))
"""rows and columns of cells; four of them are profiles."""


def images() -> Arrays:
    random = np.random.default_rng(5)
    return {
        f"{r}x{c}": random.uniform(0, 1, (STRIDE * r, STRIDE * c, 3)).astype(np.float32)
        for r, c in SIZES
    }


@pytest.fixture(scope="module")
def expected() -> dict[str, Arrays]:
    """What plain JAX computes of each image alone, nothing masked."""
    params, function = init(), compiled_at_each_size(detect)
    return {
        name: {key: np.asarray(value) for key, value in function(params, image, real).items()}
        for name, image in images().items()
        for real in [np.ones((image.shape[0] // STRIDE, image.shape[1] // STRIDE), bool)]
    }


def detect_all(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    return {
        f"{name}/{key}": value
        for name, image in inputs.items()
        for key, value in bundle["detect"](image).items()
    }


def test_an_image_of_any_size_gives_the_boxes_and_maps_that_it_gives_by_itself(
    detector_bundle: tuple[Path, Path], tmp_path: Path, expected: dict[str, Arrays]
) -> None:
    outputs, report = jax_free.run(detect_all, detector_bundle, tmp_path, images())

    for (rows, columns), (name, wanted) in zip(SIZES, expected.items(), strict=True):
        for key, array in wanted.items():
            found = outputs[f"{name}/{key}"]
            np.testing.assert_allclose(found, array, rtol=1e-4, atol=1e-4, err_msg=f"{name} {key}")
        assert outputs[f"{name}/boxes"].shape == (BOXES, 4)
        assert outputs[f"{name}/heat"].shape == (rows, columns, CLASSES)
        assert outputs[f"{name}/edges"].shape == (8 * rows, 8 * columns, CHANNELS[0])
        assert (outputs[f"{name}/scores"] > 0).sum() == min(BOXES, rows * columns)
    paths = report["entry_points"]["detect"]["paths"]
    assert sum(each["calls"] for each in paths["exact"].values()) == 4
    assert sum(each["calls"] for each in paths["pad"].values()) == 12


def test_the_padding_of_the_image_is_not_looked_at(expected: dict[str, Arrays]) -> None:
    # Without the mask, biases of the padding would come back in through the next layer's edge.
    image = np.zeros((STRIDE * 2, STRIDE * 2, 3), np.float32)
    image[:STRIDE, :STRIDE] = images()["1x1"]
    without = jax.jit(detect)(init(), image, np.ones((2, 2), bool))
    assert not np.allclose(np.asarray(without["heat"])[:1, :1], expected["1x1"]["heat"], rtol=1e-3)
