"""The Gaussian process from its manifest to a server: LAPACK, loops, branches and random keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import jax_free
import numpy as np
import pytest
from click.testing import CliRunner
from jax_free import HERE, Array, Arrays, Outcome, Server
from operations import operation_paths
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from aotc.cli.command_group import cli
from aotc_runtime import LoadedBundle
from gp.data import NOISE, observe, truth
from gp.model import Fit, fit, predict, robust_cholesky, sample

POINTS = [32, 64]
QUERIES = 16
KEYS = {"key": 3, "other_key": 4}


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def problem(points: int) -> Arrays:
    """Observations that no fixture has, and where to ask."""
    generator = np.random.default_rng(points)
    x = generator.uniform(-2, 2, (points, 2))
    y = truth(x) + NOISE * generator.standard_normal(points)
    keys = {name: key_data(seed) for name, seed in KEYS.items()}
    return {"x": x, "y": y, "queries": generator.uniform(-2, 2, (QUERIES, 2)), **keys}


def key_data(seed: int) -> Array:
    return np.asarray(jax.random.key_data(jax.random.key(seed)))


def regress(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    """Fit each problem, and use the fit where it lies: on the device."""

    def solved(x: Array, y: Array, queries: Array, key: Array, other_key: Array) -> Arrays:
        fit = bundle["fit"].on_device(x, y)
        return {
            **bundle["predict"](fit, queries),
            "draws": bundle["sample"](fit, queries, key),
            "same_draws": bundle["sample"](fit, x=queries, key=key),
            "other_draws": bundle["sample"](fit, queries, other_key),
            "hyperparameters": np.array([np.asarray(value) for value in fit["hyperparameters"]]),
            "amplitude": np.asarray(fit["hyperparameters"].amplitude),
            "log_likelihood": np.asarray(fit["log_likelihood"]),
            "iterations": np.asarray(fit["iterations"]),
        }

    problems: dict[str, Arrays] = {}
    for name, array in inputs.items():
        points, _, argument = name.partition("/")
        problems.setdefault(points, {})[argument] = array
    return {
        f"{points}/{name}": array
        for points, problem in problems.items()
        for name, array in solved(**problem).items()
    }


@pytest.fixture(scope="module")
def outcome(gp_bundle: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Of all problems, solved by a server whose LAPACK takes as many threads as it would."""
    server = Server(HERE.command, {**HERE.environment, "OPENBLAS_NUM_THREADS": ""})
    inputs = {
        f"{points}/{name}": array for points in POINTS for name, array in problem(points).items()
    }
    folder = tmp_path_factory.mktemp("regression")
    return jax_free.run(regress, gp_bundle, folder, inputs, server=server)


def regress_in_plain_jax(inputs: Arrays) -> Arrays:
    fitted = jax.jit(fit)(inputs["x"], inputs["y"])
    draw = jax.jit(partial(sample, draws=4))
    return {
        **{name: np.asarray(v) for name, v in jax.jit(predict)(fitted, inputs["queries"]).items()},
        "draws": np.asarray(draw(fitted, inputs["queries"], inputs["key"])),
        "same_draws": np.asarray(draw(fitted, inputs["queries"], inputs["key"])),
        "other_draws": np.asarray(draw(fitted, inputs["queries"], inputs["other_key"])),
        "hyperparameters": np.array(fitted["hyperparameters"]),
        "amplitude": np.asarray(fitted["hyperparameters"].amplitude),
        "log_likelihood": np.asarray(fitted["log_likelihood"]),
        "iterations": np.asarray(fitted["iterations"]),
    }


@pytest.mark.parametrize("points", POINTS)
def test_fitting_predicting_and_sampling_go_as_in_plain_jax(outcome: Outcome, points: int) -> None:
    of_this = f"{points}/"
    outputs = {
        name.removeprefix(of_this): array
        for name, array in outcome.outputs.items()
        if name.startswith(of_this)
    }
    expected = regress_in_plain_jax(problem(points))
    assert outputs.keys() == expected.keys()
    for name, value in expected.items():
        assert outputs[name].dtype == value.dtype, name
        np.testing.assert_allclose(outputs[name], value, rtol=1e-6, atol=1e-8, err_msg=name)
    assert outputs["amplitude"] == outputs["hyperparameters"][0]
    np.testing.assert_array_equal(outputs["draws"], outputs["same_draws"])
    assert np.abs(outputs["draws"] - outputs["other_draws"]).max() > 1e-3
    assert outcome.report["entry_points"]["fit"]["calls"][f"fit[points={points}]"] == 1


