"""Step allowances: another rounding of numbers between two steps passes, a wrong number fails."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.check.rounding_steps import (
    PART_MAX,
    round_activations,
    round_to_other_steps,
    step_allowance,
)
from aotc.compile.precision.bfloat16_products import round_factors
from aotc.compile.precision.quantized_numbers import (
    Array,
    QuantizedNumbers,
    Scheme,
    dequantize,
    from_stored,
    quantize,
    to_stored,
)
from aotc_runtime.serving.readiness import compare

ATOL, RTOL = 1e-5, 1e-4
CHANCE = np.random.default_rng(0)
X = CHANCE.standard_normal((8, 64)).astype(np.float32)
W, V = ((CHANCE.standard_normal((64, 64)) / 8).astype(np.float32) for _ in range(2))
SCHEME = Scheme("int4", (0,), 16)


def two_layers(x: Any, w: Any, v: Any) -> Any:
    return jax.nn.silu(x @ w) @ v


def with_zero_points(x: Any, w: Any, v: Any) -> Any:
    """Quantize as models with QuantizeLinear do: unsigned steps of a range that was calibrated."""

    def rounded(x: Any) -> Any:
        steps = jnp.clip(jnp.round(x / np.float32(1 / 32)) + 128, 0, 255).astype(np.uint8)
        return (steps.astype(np.float32) - 128) * np.float32(1 / 32)

    return rounded(jnp.tanh(rounded(x) @ w)) @ v


def compiled(function: Callable[..., Any], *, rounded: bool, otherwise: bool) -> Any:
    lowered = jax.jit(lambda *arguments: function(*arguments)).lower(X, W, V)
    module = lowered.compiler_ir("stablehlo")
    if rounded:
        round_activations(module, {1: None, 2: None})
    if otherwise:
        assert round_to_other_steps(module)
    return lowered.compile()


PROGRAMS = {"dynamic": (two_layers, True), "zero points": (with_zero_points, False)}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> tuple[Any, float, Array]:
    """Return a quantized program, its step allowance and its result."""
    function, rounded = PROGRAMS[request.param]
    call = compiled(function, rounded=rounded, otherwise=False)
    other = compiled(function, rounded=rounded, otherwise=True)
    weights = [dequantize(quantize(each, SCHEME), SCHEME, np.dtype(np.float32)) for each in (W, V)]
    exact = np.asarray(call(X, *weights))
    return call, step_allowance({"": exact}, {"": np.asarray(other(X, *weights))}), exact


def test_another_rounding_of_numbers_between_steps_is_within(
    program: tuple[Any, float, Array],
) -> None:
    call, allowance, exact = program
    assert 0 < allowance <= PART_MAX * np.abs(exact).max()
    weights = [dequantize(quantize(each, SCHEME), SCHEME, np.dtype(np.float32)) for each in (W, V)]
    beyond = 0
    for _ in range(300):
        x = X * (1 + CHANCE.uniform(-1e-4, 1e-4, X.shape).astype(np.float32))
        found = np.asarray(call(x, *weights))
        assert compare(found, exact, RTOL, ATOL + allowance).within
        beyond += not compare(found, exact, RTOL, ATOL).within
    assert beyond > 30


def rounds(x: Any) -> Any:
    return jnp.clip(jnp.round(x), -4, 4) * 0.3


def by_token(pair: Any) -> Any:
    x = rounds(pair[0])
    return x, pair[1] + 1 + jnp.argmin(x) // x.size


@pytest.mark.parametrize(
    ("function", "has_steps"),
    [
        (lambda x: jax.lax.fori_loop(0, 3, lambda _, x: rounds(x), x), True),
        (lambda x: jax.lax.scan(lambda x, _: (rounds(x), None), x, length=3)[0], True),
        (lambda x: jax.lax.while_loop(lambda x: x.sum() > 3, rounds, x), False),
        (lambda x: jax.lax.while_loop(lambda p: p[1] < 3, by_token, (x, 0))[0], False),
        (lambda x: jnp.round(x) * 0.3, False),
    ],
)
def test_a_loop_that_numbers_may_end_and_rounding_without_limits_stay(
    function: Any, has_steps: bool
) -> None:
    module = jax.jit(function).lower(X).compiler_ir("stablehlo")
    assert round_to_other_steps(module) == has_steps


def test_computed_numbers_between_two_of_bfloat16_go_to_the_other_one() -> None:
    def product(x: Any, w: Any, v: Any) -> Any:
        return jnp.abs(x @ w) @ v

    eye, v = np.eye(4, dtype=np.float32), np.float32([[1], [-1], [1], [1e-3]])
    middle = np.float32(1 + 2**-8)
    row = np.float32([middle, np.nextafter(middle, np.float32(2)), 1.001, 0])
    found = []
    for otherwise in (False, True):
        lowered = jax.jit(lambda *a: product(*a), keep_unused=True).lower(row[None], eye, v)
        module = lowered.compiler_ir("stablehlo")
        round_factors(module, [0, 1])
        assert not otherwise or round_to_other_steps(module)
        found.append(float(lowered.compile()(row[None], eye, v)[0, 0]))
    step = 2**-7
    assert found == [1 - (1 + step) + 1, (1 + step) - 1 + 1]
    lowered = jax.jit(lambda x, w: x @ w.T).lower(row[None], eye)
    round_factors(lowered.compiler_ir("stablehlo"), [])
    assert not round_to_other_steps(lowered.compiler_ir("stablehlo")), "inputs are no sums"


def test_static_scales_round_to_their_steps() -> None:
    lowered = jax.jit(lambda x, w: x @ w).lower(X, W)
    round_activations(lowered.compiler_ir("stablehlo"), {1: 0.02})
    steps = np.rint(X / np.float32(0.02)).clip(-127, 127) * np.float32(0.02)
    assert np.abs(X).max() > 127 * 0.02
    found = np.asarray(lowered.compile()(X, W))
    np.testing.assert_allclose(found, steps @ W, rtol=1e-5, atol=1e-5)


def _numbers(change: Callable[[Array, Array], tuple[Array, Array]]) -> Callable[[], Array]:
    """Return a function of the first weight as an engine would read it that is wrong."""

    def made() -> Array:
        numbers = quantize(W, SCHEME)
        values, scale = change(numbers.values.astype(np.int8), numbers.scale)
        return dequantize(QuantizedNumbers(values, scale), SCHEME, np.dtype(np.float32))

    return made


def _exchanged_halves() -> Array:
    numbers = quantize(W, SCHEME)
    packed = to_stored(numbers, SCHEME)
    turned = (packed >> 4) | (packed << 4)
    found = from_stored(turned.astype(np.uint8), numbers.scale, SCHEME)
    return dequantize(found, SCHEME, np.dtype(np.float32))


def _along_the_other_axis() -> Array:
    scheme = Scheme("int8", (0,))
    numbers = quantize(W, scheme)
    return (numbers.values * numbers.scale[:, None]).astype(np.float32)


WRONG: dict[str, Callable[[], Array]] = {
    "scale": _numbers(lambda values, scale: (values, scale * np.float32(1.125))),
    "zero point": _numbers(lambda values, scale: (values + np.int8(1), scale)),
    "axis": _along_the_other_axis,
    "block": _numbers(lambda values, scale: (values, np.roll(scale, 1, 0))),
    "sign": _numbers(lambda values, scale: (np.abs(values), scale)),
    "order of halves": _exchanged_halves,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_weights_exceed_the_allowance(wrong: str, program: tuple[Any, float, Array]) -> None:
    call, allowance, exact = program
    second = dequantize(quantize(V, SCHEME), SCHEME, np.dtype(np.float32))
    found = np.asarray(call(X, WRONG[wrong](), second))
    assert not compare(found, exact, RTOL, ATOL + allowance).within
