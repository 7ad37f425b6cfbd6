"""Random keys with a type: arrays of keys to the function, their data to a server without jax."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax_free
import numpy as np
import pytest
from jax_free import Array, Arrays
from small_programs import build_signed

import aotc_runtime
from aotc.bundle.read.bundle_review import review
from aotc.report.inspect_report import bundle_report
from aotc_runtime import LoadedBundle, ShapeError
from aotc_runtime.system.bundle_files import open_bundle
from tests.conftest import Bundle, Once, manifest_of
from tests.refusals import error_of

PROGRAM = """
from typing import NamedTuple
import jax
import jax.numpy as jnp

class State(NamedTuple):
    key: jax.Array
    old: dict
    count: jax.Array

def dropout(key, x):
    key, used = jax.random.split(key)
    return {"x": jnp.where(jax.random.bernoulli(used, 0.5, x.shape), 2 * x, 0), "key": key}

def per_example(keys):
    drawn = jax.vmap(lambda key: jax.random.bits(key, (3,)))(keys)
    return drawn, jax.vmap(jax.random.split)(keys)

def looped(key):
    return jax.lax.fori_loop(0, 5, lambda step, key: jax.random.fold_in(key, step), key)

def start(batch):
    keys = jax.random.split(jax.random.key(4), batch)
    return State(jax.random.key(3), {"keys": keys}, jnp.int32(0))

def step(state, gain):
    key, used = jax.random.split(state.key)
    noise = jax.random.uniform(used, ()) * gain
    keys = jax.vmap(jax.random.fold_in, (0, None))(state.old["keys"], state.count)
    return State(key, {"keys": keys}, state.count + 1), noise

def other(rbg, urbg):
    return [jax.random.bits(rbg, (5,)), jax.random.split(urbg, 2), jax.random.split(rbg)[1]]
"""

MANIFEST = manifest_of("""
name = "keys"
dimensions.batch = { range = [1, 8], profiles = [2, 3] }

[entry_points.dropout]
function = "program:dropout"
inputs.key = { shape = [], dtype = "key<fry>" }
inputs.x = { shape = ["batch", 4], dtype = "float32" }

[entry_points.per_example]
function = "program:per_example"
inputs.keys = { shape = ["batch"], dtype = "key<fry>" }

[entry_points.looped]
function = "program:looped"
inputs.key = { shape = [], dtype = "key<fry>" }

[entry_points.step]
function = "program:step"
inputs.state = { like = "program:start", arguments = { batch = "batch" } }
inputs.gain = { shape = [], dtype = "float32" }
donate = ["state"]

