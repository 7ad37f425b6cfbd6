"""The digits example from its manifest to a server: real images, without jax."""

from __future__ import annotations

from pathlib import Path

import jax
import jax_free
import numpy as np
import pytest
from jax_free import Arrays
from safetensors.numpy import load_file

from aotc_runtime import LoadedBundle
from digits.data import Examples, load_split
from digits.model import Params, predict


@pytest.fixture(scope="module")
def held_out() -> Examples:
    return load_split()[1]


@pytest.fixture(scope="module")
def expected(held_out: Examples) -> Arrays:
    """What plain JAX predicts for the held-out images."""
    params: Params = {}
    for name, tensor in load_file(jax_free.MANIFESTS / "digits" / "params.safetensors").items():
        layer, part = name.split("/")
        params.setdefault(layer, {})[part] = tensor
    prediction = jax.jit(predict)(params, held_out.image, temperature=1.0)
    return {name: np.asarray(value) for name, value in prediction.items()}


def classify(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    """Label all images, in the largest batches that there are profiles for."""
    predict, image = bundle["predict"], inputs["image"]
    predictions = []
    while len(image):
        size = next(size for size in (64, 8, 1) if size <= len(image))
        predictions.append(predict(image[:size]))
        image = image[size:]
    return {
        name: np.concatenate([prediction[name] for prediction in predictions])
        for name in ("label", "probabilities")
    }


def test_the_bundle_classifies_held_out_images_as_well_as_plain_jax(
    digits_bundle: tuple[Path, Path], tmp_path: Path, held_out: Examples, expected: Arrays
) -> None:
    outputs, report = jax_free.run(classify, digits_bundle, tmp_path, {"image": held_out.image})

    assert np.mean(outputs["label"] == held_out.label) >= 0.97
    np.testing.assert_array_equal(outputs["label"], expected["label"])
    np.testing.assert_allclose(
        outputs["probabilities"], expected["probabilities"], rtol=1e-5, atol=1e-6
    )
    assert outputs["label"].dtype == np.int32
    assert outputs["probabilities"].dtype == np.float32
    assert report["entry_points"]["predict"]["calls"] == {
        "predict[batch=1]": 0,
        "predict[batch=8]": 5,
        "predict[batch=64]": 5,
    }


def call_both_ways(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    predict, image = bundle["predict"], inputs["image"]
    return {
        "positional": predict(image)["probabilities"],
        "keyword": predict(image=image)["probabilities"],
        "fortran_order": predict(np.asfortranarray(image))["probabilities"],
    }


def test_arguments_are_positional_or_keyword_as_the_function_takes_them(
    digits_bundle: tuple[Path, Path], tmp_path: Path, held_out: Examples, expected: Arrays
) -> None:
    image = held_out.image[:8]
    outputs, _ = jax_free.run(call_both_ways, digits_bundle, tmp_path, {"image": image})

    for probabilities in outputs.values():
        np.testing.assert_allclose(
            probabilities, expected["probabilities"][:8], rtol=1e-5, atol=1e-6
        )


def call_wrongly(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    """The refusal of each wrong call: its code and what it expected."""
    import aotc_runtime

    predict, image = bundle["predict"], inputs["image"]
    wrong_calls = {
        "batch": lambda: predict(image[:3]),
        "width": lambda: predict(image[:1, :63]),
        "dtype": lambda: predict(image[:1].astype(np.float64)),
        "keyword": lambda: predict(picture=image[:1]),
        "missing": lambda: predict(),
        "static": lambda: predict(image[:1], temperature=2.0),
    }
    refusals = {}
    for name, call in wrong_calls.items():
        try:
            call()
        except aotc_runtime.ShapeError as error:
            refusals[name] = np.array([error.code, error.findings[0].expected])
    return refusals


def test_a_call_that_no_profile_serves_is_refused_with_its_code(
    digits_bundle: tuple[Path, Path], tmp_path: Path, held_out: Examples
) -> None:
    outputs, report = jax_free.run(call_wrongly, digits_bundle, tmp_path, {"image": held_out.image})

    assert {name: code for name, (code, _) in outputs.items()} == {
        "batch": "AOTC-E611",
        "width": "AOTC-E612",
        "dtype": "AOTC-E606",
        "keyword": "AOTC-E601",
        "missing": "AOTC-E601",
        "static": "AOTC-E601",
    }
    expected = outputs["batch"][1]
    assert all(profile in expected for profile in ("batch=1", "batch=8", "batch=64", "fail"))
    assert report["entry_points"]["predict"]["refusals"] == {
        "AOTC-E601": 3,
        "AOTC-E606": 1,
        "AOTC-E611": 1,
        "AOTC-E612": 1,
    }
    assert sum(report["entry_points"]["predict"]["calls"].values()) == 0
