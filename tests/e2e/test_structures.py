"""Structures of every kind as arguments, results, weights and states of a bundle.

What its users read without jax is what plain JAX gives, as these tests spell it out by hand.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax_free
import numpy as np
import pytest
from jax_free import Arrays
from small_programs import build_signed

from aotc.bundle.read.bundle_review import review
from aotc.report.inspect_report import bundle_report
from aotc_runtime import LoadedBundle
from aotc_runtime.system.bundle_files import open_bundle
from tests.conftest import Bundle, Once

PROGRAM = """
import collections
import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

Pair = collections.namedtuple("Pair", ["low", "high"])
jax.tree_util.register_pytree_node(
    Pair, lambda p: ((p.high, p.low), None), lambda _, c: Pair(low=c[1], high=c[0])
)

def spread(x):
    return Pair(low=x - 1, high=x + 1)

def width(pair):
    return pair.high - pair.low

def pair():
    return Pair(jnp.float32(1), jnp.float32(5))

class Optimizer(NamedTuple):
    packed: Any
    definition: Any

jax.tree_util.register_pytree_node(
    Optimizer, lambda o: ((o.packed,), o.definition), lambda aux, c: Optimizer(c[0], aux)
)

def optimizer():
    return Optimizer([jnp.zeros(2), jnp.ones(2)], "static")

def update(state, gradient):
    moment, value = state.packed
    return Optimizer([moment + gradient, value - gradient], state.definition)

def cache():
    return {10: {"k": jnp.zeros(2)}, 2: {"k": jnp.ones(2)}, -1: None}

def append(cache, x):
    return {index: layer and {"k": layer["k"] * index + x} for index, layer in cache.items()}

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class TrainState:
    step: Any
    rate: Any
    params: Any

def train_state():
    return TrainState(step=0, rate=0.5, params={"w": jnp.ones(2, "bfloat16")})

def train(state, x):
    params = {"w": state.params["w"] * state.rate + x}
    return TrainState(state.step + 1, state.rate, params), state.step * jnp.ones(1, "int8")

def table():
    # numpy cannot read what is being traced
    return {"rows": np.asarray(jnp.arange(4.0)) * 2}

def look_up(table, index):
    return table["rows"][index]

def weights():
    return {0: Pair(jnp.full(2, 3.0), jnp.full(2, 7.0)), 1: [jnp.asarray(0.5)]}

def bound(weights, x):
    low, high = weights[0]
    return {"low": low + x, "half": weights[1][0] * jnp.ones(1, "bfloat16"), "high": high}

def tables():
    return {"table": jnp.arange(16.0)}

def same(p, x):
    return {"table": p["table"], "x": x, "again": x, "part": x[:2], "shaped": x.reshape(2, -1)}

def texts():
    return {"größe": jnp.ones(3), "": {"b": jnp.ones(2)}, "mlp/~/linear_0": {"w": jnp.ones(1)}}

def keyed(state):
    return state

def checked(x):
    checkify.check(x > 0, "negative")
    return jnp.log(x)

def logarithm(x):
    return checkify.checkify(checked)(x)
