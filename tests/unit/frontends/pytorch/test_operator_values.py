"""Operators with special values; what each should return is what torch 2.14 returned."""

import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from aotc.frontends.pytorch.operators import OPERATORS, torch_factorizations, torch_windows
from aotc.frontends.pytorch.torch_refusals import Unsupported

NAN, INF = math.nan, math.inf
SHORT = jnp.asarray([255, 6, 1, 249], jnp.uint8)
TABLE = jnp.asarray([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]])


def made(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call an operator within `jax.jit`, as modules do, which compiles it once as a whole."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    arrays = {at: leaf for at, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)}

    def call(given: dict[int, Any]) -> Any:
        filled = [given.get(at, leaf) for at, leaf in enumerate(leaves)]
        args, kwargs = jax.tree.unflatten(tree, filled)
        return OPERATORS[name].function(*args, **kwargs)

    return jax.jit(call)(arrays)


def test_padding_of_a_bag_counts_from_the_last_row() -> None:
    ids, offsets = jnp.asarray([2, 0, 1]), jnp.asarray([0])
    padded, whole = "aten.embedding_bag.padding_idx", "aten._embedding_bag.default"
    for name, padding, expected in (
        (padded, -1, [[4.0, -2.0]]),
        (padded, None, [[9.0, 4.0]]),
        (whole, -1, [[9.0, 4.0]]),
    ):
        assert made(name, TABLE, ids, offsets, padding_idx=padding)[0].tolist() == expected


def test_a_negative_index_is_out_of_range_where_pytorch_raises() -> None:
    ids, rows = jnp.asarray([-1, 0]), jnp.asarray([[-1, 0]])
    whole, one = jnp.zeros((2, 2)), jnp.zeros((1, 2))
    for name, arguments, expected in (
        ("embedding.default", [ids], [[NAN, NAN], [1.0, 2.0]]),
        ("index_select.default", [0, ids], [[NAN, NAN], [1.0, 2.0]]),
        ("gather.default", [0, rows], [[NAN, 2.0]]),
        ("scatter.src", [0, rows, one], [[1.0, 0.0], [3.0, -4.0], [5.0, 6.0]]),
        ("scatter_add.default", [0, rows, one + 1], [[1.0, 3.0], [3.0, -4.0], [5.0, 6.0]]),
        ("scatter_reduce.two", [0, rows, one, "prod"], [[1.0, 0.0], [3.0, -4.0], [5.0, 6.0]]),
        ("index_add.default", [0, ids, whole + 1], [[2.0, 3.0], [3.0, -4.0], [5.0, 6.0]]),
        ("index_copy.default", [0, ids, whole], [[0.0, 0.0], [3.0, -4.0], [5.0, 6.0]]),
        ("index.Tensor", [[ids]], [[5.0, 6.0], [1.0, 2.0]]),
        ("take.default", [ids], [6.0, 1.0]),
    ):
        np.testing.assert_array_equal(made(f"aten.{name}", TABLE, *arguments), expected, name)


def test_truth_values_have_a_product_of_kronecker() -> None:
    found = made("aten.kron.default", jnp.asarray([True, False]), jnp.asarray([False, True]))
    assert found.tolist() == [False, True, False, False]


def test_digamma_has_both_infinities_at_zero() -> None:
    assert made("aten.digamma.default", jnp.asarray([0.0, -0.0])).tolist() == [-INF, INF]


@pytest.mark.parametrize("right", [False, True])
def test_numbers_beyond_all_are_placed_behind_nan(right: bool) -> None:
    x = jnp.asarray([NAN, INF, 1.5, 0.5, -INF])
    found = made("aten.searchsorted.Tensor", jnp.asarray([0.0, 1.0, NAN]), x, right=right)
    assert found.tolist() == [3, 3, 3, 1, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_products_of_truth_values_are_products_of_numbers(dtype: Any) -> None:
    def function(mask: Any, x: Any) -> list[Any]:
        number = made("aten.to.dtype", mask, dtype)
        return [
            made("aten.mul.Tensor", mask, x),
            made("aten.mul.Tensor", number, x),
            made("aten.mul.Scalar", mask, INF),
            made("aten.div.Scalar", mask, 0.0),
            made("aten.divide.Scalar_mode", mask, 0.0, rounding_mode="trunc"),
            made("aten.div.Tensor", number, jnp.zeros(4, dtype)),
        ]

    mask = np.asarray([False, False, False, True])
    found = jax.jit(function)(mask, np.asarray([INF, NAN, 2, -INF], dtype))
    product, quotient = [NAN, NAN, 0, -INF], [NAN, NAN, NAN, INF]
    for one, expected in zip(found, [product] * 2 + [quotient] * 4, strict=True):
        np.testing.assert_array_equal(one, expected)


def test_powers_of_integers_wrap_and_are_cut_to_zero() -> None:
    base, exponent = (
        jnp.asarray([3, -1, -1, 1, 2, 2, 3]),
        jnp.asarray([-1, -3, -2, -5, 64, 10, 127]),
    )
    expected = [0, -1, 1, 1, 0, 1024, -2088621909]
    assert made("aten.pow.Tensor_Tensor", base, exponent).tolist() == expected
    assert made("aten.pow.Scalar", 2, exponent).tolist() == [0, 0, 0, 0, 0, 1024, 0]
    assert made("aten.pow.Tensor_Scalar", jnp.asarray([2, 3]), 64).tolist() == [0, 2038349057]
    short = made("aten.pow.Tensor_Tensor", SHORT, jnp.asarray([2, 3, 70, 127], jnp.int8))
    assert short.dtype == jnp.int16
    assert short.tolist() == [-511, 216, 1, -29367]


def test_sinc_of_infinities_is_nan() -> None:
    found = made("aten.sinc.default", jnp.asarray([INF, -INF, 0.0]))
    np.testing.assert_array_equal(found, [NAN, NAN, 1.0])


def test_functions_that_are_wrong_for_large_arguments_are_refused() -> None:
    for name in (*("igamma", "igammac", "special_gammainc", "special_gammaincc"), "special_zeta"):
        assert f"aten.{name}.default" not in OPERATORS


def test_scales_of_torchao_are_those_of_torch_for_halves_and_a_range_from_zero() -> None:
    x = jnp.asarray([[-6.0, 3.0]])
    choose = "torchao.choose_qparams_affine.default"
    scale, _ = made(choose, x, "SYMMETRIC_NO_CLIPPING_ERR", [1, 2], jnp.uint8, 0, 255)
    np.testing.assert_allclose(scale, [3 / 255], rtol=1e-6)
    half, zero = made(
        choose, x.astype(jnp.float16), "ASYMMETRIC", [1, 2], jnp.int32, -(2**15), 2**15
    )
    np.testing.assert_allclose(np.asarray(half, np.float32), [9 / 65536], rtol=1e-2)
    with pytest.raises(Unsupported, match="blocks of one element"):
        made(choose, x, "SYMMETRIC", [1, 1], jnp.int8)
    assert zero.dtype == jnp.int32
    _, zero = made(choose, x * NAN, "ASYMMETRIC", [1, 2], jnp.int8)
    assert zero.tolist() == [-(2**31)]


# Pooling and resizing of axes whose size varies.

POOLS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: torch_windows._max_pool(x, [3], [2], [1], [1], True, rank=1),
    "max of few": lambda x: torch_windows._max_pool(x, [2], [3], [0], [1], True, rank=1),
    "mean": lambda x: torch_windows._avg_pool(x, [3], [2], [1], True, False, None, rank=1),
    "mean of padding too": lambda x: torch_windows._avg_pool(
        x, [3], [2], [1], True, True, None, rank=1
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_last_window_that_reaches_beyond_is_that_of_each_size(name: str) -> None:
    shape = export.symbolic_shape("1,2,n", constraints=["n >= 3"])
    every = export.export(jax.jit(POOLS[name]))(jax.ShapeDtypeStruct(shape, jnp.float32))
    for size in range(3, 12):
        x = np.random.default_rng(size).normal(size=(1, 2, size)).astype(np.float32)
        np.testing.assert_allclose(every.call(x), jax.jit(POOLS[name])(x), rtol=1e-6)


RESIZED: dict[str, Callable[[Any], Any]] = {
    "nearest": lambda x: torch_windows._nearest(x, 2, 7, False, None, exact=False),
    "linear": lambda x: torch_windows._linear(x, 2, 7, False, None),
    "linear aligned": lambda x: torch_windows._linear(x, 2, 7, True, None),
    "cubic": lambda x: torch_windows._cubic(x, 2, 7, False, None),
    "antialiased": lambda x: torch_windows._smooth(x, 2, 7, False, None, method="linear"),
}


@pytest.mark.parametrize("name", RESIZED)
def test_resizing_from_a_known_size_makes_no_integers_of_numbers(name: str) -> None:
    """OpenVINO refuses that conversion; where the size varies, the same is computed in the call."""
    x = np.random.default_rng(0).normal(size=(1, 2, 19)).astype(np.float32)
    module = jax.jit(RESIZED[name]).lower(x).as_text()
    assert not re.search(r"stablehlo.convert .*f32>\) -> tensor<.*i32>", module)
    shape = export.symbolic_shape("1,2,n")
    every = export.export(jax.jit(RESIZED[name]))(jax.ShapeDtypeStruct(shape, jnp.float32))
    np.testing.assert_allclose(every.call(x), jax.jit(RESIZED[name])(x), rtol=1e-5, atol=1e-6)


# Matrices that have problems.

SINGULAR = [
    ([[2, 1], [1, 3]], 0),
    ([[1, 2], [2, 4]], 2),
    ([[0, 0], [0, 1]], 1),
    ([[1, 0, 0], [0, 0, 0], [0, 0, 0]], 2),
]
"""Matrices, and the first 0 on the diagonal of the upper triangle by LAPACK's getrf, from 1."""

NOT_POSITIVE = [
    ([[2, 1], [1, 3]], 0),
    ([[1, 2], [2, 1]], 2),
    ([[-1, 0], [0, 1]], 1),
    ([[1, 0, 0], [0, -1, 0], [0, 0, -1]], 2),
    ([[1, 0, 0], [0, 1, 0], [0, 0, 0]], 3),
    ([[float("nan"), 0], [0, 1]], 1),
]
"""Matrices, and the first leading minor that is not positive by LAPACK's potrf, from 1."""


@pytest.mark.parametrize(("rows", "info"), SINGULAR)
def test_singular_matrix_is_told_by_every_operator(rows: list[list[float]], info: int) -> None:
    matrix = jnp.asarray([rows, np.eye(len(rows))], jnp.float32)
    right = jnp.ones((2, len(rows), 1), jnp.float32)

    def said(matrix: jax.Array) -> list[jax.Array]:
        return [
            torch_factorizations.inverse_ex(matrix)[1],
            torch_factorizations.lu_factor_ex(matrix)[2],
            torch_factorizations.solve_ex(matrix, right)[1],
            torch_factorizations.solve_with_factors(matrix, right)[3],
        ]

    for each in jax.jit(said)(matrix):
        assert each.dtype == np.int32 and each.tolist() == [info, 0]


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("kind", ["float32", "complex64"])
@pytest.mark.parametrize(("rows", "info"), NOT_POSITIVE)
def test_non_positive_minor(rows: list[list[float]], info: int, kind: str, upper: bool) -> None:
    matrix = np.array([rows, np.eye(len(rows))], kind)
    # The other triangle is not read.
    matrix = matrix + 9 * (np.tril(np.ones_like(matrix), -1) if upper else np.triu(matrix, 1))
    found = jax.jit(lambda each: torch_factorizations.cholesky_ex(each, upper)[1])(matrix)
    assert found.dtype == np.int32 and found.tolist() == [info, 0]


def test_of_matrices_without_elements_none_has_a_problem() -> None:
    empty = jnp.zeros((3, 0, 0), jnp.float32)
    for info in (
        torch_factorizations.inverse_ex(empty)[1],
        torch_factorizations.cholesky_ex(empty)[1],
    ):
        assert info.tolist() == [0, 0, 0]


ROUNDED = [
    ("mul.Tensor", [0.1650390625, -0.1749267578125], 3.3, [0.54443359375, -0.5771484375]),
    ("mul.Tensor", [-0.016998291015625, -35.4375], np.float32(3.3), [-0.05609130859375, -116.9375]),
    ("div.Tensor", [19.5, -0.059600830078125], 3.3, [5.91015625, -0.01806640625]),
    ("div.Tensor", [0.02960205078125, -44.46875], np.float32(3.3), [0.00897216796875, -13.4765625]),
    ("add.Tensor", [1.171875], [63.90625], 3.3, [212.125]),
    ("sub.Tensor", [-20.375, 73.0], [-12.4765625, 0.0], 3.3, [20.8125, 73.0]),
    ("rsub.Scalar", [25.4375, 0.1439208984375], 0.3, 3.3, [-83.6875, -0.175048828125]),
    ("div.Tensor_mode", [-33.0, 49.5, 16.5], 3.3, "floor", [-11.0, 15.0, 5.0]),
    ("div.Tensor_mode", 3.3, [-0.0014123916625976562, 8.0], "floor", [-2340.0, 0.0]),
    ("div.Tensor_mode", [16.5, -42.90625, -33.0], 3.3, "trunc", [5.0, -13.0, -10.0]),
    ("div.Tensor_mode", 3.3, [0.0107879638671875, -0.11004638671875], "trunc", [306.0, -30.0]),
    ("pow.Tensor_Scalar", [0.038665771484375, 14.5859375], 3.3, [2.1755695343017578e-05, 6948.0]),
    ("special_xlog1py.default", [0.0762939453125], np.float32(3.3), [0.111328125]),
    ("special_xlog1py.default", 3.3, [1.7001953125, 59.3125], [3.27734375, 13.5234375]),
    ("addcdiv.default", [-0.8926], [-14976.0], np.float32(3.3), [-4540.0]),
    ("lerp.Scalar", [-0.020660400390625], [-0.00030612945556640625], 3.3, [0.0465087890625]),
    ("threshold.default", [3.30078125], 3.3, -3.3, [3.30078125]),
    ("isclose.default", [35776.0], [-38016.0], 3.3, 0.0, [0.0]),
    ("logit.default", [0.045074462890625, 0.5908203125], 0.4, [-0.40576171875, 0.36767578125]),
    ("logical_and.default", [56.84375], np.float32(1e-9), [0.0]),
]
"""Calls on float16 whose results show each step of rounding."""


@pytest.mark.parametrize("call", ROUNDED, ids=lambda call: f"{call[0]}-{type(call[2]).__name__}")
def test_shorter_floats_are_rounded_where_torch_rounds(call: Any) -> None:
    name, *given, expected = call
    arguments = [
        jnp.asarray(value, jnp.float16 if isinstance(value, list) else value.dtype)
        if isinstance(value, list | np.generic)
        else value
        for value in given
    ]
    assert made(f"aten.{name}", *arguments).tolist() == expected


def test_a_cube_of_bfloat16_is_rounded_twice() -> None:
    cube = made("aten.pow.Tensor_Scalar", jnp.asarray([-0.0238037109375], jnp.bfloat16), 3)
    assert cube.tolist() == [-1.3530254364013672e-05]


def test_floats_beyond_short_integers_wrap() -> None:
    x = jnp.asarray([300.0, -300.0, 40000.0, 128.0, -129.0])
    for dtype, expected in (
        (np.int8, [44, -44, 64, -128, 127]),
        (np.uint8, [44, 212, 64, 128, 127]),
        (np.int16, [300, -300, -25536, 128, -129]),
    ):
        assert made("aten._to_copy.default", x, dtype=np.dtype(dtype)).tolist() == expected
