"""Random keys with a type at the border of a program: what the capture makes of them."""

import numpy as np
import pytest
from capturing import Capture, Outcome, key_path, npz

from aotc.check.trial_records import read_arrays
from aotc_runtime.schema.bundle_manifest import DType, KeyImpl, TensorSpec
from aotc_runtime.schema.tensor_text import KEY_DTYPES, key_words

ONE_KEY = """
[entry_points.f]
function = "program:f"
inputs.key = { shape = [], dtype = "key<fry>" }
"""

KEYS = """
[dimensions.batch]
range = [1, 8]
profiles = [2, 4]

[entry_points.f]
function = "program:f"
inputs.keys = { shape = ["batch"], dtype = "key<rbg>" }
"""

STATE = """
[entry_points.f]
function = "program:f"
inputs.state = { like = "program:start" }
donate = ["state"]
"""

FIXTURES = "\n[entry_points.f.fixtures]\n"
IDENTITY = "def f(keys): return keys"

STRANGER = """
from jax.extend.random import define_prng_impl

STRANGE = define_prng_impl(
    key_shape=(1,),
    seed=lambda seed: jnp.zeros(1, jnp.uint32),
    split=lambda key, shape: jnp.broadcast_to(key, (*shape, 1)),
    random_bits=lambda key, width, shape: jnp.zeros(shape, jnp.uint32),
    fold_in=lambda key, data: key,
    tag="fry",
)
"""


def spec(
    path: str, shape: tuple[int | str, ...], impl: KeyImpl | None, dtype: DType = DType.UINT32
) -> TensorSpec:
    return TensorSpec(path=path, dtype=dtype, shape=shape, weak_type=False, key_impl=impl)


def fixture(outcome: Outcome, profile: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype]]:
    assert outcome.exit_code == 0, outcome.findings
    return read_arrays(outcome.inputs(profile))


def test_keys_are_described_by_their_data_and_their_implementation(capture: Capture) -> None:
    f = capture("def f(keys): return jax.vmap(jax.random.split)(keys), keys.shape[0]", KEYS).f
    assert f.inputs == (spec("keys", ("batch", 4), KeyImpl.RBG),)
    assert f.outputs[0] == spec("0", ("batch", 2, 4), KeyImpl.RBG)
    assert f.outputs[1].key_impl is None
    assert [profile.input_shapes for profile in f.profiles] == [((2, 4),), ((4, 4),)]
    assert [profile.output_shapes[0] for profile in f.profiles] == [(2, 2, 4), (4, 2, 4)]


@pytest.mark.parametrize("impl", KeyImpl)
def test_the_function_gets_typed_keys_and_may_return_them(capture: Capture, impl: KeyImpl) -> None:
    source = f"""
        def f(key):
            assert str(key.dtype) == "{KEY_DTYPES[impl]}" and key.shape == ()
            return jax.random.split(key, 3), jax.random.key_data(key)
    """
    f = capture(source, ONE_KEY.replace("key<fry>", KEY_DTYPES[impl])).f
    assert f.inputs == (spec("key", (key_words(impl),), impl),)
    assert f.outputs == (spec("0", (3, key_words(impl)), impl), spec("1", (key_words(impl),), None))


def test_keys_inside_a_like_structure_keep_place_and_are_donated(capture: Capture) -> None:
    outcome = capture(
        """
        class State(NamedTuple):
            count: jax.Array
            key: jax.Array

        def start():
            return State(jnp.int32(0), jax.random.key(7))

        def f(state):
            return state._replace(key=jax.random.fold_in(state.key, state.count))
        """,
        STATE,
    )
    assert outcome.f.inputs[1] == spec("state/key", (2,), KeyImpl.THREEFRY2X32)
    assert [a.aliased for a in outcome.f.profiles[0].arguments] == [True, True]  # type: ignore[union-attr]
    assert fixture(outcome, 0)["state/key"].tolist() == [0, 7]


def test_a_donated_key_needs_an_output_that_takes_its_place(capture: Capture) -> None:
    manifest = ONE_KEY + 'donate = ["key"]\n'
    refusal = capture("def f(key): return jax.random.uniform(key)", manifest).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E837", "f input key")
    assert "key<fry>[]" in refusal.expected


def test_keys_are_drawn_from_the_seed(capture: Capture) -> None:
    drawn = fixture(capture(IDENTITY, KEYS + FIXTURES + "seed = 3"), 1)["keys"]
    generator = np.random.default_rng([3, 0xB48E44EC])  # zlib.crc32(b"keys")
    assert drawn.tolist() == generator.integers(0, 1 << 32, (4, 4), np.uint32).tolist()


def test_recorded_keys_are_their_data(capture: Capture) -> None:
    recorded = np.arange(12, dtype=np.uint32).reshape(3, 4)
    manifest = KEYS + FIXTURES + 'file = "x.npz"'
    outcome = capture(IDENTITY, manifest, files={"x.npz": npz(keys=recorded)})
    assert fixture(outcome, 1)["keys"].tolist() == recorded[[0, 1, 2, 0]].tolist()


@pytest.mark.parametrize(
    "recorded",
    [np.zeros((3, 2), np.uint32), np.zeros((3, 4), np.int32), np.zeros(3, np.uint32)],
    ids=["words", "dtype", "rank"],
)
def test_bad_key_data(capture: Capture, recorded: np.ndarray[tuple[int, ...], np.dtype]) -> None:
    manifest = KEYS + FIXTURES + 'file = "x.npz"'
    refusal = capture(IDENTITY, manifest, files={"x.npz": npz(keys=recorded)}).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E831", "entry_points.f.fixtures.file keys")
    assert refusal.expected == "uint32['batch', 4], data of key<rbg>['batch']"
    assert "jax.random.key_data" in refusal.hint


def test_keys_of_an_implementation_of_ones_own_are_refused(capture: Capture) -> None:
    source = STRANGER + "def f(x): return jax.random.key(0, impl=STRANGE)\n"
    refusal = capture(source).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E832", "f output result")
    assert "jax.random.key_data" in refusal.hint