def fit_recorded() -> tuple[Fit, Array, Array]:
    x, y = observe()
    fitted: Fit = jax.jit(fit)(x, y)
    return fitted, x, y


def test_the_fit_is_a_maximum_and_the_prediction_that_of_scikit_learn() -> None:
    fitted, x, y = fit_recorded()
    amplitude, length, noise = map(float, fitted["hyperparameters"])
    function = ConstantKernel(amplitude**2) * RBF(length)
    observed = GaussianProcessRegressor(
        function + WhiteKernel(noise**2), alpha=0.0, optimizer=None
    ).fit(x, y)
    value, gradient = observed.log_marginal_likelihood(observed.kernel_.theta, eval_gradient=True)
    assert float(fitted["log_likelihood"]) == pytest.approx(value, rel=1e-9)
    assert np.abs(gradient).max() < 1e-3
    assert noise == pytest.approx(NOISE, rel=0.3)

    queries = problem(32)["queries"]
    regressor = GaussianProcessRegressor(function, alpha=noise**2, optimizer=None).fit(x, y)
    mean, deviation = regressor.predict(queries, return_std=True)
    prediction = jax.jit(predict)(fitted, queries)
    np.testing.assert_allclose(prediction["mean"], mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(prediction["variance"], deviation**2, rtol=1e-6, atol=1e-10)
    assert np.abs(mean - truth(queries)).max() < 4 * deviation.max()


def test_samples_have_the_mean_and_the_covariance_of_the_posterior() -> None:
    fitted, _, _ = fit_recorded()
    queries, draws = problem(32)["queries"], 20_000
    prediction = jax.jit(predict)(fitted, queries)
    samples = np.asarray(jax.jit(partial(sample, draws=draws))(fitted, queries, key_data(0)))

    deviation = np.sqrt(prediction["variance"])
    assert np.abs((samples.mean(0) - prediction["mean"]) / deviation).max() < 5 / draws**0.5
    np.testing.assert_allclose(samples.std(0), deviation, rtol=0.03)


def test_a_covariance_that_rounding_made_indefinite_is_factored_with_jitter() -> None:
    covariance = jnp.ones((4, 4)) - 1e-5 * jnp.eye(4)
    assert jnp.isnan(jnp.linalg.cholesky(covariance)).any()

    factor = jax.jit(robust_cholesky)(covariance)
    np.testing.assert_allclose(factor @ factor.T, covariance, atol=1e-3)


def test_the_bundle_says_that_it_needs_lapack(gp_bundle: tuple[Path, Path]) -> None:
    answer = CliRunner().invoke(cli, ["inspect", str(gp_bundle[0]), "--json"])

    assert answer.exit_code == 0
    (target,) = json.loads(answer.stdout)["targets"].values()
    needed = {"lapack_dpotrf_ffi", "lapack_dtrsm_ffi"}
    assert set(target["requires"]["custom_call_targets"]) == needed
    assert target["weights"] == {}
    for name, called in {"fit": needed, "sample": needed, "predict": {"lapack_dtrsm_ffi"}}.items():
        for profile in target["entry_points"][name]["profiles"]:
            assert set(profile["custom_call_targets"]) == called
            assert profile["parity"]["status"] == "ran"


def test_the_programs_in_the_bundle_nest_a_scan_a_loop_and_a_branch(
    gp_bundle: tuple[Path, Path],
) -> None:
    for operations in operation_paths(gp_bundle[0], "fit"):
        # LAPACK for the gradient of accepted steps only, in the search from each of the starts.
        assert operations["while/while/case/custom_call"] >= 1
    for operations in operation_paths(gp_bundle[0], "sample"):
        assert any(path.startswith("while/") for path in operations)
        assert any(path.endswith("xor") for path in operations)