"""

MANIFEST = Path(__file__).with_name("structures.toml").read_text("utf-8")


@pytest.fixture(scope="module")
def bundle(once: Once) -> Bundle:
    build = lambda folder: build_signed(folder, "structures", PROGRAM, MANIFEST)  # noqa: E731
    folder = once("structures", build)
    return folder / "structures.aotb", folder / "trust.toml"


def serve(bundle: LoadedBundle, given: Arrays) -> Arrays:
    import collections

    import ml_dtypes

    out = {}
    pair = bundle["spread"](np.float32(10))
    out["pair"] = np.array([pair.low, pair.high, pair["low"]])

    Pair = collections.namedtuple("Pair", ["low", "high"])
    low, high = np.float32(1), np.float32(5)
    widths = [bundle["width"](each) for each in (Pair(low, high), {"low": low, "high": high})]
    out["widths"] = np.array(widths)

    state = bundle["update"]({"packed": [np.zeros(2, "f4"), np.ones(2, "f4")]}, given["gradient"])
    state = bundle["update"].on_device(state, given["gradient"])
    out["moment"], out["value"] = map(np.asarray, state.packed)

    cache = {index: {"k": np.ones(2, "f4")} for index in (2, 10)} | {-1: None}
    cache = bundle["append"](cache, given["gradient"])
    assert list(cache) == [-1, 2, 10] and cache[-1] is None
    out["two"], out["ten"] = cache[2]["k"], cache[10]["k"]

    w = given["gradient"].astype(ml_dtypes.bfloat16)
    state, scaled = bundle["train"]({"step": 3, "rate": 0.25, "params": {"w": w}}, w)
    out["step"], out["scaled"] = state.step, scaled
    out["w"] = state.params["w"].astype("f4")
    assert state.params["w"].dtype.name == "bfloat16"
    assert (state.step.dtype.name, scaled.dtype.name) == ("int32", "int8")

    out["row"] = bundle["look_up"]({"rows": np.arange(4, dtype="f4") * 2}, np.int32(3))
    bound = bundle["bound"](given["gradient"])
    assert bound["half"].dtype.name == "bfloat16"
    out["low"], out["high"] = bound["low"], bound["high"]

    errors, value = bundle["logarithm"](np.float32(1))
    (failed,) = [errors["0"][name] for name in errors["0"]]
    out["failed"], out["log"] = failed, value
    return out


EXPECTED = {
    "pair": [9, 11, 9],
    "widths": [4, 4],
    "moment": [1, 4],
    "value": [0, -3],
    "two": [2.5, 4],
    "ten": [10.5, 12],
    "step": 4,
    "scaled": [3],
    "w": [0.625, 2.5],
    "row": 6,
    "low": [3.5, 5],
    "high": [7, 7],
    "failed": False,
    "log": 0,
}


def test_structures_are_read_without_jax_as_plain_jax_does(bundle: Bundle, tmp_path: Path) -> None:
    gradient = np.array([0.5, 2], np.float32)
    outputs, _ = jax_free.run(serve, bundle, tmp_path, {"gradient": gradient})
    assert {name: array.tolist() for name, array in outputs.items()} == EXPECTED


def call_and_overwrite(bundle: LoadedBundle, _: Arrays) -> Arrays:
    """Functions that return what they were given: nothing in a result is a user's or a weight."""
    same = bundle["same"]
    space = np.zeros(4096 * 4 + 64, np.uint8)
    # Aligned as XLA likes it, so that it could use the memory in place.
    start = -space.ctypes.data % 64
    x = space[start : start + 4096 * 4].view(np.float32)
    kept = np.arange(4096, dtype=np.float32)
    for call in (same, same.on_device):
        x[:] = kept
        result = call(x)
        x[:] = -1
        arrays = {name: np.asarray(value) for name, value in result.items()}
        for name in ("x", "again", "part", "shaped"):
            flat = arrays[name].reshape(-1)
            assert np.array_equal(flat, kept[: flat.size]), name
            assert not np.shares_memory(flat, x), name

    state = {
        "größe": np.float32([1, 2, 3]),
        "": {"b": np.float32([4, 5])},
        "mlp/~/linear_0": {"w": np.float32([6])},
    }
    result = bundle["keyed"](state)
    assert result.keys() == state.keys()
    by_key = {"größe": result["größe"], "b": result[""]["b"], "w": result["mlp/~/linear_0"]["w"]}
    return {"table": arrays["table"], **by_key}


def test_results_share_no_memory_and_any_text_is_a_key(bundle: Bundle, tmp_path: Path) -> None:
    outputs, _ = jax_free.run(call_and_overwrite, bundle, tmp_path, {})
    assert {name: array.tolist() for name, array in outputs.items()} == {
        "table": list(range(16)),
        "größe": [1, 2, 3],
        "b": [4, 5],
        "w": [6],
    }


@pytest.fixture(scope="module")
def report(bundle: Bundle) -> Any:
    return bundle_report(review(open_bundle(bundle[0]), None, datetime.now(UTC)))["targets"][
        "cpu-x86-64-v3"
    ]


@pytest.mark.parametrize(
    ("entry_point", "owner", "structure"),
    [
        ("spread", "result", "Pair(high=float32[], low=float32[])"),
        ("append", "cache", "{-1: None, 2: {'k': float32[2]}, 10: {'k': float32[2]}}"),
        (
            "train",
            "state",
            "TrainState(step=weak int32[], rate=weak float32[], params={'w': bfloat16[2]})",
        ),
    ],
)
def test_inspect_structures(report: Any, entry_point: str, owner: str, structure: str) -> None:
    assert report["entry_points"][entry_point]["structures"][owner] == structure
