"""The text encoder from its manifest to a server: texts of any length, profiles from traffic."""

from __future__ import annotations

import json
from pathlib import Path

import jax_free
import numpy as np
import pytest
from jax_free import MANIFESTS, Array, Arrays
from plain import compiled_at_each_size

import aotc_runtime
from aotc.commands.profiles.suggested_profiles import suggest
from aotc_runtime import LoadedBundle
from encoder.model import encode, init

SIZES = [(1, 16), (4, 64), (1, 1), (4, 15), (1, 17), (7, 63), (9, 40), (32, 2)]
"""batch and seq: two profiles, then padded, split, and both."""


def texts() -> Arrays:
    random = np.random.default_rng(3)
    return {f"{b}x{s}": random.integers(0, 256, (b, s), np.int32) for b, s in SIZES}


@pytest.fixture(scope="module")
def expected() -> dict[str, Arrays]:
    """What plain JAX computes at exactly these sizes, nothing masked."""
    params, function = init(), compiled_at_each_size(encode)
    return {
        name: {
            key: np.asarray(value)
            for key, value in function(params, tokens, np.ones(tokens.shape, bool)).items()
        }
        for name, tokens in texts().items()
    }


def encode_all(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    return {
        f"{name}/{key}": value
        for name, tokens in inputs.items()
        for key, value in bundle["encode"](tokens).items()
    }


def test_texts_of_any_number_and_length_are_encoded_as_by_plain_jax_at_their_length(
    encoder_bundle: tuple[Path, Path], tmp_path: Path, expected: dict[str, Arrays]
) -> None:
    outputs, report = jax_free.run(encode_all, encoder_bundle, tmp_path, texts())

    for name, wanted in expected.items():
        for key, array in wanted.items():
            found: Array = outputs[f"{name}/{key}"]
            np.testing.assert_allclose(found, array, rtol=1e-4, atol=1e-5, err_msg=name)
    found_paths = {
        path: {label: each["calls"] for label, each in labels.items() if each["calls"]}
        for path, labels in report["entry_points"]["encode"]["paths"].items()
    }
    assert found_paths == {
        "exact": {"encode[batch=1,seq=16]": 1, "encode[batch=4,seq=64]": 1},
        "pad": {
            "encode[batch=1,seq=16]": 1,
            "encode[batch=1,seq=64]": 1,
            "encode[batch=4,seq=16]": 1,
        },
        "split": {"encode[batch=4,seq=16]": 1, "encode[batch=4,seq=64]": 2},
        "compiled": {},
    }
    # 7 is 4 and three times 1; 9 is 4, 4 and 1; 32 is eight times 4.
    assert report["entry_points"]["encode"]["splits"] == {"calls": 3, "parts": 4 + 3 + 8}


def test_the_encoder_tells_texts_apart(expected: dict[str, Arrays]) -> None:
    vectors = np.concatenate([each["text"] for each in expected.values()])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    alike = vectors @ vectors.T - np.eye(len(vectors))
    assert alike.max() < 0.999


def test_what_a_server_reports_goes_straight_into_the_choice_of_profiles(
    encoder_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    random = np.random.default_rng(4)
    path, trust = encoder_bundle
    lengths = np.clip(random.lognormal(2.2, 0.7, 150), 1, 64).astype(int)
    with aotc_runtime.load(path, trust=trust) as bundle:
        for seq in lengths.tolist():
            bundle["encode"](np.zeros((1, seq), np.int32))
        log = tmp_path / "report.json"
        log.write_text(json.dumps(bundle.report()))
        padding = bundle.report()["entry_points"]["encode"]["padding"]
    found = suggest(MANIFESTS / "encoder.toml", log, most=4)
    assert found.accepted.counts.sum() == len(lengths) and not found.outside
    assert found.today.covered == found.served.covered == len(lengths)
    assert found.served.padded_cost < 0.75 * found.today.padded_cost
    (batches,) = {profile["batch"] for profile in found.profiles}
    assert batches == 1, "nothing else was asked for"
    assert padding["calls"] == sum(seq not in (16, 64) for seq in lengths.tolist())