[entry_points.other]
function = "program:other"
inputs.rbg = { shape = [], dtype = "key<rbg>" }
inputs.urbg = { shape = [], dtype = "key<urbg>" }
""")

STEPS = 4


@pytest.fixture(scope="module")
def bundle(once: Once) -> Bundle:
    folder = once("keys", lambda folder: build_signed(folder, "keys", PROGRAM, MANIFEST))
    return folder / "keys.aotb", folder / "trust.toml"


@pytest.fixture(scope="module")
def program(bundle: Bundle) -> ModuleType:
    spec = importlib.util.spec_from_file_location("keys_program", bundle[0].with_name("program.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def data(leaf: Any) -> Array:
    """A leaf of plain JAX as a server without jax has it."""
    is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def call_with_data(bundle: LoadedBundle, given: Arrays) -> Arrays:
    import collections

    out = {f"dropout/{k}": v for k, v in bundle["dropout"](given["key"], given["x"]).items()}
    out["drawn"], out["split"] = bundle["per_example"](given["keys"])
    out["looped"] = bundle["looped"](given["key"])
    rbg = bundle["other"](rbg=given["rbg"], urbg=given["urbg"])
    out |= {f"other/{index}": leaf for index, leaf in enumerate(rbg)}
    step = bundle["step"]
    State = collections.namedtuple("State", ["key", "old", "count"])
    state = State(given["key"], {"keys": given["keys"]}, np.int32(0))
    state, out["noise"] = step(state, np.float32(2))
    for _ in range(int(given["steps"]) - 1):
        state, noise = step.on_device(state, np.float32(2))
    out |= {"step/key": np.asarray(state.key), "step/keys": np.asarray(state.old["keys"])}
    out |= {"step/count": np.asarray(state.count), "step/noise": np.asarray(noise)}
    return out


def expected_of(program: ModuleType, key: Any, keys: Any, x: Array) -> Arrays:
    """Return what `call_with_data` returns, in plain JAX."""
    rbg, urbg = jax.random.key(5, impl="rbg"), jax.random.key(6, impl="unsafe_rbg")
    out: dict[str, Any] = {f"dropout/{k}": v for k, v in jax.jit(program.dropout)(key, x).items()}
    out["drawn"], out["split"] = jax.jit(program.per_example)(keys)
    out["looped"] = jax.jit(program.looped)(key)
    out |= {f"other/{i}": leaf for i, leaf in enumerate(jax.jit(program.other)(rbg, urbg))}
    state, step = program.State(key, {"keys": keys}, np.int32(0)), jax.jit(program.step)
    state, out["noise"] = step(state, np.float32(2))
    for _ in range(STEPS - 1):
        state, noise = step(state, np.float32(2))
    out |= {"step/key": state.key, "step/keys": state.old["keys"], "step/count": state.count}
    return {name: data(leaf) for name, leaf in {**out, "step/noise": noise}.items()}


@pytest.mark.parametrize("batch", [2, 3])
def test_key_data_is_fine(bundle: Bundle, program: ModuleType, batch: int, tmp_path: Path) -> None:
    key, keys = jax.random.key(1), jax.random.split(jax.random.key(2), batch)
    x = np.random.default_rng(0).normal(size=(batch, 4)).astype(np.float32)
    given = {"key": data(key), "keys": data(keys), "x": x, "steps": np.asarray(STEPS)}
    given["rbg"] = data(jax.random.key(5, impl="rbg"))
    given["urbg"] = data(jax.random.key(6, impl="unsafe_rbg"))
    outputs, _ = jax_free.run(call_with_data, bundle, tmp_path, given)
    expected = expected_of(program, key, keys, x)
    assert outputs.keys() == expected.keys()
    for name, array in expected.items():
        assert outputs[name].dtype == array.dtype, name
        assert outputs[name].tobytes() == array.tobytes(), name


@pytest.fixture(scope="module")
def loaded(bundle: Bundle) -> Iterator[LoadedBundle]:
    """In this process, which has jax."""
    with aotc_runtime.load(bundle[0], trust=bundle[1]) as opened:
        yield opened


def assert_same(actual: Any, expected: Any) -> None:
    """The same jax arrays: structure of named tuples by field, dtypes and bits."""
    found, wanted = jax.tree.leaves(actual), jax.tree.leaves(expected)
    assert [leaf.dtype for leaf in found] == [leaf.dtype for leaf in wanted]
    assert all(isinstance(leaf, jax.Array) for leaf in found)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(data(one), data(other))


def test_typed_keys_go_in_and_come_out_with_jax(loaded: LoadedBundle, program: ModuleType) -> None:
    key, x = jax.random.key(7), np.ones((2, 4), np.float32)
    assert_same(loaded["dropout"](key, x), jax.jit(program.dropout)(key, x))
    keys = jax.random.split(key, 3)
    assert_same(loaded["per_example"](keys), jax.jit(program.per_example)(keys))
    others = (jax.random.key(8, impl="rbg"), jax.random.key(9, impl="unsafe_rbg"))
    assert_same(loaded["other"](*others), jax.jit(program.other)(*others))


def test_donated_keys_come_back_typed_beside_jax(loaded: LoadedBundle, program: ModuleType) -> None:
    state = program.start(2)
    for _ in range(2):
        assert_same(loaded["step"](state, 2.0), jax.jit(program.step)(state, np.float32(2)))


def test_beside_jax_key_data_are_taken_too(loaded: LoadedBundle, program: ModuleType) -> None:
    key = jax.random.key(7)
    assert_same(loaded["looped"](jax.random.key_data(key)), jax.jit(program.looped)(key))
    from_numpy = loaded["looped"](data(key))
    assert type(from_numpy) is np.ndarray and from_numpy.dtype == np.uint32


RBG = jax.random.key(0, impl="rbg")


@pytest.mark.parametrize(
    ("call", "where", "expected", "found"),
    [
        (lambda b: b["looped"](RBG), "looped key", "key<fry>", "key<rbg>"),
        (lambda b: b["other"](RBG, RBG), "other urbg", "key<urbg>", "key<rbg>"),
        (
            lambda b: b["dropout"](data(jax.random.key(0)), jax.random.key(0)),
            "dropout x",
            "float32",
            "key<fry>",
        ),
    ],
    ids=["other words", "as many words", "no keys"],
)
def test_keys_of_another_implementation_are_refused_naming_both(
    loaded: LoadedBundle, call: Callable[[LoadedBundle], Any], where: str, expected: str, found: str
) -> None:
    (finding,) = error_of(ShapeError, call, loaded).findings
    assert (finding.code, finding.where) == ("AOTC-E606", where)
    assert (finding.expected, finding.found) == (expected, found)


@pytest.mark.parametrize("keys", [np.zeros(4, np.uint32), jax.random.key(0)], ids=["data", "key"])
def test_keys_of_another_shape_are_refused_by_their_data(loaded: LoadedBundle, keys: Any) -> None:
    (finding,) = error_of(ShapeError, loaded["per_example"], keys).findings
    assert finding.code == "AOTC-E612"
    assert finding.expected == "uint32[batch, 2], data of key<fry>[batch]"


def test_donated_keys_reuse_their_buffers(loaded: LoadedBundle, program: ModuleType) -> None:
    step = loaded["step"]
    first, _ = step.on_device(program.start(2), 1.0)
    step.on_device(first, 1.0)
    assert first.key.is_deleted and first.old["keys"].is_deleted
    memory = step.spec.profiles[0].memory
    assert memory.alias_bytes == 2 * 4 + 2 * 2 * 4 + 4


def test_inspect_shows_keys_and_the_manifest_names_their_implementation(bundle: Bundle) -> None:
    report = bundle_report(review(open_bundle(bundle[0]), None, datetime.now(UTC)))
    entry_points = report["targets"]["cpu-x86-64-v3"]["entry_points"]
    assert entry_points["per_example"]["inputs"] == {"keys": "key<fry>[batch]"}
    assert entry_points["other"]["inputs"] == {"rbg": "key<rbg>[]", "urbg": "key<urbg>[]"}
    assert entry_points["per_example"]["outputs"] == {
        "0": "uint32[batch, 3]",
        "1": "key<fry>[batch, 2]",
    }
    assert entry_points["step"]["outputs"]["0/old/keys"] == "key<fry>[batch]"
