"""The programs under manifests/: what a server does with each, and what plain JAX gives for it."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np
from jax_free import MANIFESTS, Arrays, Client
from safetensors.numpy import load_file

import detector.model
import digits.model
import encoder.model
import gp.data
import gp.model
import vision.model
from aotc_runtime import LoadedBundle
from lm.generate import generate_greedy, plain_jax
from lm.model import VOCABULARY
from lm.reference import generate_without_cache


class Example(NamedTuple):
    """A program. client: in a process without jax.  inputs: what the client gets.  expected: what
    it has to return for them, by plain JAX.  calls: how many calls each profile served, by entry
    point and path.  rtol, atol: of floats.
    """

    client: Client
    inputs: Callable[[], Arrays]
    expected: Callable[[Arrays], Arrays]
    calls: Mapping[str, Mapping[str, Mapping[str, int]]]
    rtol: float = 1e-4
    atol: float = 1e-6


UNOPTIMIZED = {"xla_backend_optimization_level": 0}
"""LLVM's optimizations take half of the time to compile, and change results by rounding at most."""


def compiled_at_each_size(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under `jax.jit`, for calls that are made once or twice at every size."""
    return jax.jit(function, compiler_options=UNOPTIMIZED)


def _arrays(results: Mapping[str, Any], prefix: str = "") -> Arrays:
    return {f"{prefix}{name}": np.asarray(value) for name, value in results.items()}


# digits, vision: all images at once, and the first alone


def classify(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    predict, image = bundle["predict"], inputs["image"]
    first = predict(image=image[:1])
    return {**predict(image), **{f"first_{name}": first[name] for name in first}}


def _classified(predict: Callable[..., Any], params: Any, inputs: Arrays) -> Arrays:
    every = _arrays(jax.jit(predict)(params, inputs["image"]))
    return {**every, **{f"first_{name}": value[:1] for name, value in every.items()}}


def held_out() -> Arrays:
    """64 images that were held out of the training."""
    from digits.data import load_split  # which imports scikit-learn

    return {"image": load_split()[1].image[:64]}


def predict_digits(inputs: Arrays) -> Arrays:
    """By the weights beside the manifest; most labels are right."""
    from digits.data import load_split

    params: digits.model.Params = {}
    for name, tensor in load_file(MANIFESTS / "digits" / "params.safetensors").items():
        layer, part = name.split("/")
        params.setdefault(layer, {})[part] = tensor
    found = _classified(partial(digits.model.predict, temperature=1.0), params, inputs)
    assert np.mean(found["label"] == load_split()[1].label[:64]) >= 0.97
    return found


def pictures() -> Arrays:
    """Four images of noise, ever darker: float32[4, 32, 32, 3]."""
    noise = np.random.default_rng(1).uniform(0, 1, (4, 32, 32, 3)).astype(np.float32)
    return {"image": noise ** np.array([0.2, 1, 3, 9], np.float32).reshape(4, 1, 1, 1)}


# encoder, detector: inputs of any size


def encode(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    found = {name: bundle["encode"](tokens) for name, tokens in inputs.items()}
    return {f"{name}/{key}": value for name, each in found.items() for key, value in each.items()}


def texts() -> Arrays:
    """Tokens by batch and length: of two profiles, then padded, split, and both."""
    random = np.random.default_rng(3)
    sizes = [(1, 16), (4, 64), (1, 1), (4, 15), (1, 17), (7, 63), (9, 40), (32, 2)]
    return {f"{b}x{s}": random.integers(0, 256, (b, s), np.int32) for b, s in sizes}


def encoded(inputs: Arrays) -> Arrays:
    """At exactly these sizes, nothing masked."""
    params, function = encoder.model.init(), compiled_at_each_size(encoder.model.encode)
    return {
        name: value
        for text, tokens in inputs.items()
        for name, value in _arrays(
            function(params, tokens, np.ones(tokens.shape, bool)), f"{text}/"
        ).items()
    }


def detect(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    found = {name: bundle["detect"](image) for name, image in inputs.items()}
    return {f"{name}/{key}": value for name, each in found.items() for key, value in each.items()}


def images() -> Arrays:
    """Images by their cells; two of these sizes are profiles, the others are padded."""
    random, stride = np.random.default_rng(5), detector.model.STRIDE
    return {
        f"{r}x{c}": random.uniform(0, 1, (stride * r, stride * c, 3)).astype(np.float32)
        for r, c in product((1, 3, 4), (2, 3, 4))
    }


def detected(inputs: Arrays) -> Arrays:
    """Of each image alone, nothing masked."""
    params, function = detector.model.init(), compiled_at_each_size(detector.model.detect)
    found = {}
    for name, image in inputs.items():
        cells = [size // detector.model.STRIDE for size in image.shape[:2]]
        found |= _arrays(function(params, image, np.ones(cells, bool)), f"{name}/")
    return found


# lm, train, gp: states that stay on the device


def generate(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    from lm.generate import Functions, generate_greedy

    functions = Functions(bundle["prefill"].on_device, bundle["decode"].on_device)
    new_tokens = int(inputs.pop("new_tokens"))
    return {name: generate_greedy(functions, prompt, new_tokens) for name, prompt in inputs.items()}


def prompts() -> Arrays:
    """Of two profiles, to be continued greedily."""
    generator, shapes = np.random.default_rng(0), ((1, 16), (2, 32))
    found = {f"{b}x{s}": generator.integers(0, VOCABULARY, (b, s), np.int32) for b, s in shapes}
    return {**found, "new_tokens": np.asarray(8)}


def generated(inputs: Arrays) -> Arrays:
    """By the same functions, and by the model that computes every token from the whole text."""
    count, functions = int(inputs["new_tokens"]), plain_jax()
    given = {name: prompt for name, prompt in inputs.items() if name != "new_tokens"}
    found = {name: generate_greedy(functions, prompt, count) for name, prompt in given.items()}
    for name, prompt in given.items():
        np.testing.assert_array_equal(found[name], generate_without_cache(prompt, count))
    rows = [tuple(row) for tokens in found.values() for row in tokens.tolist()]
    assert len({*rows}) == len(rows) and all(len({*row}) > 1 for row in rows)
    return found


def train_model(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    from train.loop import Functions, train

    steps = bundle["init"].on_device, bundle["train_step"].on_device
    functions = Functions(*steps, evaluate=bundle["evaluate"])
    run = train(functions, seed=int(inputs["seed"]), epochs=int(inputs["epochs"]))
    return {
        "losses": run.losses,
        "accuracies": run.accuracies,
        "step": np.asarray(run.state["step"]),
        "kernel": np.asarray(run.state["params"]["hidden"]["kernel"]),
        "momentum": np.asarray(run.state["optimizer"][0].mu["hidden"]["kernel"]),
    }


def trained(inputs: Arrays) -> Arrays:
    """By plain JAX, which gets to most of the labels."""
    from train import loop

    run = loop.train(loop.plain_jax(), seed=7, epochs=int(inputs["epochs"]))
    assert run.accuracies[-1] >= 0.95 and run.losses[-1] < run.losses[0] / 4
    state = run.state
    leaves = {
        "step": state["step"],
        "kernel": state["params"]["hidden"]["kernel"],
        "momentum": state["optimizer"][0].mu["hidden"]["kernel"],
    }
    return {"losses": run.losses, "accuracies": run.accuracies, **_arrays(leaves)}


STEPS = 4 * (1437 // 64)
"""Of four epochs."""


def regress(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    """Fit observations, and use the fit where it lies: on the device."""
    fit = bundle["fit"].on_device(inputs["x"], inputs["y"])
    queries = inputs["queries"]
    return {
        **bundle["predict"](fit, queries),
        "draws": bundle["sample"](fit, queries, inputs["key"]),
        "other_draws": bundle["sample"](fit, x=queries, key=inputs["other_key"]),
        "hyperparameters": np.array([np.asarray(value) for value in fit["hyperparameters"]]),
        "log_likelihood": np.asarray(fit["log_likelihood"]),
        "iterations": np.asarray(fit["iterations"]),
    }


def observations() -> Arrays:
    """Observations that no fixture has, and where to ask."""
    random = np.random.default_rng(32)
    x = random.uniform(-2, 2, (32, 2))
    y = gp.data.truth(x) + gp.data.NOISE * random.standard_normal(32)
    keys = {"key": 3, "other_key": 4}
    return {
        "x": x,
        "y": y,
        "queries": random.uniform(-2, 2, (16, 2)),
        **{name: np.asarray(jax.random.key_data(jax.random.key(n))) for name, n in keys.items()},
    }


def regressed(inputs: Arrays) -> Arrays:
    """In float64, as the bundle."""
    with jax.enable_x64(True):
        fitted = jax.jit(gp.model.fit)(inputs["x"], inputs["y"])
        draw = jax.jit(partial(gp.model.sample, draws=4))
        found = {
            **jax.jit(gp.model.predict)(fitted, inputs["queries"]),
            "draws": draw(fitted, inputs["queries"], inputs["key"]),
            "other_draws": draw(fitted, inputs["queries"], inputs["other_key"]),
            "hyperparameters": np.array(fitted["hyperparameters"]),
            "log_likelihood": fitted["log_likelihood"],
            "iterations": fitted["iterations"],
        }
        return _arrays(found)


def _exact(**calls: dict[str, int]) -> dict[str, dict[str, dict[str, int]]]:
    return {name: {"exact": each} for name, each in calls.items()}


EXAMPLES = {
    "digits": Example(
        classify,
        held_out,
        predict_digits,
        _exact(predict={"predict[batch=1]": 1, "predict[batch=64]": 1}),
    ),
    "vision": Example(
        classify,
        pictures,
        lambda inputs: _classified(vision.model.predict, vision.model.init(), inputs),
        _exact(predict={"predict[batch=1]": 1, "predict[batch=4]": 1}),
    ),
    "encoder": Example(
        encode,
        texts,
        encoded,
        {
            "encode": {
                "exact": {"encode[batch=1,seq=16]": 1, "encode[batch=4,seq=64]": 1},
                "pad": {
                    "encode[batch=1,seq=16]": 1,
                    "encode[batch=1,seq=64]": 1,
                    "encode[batch=4,seq=16]": 1,
                },
                # 7 is 4 and three times 1; 9 is 4, 4 and 1; 32 is eight times 4.
                "split": {"encode[batch=4,seq=16]": 1, "encode[batch=4,seq=64]": 2},
            }
        },
        atol=1e-5,
    ),
    "detector": Example(detect, images, detected, {}, atol=1e-4),
    "lm": Example(
        generate,
        prompts,
        generated,
        _exact(
            prefill={"prefill[batch=1,seq=16]": 1, "prefill[batch=2,seq=32]": 1},
            decode={"decode[batch=1]": 7, "decode[batch=2]": 7},
        ),
    ),
    "train": Example(
        train_model,
        lambda: {"seed": np.asarray(7), "epochs": np.asarray(4)},
        trained,
        _exact(
            init={"init": 1},
            train_step={"train_step[batch=64]": STEPS},
            evaluate={"evaluate[held_out=360]": 4},
        ),
        atol=1e-3,
    ),
    "gp": Example(
        regress,
        observations,
        regressed,
        _exact(
            fit={"fit[points=32]": 1},
            predict={"predict[points=32,queries=16]": 1},
            sample={"sample[points=32,queries=16]": 2},
        ),
        rtol=1e-6,
        atol=1e-8,
    ),
}


def require_same(outputs: Arrays, expected: Arrays, example: Example) -> None:
    """Compare what a server returned: integers exactly."""
    assert outputs.keys() == expected.keys()
    for name, wanted in expected.items():
        assert outputs[name].dtype == wanted.dtype, name
        if wanted.dtype.kind == "i":
            np.testing.assert_array_equal(outputs[name], wanted, err_msg=name)
        else:
            limits = example.rtol, example.atol
            np.testing.assert_allclose(outputs[name], wanted, *limits, err_msg=name)
