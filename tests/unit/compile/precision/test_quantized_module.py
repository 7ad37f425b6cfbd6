"""Modules with quantized weights: which weights products take, and what the rewritten module is."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jaxlib.mlir import ir

from aotc.capture.float64_module import interpret
from aotc.capture.portable_stablehlo import portable
from aotc.check.rounding_steps import round_activations
from aotc.compile.mlir import mlir_context
from aotc.compile.precision.activations import integer_product
from aotc.compile.precision.quantized_module import take_quantized
from aotc.compile.precision.quantized_numbers import Array, Scheme, dequantize, quantize, to_stored
from aotc.compile.precision.weight_products import OtherUse, Product, Use, uses_of

X = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
W = np.random.default_rng(2).standard_normal((8, 4)).astype(np.float32)


def artifact(function: Callable[..., Any], *arguments: Array) -> bytes:
    module = jax.jit(function, keep_unused=True).lower(*arguments).compiler_ir("stablehlo")
    return portable(module).artifact


def uses(function: Callable[..., Any], *arguments: Array) -> set[Use]:
    """Return the uses of the last argument."""
    return {*uses_of(mlir_context.read_artifact(artifact(function, *arguments)))[-1]}


def scanned(x: Any, w: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, value: jnp.tanh(value @ w @ w.T), x)


def carried(x: Any, w: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, pair: (pair[0] @ pair[1], pair[1] * 2), (x, w))[0]


def returned(x: Any, w: Any) -> Any:
    return lax.while_loop(lambda p: p[0].sum() < 9, lambda p: (p[0] @ p[2], p[2], p[2]), (x, x, w))[
        :2
    ]


def branched(x: Any, w: Any) -> Any:
    return lax.cond(x[0, 0] > 0, lambda: w, lambda: x @ w)


def narrow(x: Any) -> Any:
    return x.astype(jnp.bfloat16)


def narrowed(x: Any, w: Any) -> Any:
    return lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.bfloat16)


def convolved(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@jax.jit
def layer(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (lambda x, w: x @ w, [(3, 8), (8, 4)], {Product((0,))}),
        (lambda x, w: x @ w.T, [(3, 8), (4, 8)], {Product((1,))}),
        (lambda x, w: w @ x, [(8, 3), (4, 8)], {Product((1,))}),
        (lambda x, w: jnp.einsum("bd,dhk->bhk", x, w), [(3, 8), (8, 2, 4)], {Product((0,))}),
        (lambda x, w: jnp.einsum("bhk,hkd->bd", x, w), [(3, 2, 4), (2, 4, 8)], {Product((0, 1))}),
        (lambda x, w: jnp.einsum("ebd,edk->ebk", x, w), [(2, 3, 8), (2, 8, 4)], {Product((1,))}),
        (lambda x, w: layer(layer(x, w), w), [(3, 8), (8, 8)], {Product((0,))}),
        (scanned, [(3, 8), (8, 4)], {Product((0,)), Product((1,))}),
        (convolved, [(1, 5, 5, 3), (3, 3, 3, 6)], {Product((0, 1, 2), is_convolution=True)}),
        (lambda x, w: x @ w + w[0], [(3, 8), (8, 4)], {Product((0,)), OtherUse("stablehlo.slice")}),
        (lambda x, w: (x @ w, w), [(3, 8), (8, 4)], {Product((0,)), OtherUse("a result")}),
        (lambda x, w: x, [(3, 8), (8, 4)], set()),
        (lambda x, w: narrow(x) @ narrow(w), [(3, 8), (8, 4)], {Product((0,))}),
        (returned, [(8, 8), (8, 8)], {Product((0,)), OtherUse("stablehlo.return")}),
        (branched, [(8, 8), (8, 8)], {Product((0,)), OtherUse("stablehlo.return")}),
        (carried, [(3, 8), (8, 8)], {OtherUse("stablehlo.while")}),
    ],
)
def test_uses_of_finds_products_and_the_axes_that_they_sum(
    function: Callable[..., Any], shapes: Sequence[tuple[int, ...]], expected: set[Use]
) -> None:
    found = uses(function, *(np.ones(shape, np.float32) for shape in shapes))
    assert found == expected


LOOP = """
func.func public @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0:2 = stablehlo.while(%a = %x, %b = %w) : tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %c = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : MATRICES
    stablehlo.return %d, %b : tensor<8x8xf32>, tensor<8x8xf32>
  }
  %1 = stablehlo.dot_general %0#0, %0#1, contracting_dims = [1] x [1] : MATRICES
  return %1 : tensor<8x8xf32>
}
""".replace("MATRICES", "(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>")


def test_uses_of_finds_products_behind_a_loop_that_returns_a_weight() -> None:
    with mlir_context.read_artifact(artifact(layer, X, W)).context:
        module = ir.Module.parse(LOOP)
    assert uses_of(module)[1] == {Product((0,)), Product((1,))}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "scheme",
    [Scheme("int8", (0,)), Scheme("int8", (0,), 4), *(Scheme("int4", (0,), n) for n in (2, 3))],
    ids=lambda scheme: scheme.label,
)
def test_take_quantized_computes_with_the_restored_weight(scheme: Scheme, dtype: str) -> None:
    size = 9 if scheme.group == 3 else 8
    x = np.tile(X, 2)[:, :size].astype(jnp.dtype(dtype))
    w = np.tile(W, (2, 1))[:size].astype(jnp.dtype(dtype))
    program = artifact(lambda x, w: jnp.tanh(layer(x, w)), x, w)
    module = mlir_context.read_artifact(program)
    take_quantized(module, {1: scheme})
    made = portable(module)
    assert made.artifact == portable(mlir_context.read_artifact(made.artifact)).artifact
    numbers = quantize(w, scheme)
    restored = dequantize(numbers, scheme, w.dtype)
    assert not np.array_equal(restored, w)
    with mlir_context.read_artifact(made.artifact).context:
        text = str(mlir_context.read_artifact(made.artifact))
    assert (
        "tensor<8x4xi8>" if scheme.dtype == "int8" else f"tensor<4x{-(-size // 2)}xui8>"
    ) in text
    compiled = jax.jit(lambda x, w: jnp.tanh(layer(x, w))).lower(x, w).compile()
    expected = np.asarray(compiled(x, restored))
    if dtype == "float32":
        (found,) = interpret(made.artifact, [x, to_stored(numbers, scheme), numbers.scale])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("integers", [False, True])
def test_functions_that_composites_name_keep_their_bodies(integers: bool) -> None:
    def program(x: Any, w: Any) -> Any:
        products = jax.nn.silu(jax.nn.relu(x) @ w)
        scores = jax.scipy.special.erfc(jax.nn.leaky_relu(jax.scipy.special.erf(products)))
        return jax.nn.gelu(scores, approximate=False), lax.top_k(products, 2), jnp.argmax(scores, 1)

    scheme = Scheme("int8", (0,))
    module = mlir_context.read_artifact(artifact(program, X, W))
    take_quantized(module, {1: scheme}, {1: None} if integers else {})
    numbers = quantize(W, scheme)
    given = [X, to_stored(numbers, scheme), numbers.scale]
    found = interpret(portable(module).artifact, given)
    expected = jax.tree.leaves(jax.jit(program)(X, dequantize(numbers, scheme, W.dtype)))
    if integers:
        module = mlir_context.read_artifact(artifact(program, X, W))
        take_quantized(module, {1: scheme})
        exact = interpret(portable(module).artifact, given)
        np.testing.assert_allclose(found[0], exact[0], atol=0.1)
        return
    for result, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_take_quantized_adds_the_scales_in_the_order_of_the_weights() -> None:
    program = artifact(lambda x, v, w: x @ v @ w, X, W, W.T.copy())
    module = mlir_context.read_artifact(program)
    take_quantized(module, {2: Scheme("int8", (0,)), 1: Scheme("int4", (0,), 4)})
    with module.context:
        main = ir.SymbolTable(module.operation)["main"]
        inputs = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
        assert [str(each) for each in inputs] == [
            *("tensor<3x8xf32>", "tensor<4x4xui8>", "tensor<4x8xi8>", "tensor<2x4xf32>"),
            "tensor<8xf32>",
        ]


def rounded(x: Any, axis: int | tuple[int, ...]) -> Any:
    unit = np.abs(x).max(axis, keepdims=True) / np.float32(127.5)
    unit = np.where(unit < 1e-19, np.float32(1), unit)
    return np.rint(x / unit).clip(-127, 127) * unit


ODD_X = np.float32([[1, -3, 0.5, 2], [0, 0, 0, 0], [1e-25, 0, 0, 0], [np.nan, 1, 2, 3]])


@pytest.mark.parametrize(
    ("function", "shape", "contracted", "summed"),
    [
        (lambda x, w: x @ w, (4, 6), (0,), 1),
        (lambda x, w: layer(x, w), (4, 6), (0,), 1),
        (lambda x, w: jnp.einsum("bk,nk->bn", x, w), (6, 4), (1,), 1),
        (lambda x, w: w @ x, (6, 4), (1,), 0),
        (lambda x, w: jnp.einsum("bk,hkd->hbd", x, w), (2, 4, 3), (1,), 1),
        (lambda x, w: jnp.einsum("bk,kdh->bhd", x, w), (4, 3, 2), (0,), 1),
        (lambda x, w: jnp.einsum("hk,hkd->hd", x, w), (4, 4, 3), (1,), 1),
        (lambda x, w: jnp.einsum("hk,hkd->d", x, w), (4, 4, 3), (0, 1), (0, 1)),
    ],
)
@pytest.mark.parametrize("x", [X[:, :4].repeat(2, 0)[:4], ODD_X], ids=["ordinary", "odd"])
def test_activations_are_rounded_by_row_in_products_of_integers(
    function: Callable[..., Any],
    shape: tuple[int, ...],
    contracted: tuple[int, ...],
    summed: int | tuple[int, ...],
    x: Array,
) -> None:
    w = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    scheme = Scheme("int8", contracted)
    module = mlir_context.read_artifact(artifact(function, x, w))
    assert take_quantized(module, {1: scheme}, {1: None}) == 1
    made = portable(module)
    with module.context:
        text = str(module)
    assert "xi32>" in text and "func.call" not in text
    numbers = quantize(w, scheme)
    restored = dequantize(numbers, scheme, w.dtype)
    (found,) = interpret(made.artifact, [x, numbers.values, numbers.scale])
    expected = np.asarray(jax.jit(function)(rounded(x, summed), restored))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    # A function of its own, as jax gives a module that it knows again.
    lowered = jax.jit(lambda x, w: function(x, w), keep_unused=True).lower(x, restored)
    round_activations(lowered.compiler_ir("stablehlo"), {1: None})
    plain = np.asarray(lowered.compile()(x, restored))
    np.testing.assert_allclose(plain, expected, rtol=1e-5, atol=1e-6)


def test_rows_with_numbers_that_are_not_finite_become_nan_in_xla() -> None:
    """XLA's fast maximum, which is used for arrays of this size, ignores NaN."""
    x = np.ones((32, 512), np.float32)
    x[1, 3], x[2, 4] = np.nan, np.inf
    multiplied = integer_product(1, (((1,), (0,)), ((), ())), (0, 1), (0,))
    found = jax.jit(multiplied)(x, np.ones((512, 64), np.int8), np.ones(64, np.float32))
    assert np.isnan(found).all(1).tolist() == [False, True, True, *[False] * 29]


@pytest.mark.parametrize(
    "function",
    [scanned, convolved, lambda x, w: w @ w, narrowed],
    ids=["in a loop", "a convolution", "of two weights", "bfloat16"],
)
def test_other_products_keep_their_activations(function: Callable[..., Any]) -> None:
    is_image = function is convolved
    x = np.ones((1, 5, 5, 3) if is_image else (8, 8), np.float32)
    w = np.ones((3, 3, 3, 6) if is_image else (8, 8), np.float32)
    module = mlir_context.read_artifact(artifact(function, x, w))
    scheme = Scheme("int8", (0, 1, 2) if is_image else (0,))
    assert take_quantized(module, {1: scheme}, {1: None}) == 0
    portable(module)
