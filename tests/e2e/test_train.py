"""The training step from its manifest to a loop that never imports jax."""

from __future__ import annotations

from pathlib import Path

import jax
import jax_free
import numpy as np
import pytest
from jax_free import Arrays

from aotc_runtime import LoadedBundle
from digits.data import load_split
from train.loop import plain_jax, train

EPOCHS = 4
SEED = 7


def train_from_the_bundle(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    from train.loop import Functions, train

    functions = Functions(
        init=bundle["init"].on_device,
        train_step=bundle["train_step"].on_device,
        evaluate=bundle["evaluate"],
    )
    run = train(functions, seed=int(inputs["seed"]), epochs=int(inputs["epochs"]))
    return {
        "losses": run.losses,
        "accuracies": run.accuracies,
        "step": np.asarray(run.state["step"]),
        "kernel": np.asarray(run.state["params"]["hidden"]["kernel"]),
        "momentum": np.asarray(run.state["optimizer"][0].mu["hidden"]["kernel"]),
    }


def test_training_from_the_bundle_goes_as_training_in_plain_jax(
    train_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    inputs = {"seed": np.asarray(SEED), "epochs": np.asarray(EPOCHS)}
    outputs, report = jax_free.run(train_from_the_bundle, train_bundle, tmp_path, inputs)

    expected = train(plain_jax(), seed=SEED, epochs=EPOCHS)
    np.testing.assert_array_equal(outputs["accuracies"], expected.accuracies)
    np.testing.assert_allclose(outputs["losses"], expected.losses, rtol=1e-4)
    params = expected.state["params"]
    np.testing.assert_allclose(outputs["kernel"], params["hidden"]["kernel"], atol=1e-3)
    momentum = expected.state["optimizer"][0].mu["hidden"]["kernel"]
    np.testing.assert_allclose(outputs["momentum"], momentum, atol=1e-3)

    steps = EPOCHS * (len(load_split()[0].label) // 64)
    assert outputs["step"] == steps == expected.state["step"]
    assert outputs["accuracies"][-1] >= 0.95
    assert outputs["losses"][-1] < outputs["losses"][0] / 4
    calls = {name: entry["calls"] for name, entry in report["entry_points"].items()}
    assert calls == {
        "init": {"init": 1},
        "train_step": {"train_step[batch=64]": steps},
        "evaluate": {"evaluate[held_out=360]": EPOCHS},
    }


def init_twice(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    """The initial kernels from seeds given as an array and as a Python number."""
    return {
        "array": bundle["init"](inputs["seed"])["params"]["hidden"]["kernel"],
        "number": bundle["init"](seed=int(inputs["seed"]))["params"]["hidden"]["kernel"],
        "other": bundle["init"](1)["params"]["hidden"]["kernel"],
    }


@pytest.mark.parametrize("seed", [0, 4_294_967_295])
def test_the_seed_is_an_input_of_the_compiled_initialization(
    train_bundle: tuple[Path, Path], tmp_path: Path, seed: int
) -> None:
    from train.model import init

    inputs = {"seed": np.asarray(seed, np.uint32)}
    outputs, _ = jax_free.run(init_twice, train_bundle, tmp_path, inputs)

    expected = jax.jit(init)(np.asarray(seed, np.uint32))["params"]["hidden"]["kernel"]
    np.testing.assert_allclose(outputs["array"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outputs["array"], outputs["number"])
    assert not np.allclose(outputs["array"], outputs["other"])
