"""Arrays that a function closes over become weights, wherever they are used."""

import pytest
from capturing import Capture, Outcome

from aotc.check.trial_records import read_arrays
from aotc_runtime.schema.bundle_manifest import InputArgument, WeightArgument

TABLE = """
TABLE = jnp.asarray(np.random.default_rng(0).random(100, np.float32))

def twice_applied(a):
    return jnp.sin(jnp.sin(a * TABLE[:4]))

with_vjp = jax.custom_vjp(twice_applied)
with_vjp.defvjp(lambda a: (with_vjp(a), a), lambda a, c: (a * c * TABLE[:4],))
"""

BODIES = {
    "top level": "return TABLE[:4] * x",
    "jit": "return jax.jit(lambda a: a + TABLE[:4])(x)",
    "scan": "return jax.lax.scan(lambda c, a: (c + TABLE, a), jnp.zeros(100), x)",
    "while_loop": "return jax.lax.while_loop(lambda a: a[0] < TABLE[3], lambda a: a + 1, x)",
    "cond": "return jax.lax.cond(x[0] > 0, lambda: TABLE, lambda: TABLE * 2)",
    "remat": "return jax.grad(lambda a: jax.checkpoint(twice_applied)(a).sum())(x)",
    "custom_vjp": "return jax.grad(lambda a: with_vjp(a).sum())(x)",
}


def closure(outcome: Outcome) -> list[tuple[str, tuple[int, ...]]]:
    """dtype and shape of each tensor in the closure weights, which are also those reported."""
    program = outcome.program
    reported = {
        constant.tensor: (constant.dtype.value, constant.shape)
        for entry_point in program.entry_points.values()
        for constant in entry_point.lifted
    }
    assert ("closure" in program.weights) == bool(reported)
    if not reported:
        return []
    assert program.weights["closure"] == "closure"
    stored = read_arrays(outcome.scratch.weights("closure")[0])
    assert {name: (a.dtype.name, a.shape) for name, a in stored.items()} == reported
    return sorted(reported.values())


@pytest.mark.parametrize("kind", BODIES)
def test_closed_over_array_is_lifted_wherever_used(capture: Capture, kind: str) -> None:
    outcome = capture(f"{TABLE}\ndef f(x):\n    {BODIES[kind]}\n")
    assert closure(outcome) == [("float32", (100,))]
    arguments = outcome.f.profiles[0].arguments
    assert isinstance(arguments[0], WeightArgument) and arguments[0].set == "closure"
    assert arguments[-1] == InputArgument(leaf=0, aliased=False)
    assert len(outcome.f.profiles[0].module.artifact) < 4000


def test_the_lifted_values_are_those_of_the_array(capture: Capture) -> None:
    outcome = capture("TABLE = np.arange(100, dtype='float32')\ndef f(x): return TABLE + x[0]")
    (name,) = [constant.tensor for constant in outcome.f.lifted]
    assert read_arrays(outcome.scratch.weights("closure")[0])[name][:3].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(("elements", "lifted"), [(8, []), (9, [("float32", (9,))])])
def test_arrays_of_up_to_32_bytes_stay_in_the_module(
    capture: Capture, elements: int, lifted: list[tuple[str, tuple[int, ...]]]
) -> None:
    outcome = capture(f"T = np.arange({elements}, dtype='float32')\ndef f(x): return x[0] * T")
    assert closure(outcome) == lifted


def test_equal_arrays_are_stored_once(capture: Capture) -> None:
    outcome = capture("""
        A = np.arange(99, dtype='float32')
        B = jnp.arange(99, dtype='float32')
        def f(x): return A * x[0], B * x[1]
    """)
    assert closure(outcome) == [("float32", (99,))]


def test_equal_bytes_of_another_dtype_or_shape_are_kept_apart(capture: Capture) -> None:
    outcome = capture("""
        A = jnp.zeros(99, 'float32')
        B = jnp.zeros(99, 'int32')
        C = jnp.zeros((9, 11), 'float32')
        def f(x): return A * x[0], B * x[1], C * x[2]
    """)
    assert closure(outcome) == [("float32", (9, 11)), ("float32", (99,)), ("int32", (99,))]


def test_64_bit_arrays_are_lifted_as_what_jax_computes_with(capture: Capture) -> None:
    source = "T = np.arange(99.0)\nI = np.arange(99)\ndef f(x): return T * x[0], jnp.take(I, 3)"
    assert closure(capture(source)) == [("float32", (99,)), ("int32", (99,))]


def test_an_array_made_by_jax_inside_the_function_is_computed_not_stored(capture: Capture) -> None:
    assert closure(capture("def f(x): return jnp.arange(1000.0) + x[0]")) == []


KEYS = """
KEYS = jax.random.split(jax.random.key(0), {count})
def f(x): return jax.jit(lambda a: jax.random.normal(KEYS[a[0].astype(int)], (4,)))(x)
"""


def test_a_few_random_keys_with_a_type_stay_in_the_module(capture: Capture) -> None:
    assert closure(capture(KEYS.format(count=4))) == []


def test_an_array_of_random_keys_is_refused_with_the_way_to_lift_it(capture: Capture) -> None:
    refusal = capture(KEYS.format(count=5)).refusal
    assert (refusal.code, refusal.found) == ("AOTC-E832", "key<fry>[5]")
    assert "jax.random.key_data" in refusal.hint


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "bool", "complex64"])
def test_arrays_of_every_dtype_are_lifted(capture: Capture, dtype: str) -> None:
    outcome = capture(f"T = jnp.ones(99, '{dtype}')\ndef f(x): return T[x[0].astype(int)]")
    assert closure(outcome) == [(dtype, (99,))]


def test_a_closed_over_dtype_that_weights_cannot_hold_is_refused(capture: Capture) -> None:
    source = (
        "T = jnp.arange(99).astype('int2')\ndef f(x): return T[x[0].astype(int)].astype(x.dtype)"
    )
    refusal = capture(source).refusal
    assert refusal.code == "AOTC-E832"
    assert "closes over" in refusal.where
