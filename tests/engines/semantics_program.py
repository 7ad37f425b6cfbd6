"""Functions at whose edges compilers differ, each of one or two arrays; `INPUTS` holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Array = Any
HERE = Path(__file__).parent

NAN, INF = np.nan, np.inf
TINY = np.float32(1e-45)
FLOATS = np.array(
    [0.0, -0.0, 1.5, -2.5, 0.5, -0.5, NAN, INF, -INF, 3.4e38, 1e-38, 7.0, -7.0, 2.5, 88.9, -1.0],
    np.float32,
)
OTHERS = np.array(
    [-0.0, 0.0, 2.0, 2.0, NAN, 1.0, 1.0, INF, INF, 3.4e38, 1.0, -2.0, -2.0, 0.0, 1.0, 0.5],
    np.float32,
)
MANY = np.array([2**31 - 1, -(2**31), -1, 0, 1, 7, -7, 100], np.int32)
FEW = np.array([1, -1, 0, 0, 31, 32, 2, -3], np.int32)
KEY = np.array([17, 42], np.uint32)
TIES = np.array([[1, 3, 3, 2], [NAN, 1, NAN, 9], [-0.0, 0.0, -0.0, 0.0]], np.float32)
DENORMAL = np.array([1e-45, -1e-45, 1e-39, 1.1754944e-38, 2.0, 0.0], np.float32)
HALVES = np.array([0.5, 65504.0, -1.0, 6e-8, 1.0009766, 3.0, NAN, INF], np.float32)
COMPLEX = np.array([1 + 2j, -1j, 0, 3.0, -2 + 0.5j], np.complex64)
SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4) / 8
EMPTY = np.zeros((0, 4), np.float32)

INPUTS: dict[str, tuple[np.ndarray[Any, Any], ...]] = {
    "random_bits": (KEY,),
    "random_uniform": (KEY,),
    "random_normal": (KEY,),
    "random_permutation": (KEY,),
    "random_choice": (KEY,),
    "int_sums": (MANY, FEW),
    "int_products": (MANY, FEW),
    "int_quotients": (MANY, FEW),
    "int_rests": (MANY, FEW),
    "int_shifts": (MANY, FEW),
    "int_powers": (MANY,),
    "int_bits": (MANY,),
    "int_narrowed": (MANY,),
    "unsigned": (MANY.view(np.uint32), FEW.view(np.uint32)),
    "bytes_": (np.array([127, -128, -1, 5], np.int8), np.array([1, -1, 2, 100], np.int8)),
    "long_integers": (np.array([2**63 - 1, -(2**63), 5], np.int64), np.array([1, -1, 3], np.int64)),
    "truncated": (FLOATS,),
    "truncated_unsigned": (FLOATS,),
    "sorted_": (FLOATS,),
    "arg_sorted": (FLOATS,),
    "sorted_pairs": (np.array([3, 1, 3, 1, 2, 3], np.int32), np.arange(6, dtype=np.int32)),
    "largest": (TIES,),
    "arg_largest": (TIES,),
    "arg_smallest": (TIES,),
    "top": (np.array([1, 5, 5, 2, 9, 9], np.float32),),
    "maxima": (FLOATS, OTHERS),
    "minima": (FLOATS, OTHERS),
    "clipped": (FLOATS,),
    "signs": (FLOATS,),
    "rounded": (FLOATS,),
    "compared": (FLOATS, OTHERS),
    "quotients": (FLOATS, OTHERS),
    "rests": (FLOATS, OTHERS),
    "powers": (FLOATS, OTHERS),
    "exponentials": (FLOATS,),
    "logarithms": (FLOATS,),
    "roots": (FLOATS,),
    "cube_roots": (FLOATS,),
    "tangents": (FLOATS,),
    "angles": (FLOATS,),
    "turns": (np.array([1e2, -1e3, 1e4, 3e4, -1e5, 1e6, 1e7, 1e8, 9.9e8, -0.0], np.float32),),
    "hyperbolic": (FLOATS,),
    "error_function": (FLOATS,),
    "arc_tangents": (FLOATS, OTHERS),
    "finite": (FLOATS,),
    "sums": (FLOATS,),
    "denormal_products": (DENORMAL,),
    "denormal_sums": (DENORMAL,),
    "running": (np.array([1, NAN, 2, INF], np.float32),),
    "halves": (HALVES.astype(np.float16),),
    "brain_floats": (HALVES,),
    "doubles": (np.array([1e300, 1e-300, NAN, 1 / 3], np.float64),),
    "complex_": (COMPLEX,),
    "gathered": (SQUARE, np.array([0, 3, -1, 9], np.int32)),
    "scattered": (SQUARE, np.array([0, 3, 0, 9], np.int32)),
    "sliced": (SQUARE, np.array(3, np.int32)),
    "updated": (SQUARE, np.array(-5, np.int32)),
    "looped": (np.array(6, np.int32),),
    "branched": (np.array(-1, np.int32), SQUARE),
    "booleans": (np.array([True, False, True]), np.array([True, True, False])),
    "empty_sum": (EMPTY,),
    "empty_joined": (EMPTY, SQUARE),
    "empty_result": (SQUARE,),
    "scalar": (np.array(2.5, np.float32),),
    "integer_matrix": (np.array([[100, -128], [127, 3]], np.int8),),
    "convolved": (np.arange(75, dtype=np.float32).reshape(1, 5, 5, 3) / 75,),
    "pooled": (np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1),),
    "transformed": (np.arange(8, dtype=np.float32),),
    "strided": (SQUARE,),
    "double_complex": (COMPLEX.astype(np.complex128),),
    "small_floats": (FLOATS,),
    "factorized": (np.eye(3, dtype=np.float32),),
}
"""What each function is called with."""


def random_bits(key: Array) -> Array:
    return jax.random.bits(jax.random.wrap_key_data(key), (6,))


def random_uniform(key: Array) -> Array:
    return jax.random.uniform(jax.random.wrap_key_data(key), (6,))


def random_normal(key: Array) -> Array:
    return jax.random.normal(jax.random.wrap_key_data(key), (6,))


def random_permutation(key: Array) -> Array:
    return jax.random.permutation(jax.random.wrap_key_data(key), 9)


def random_choice(key: Array) -> Array:
    return jax.random.categorical(jax.random.wrap_key_data(key), jnp.zeros((5, 4)))


def int_sums(x: Array, y: Array) -> Array:
    return x + y, x - y, -x


def int_products(x: Array, y: Array) -> Array:
    return x * y


def int_quotients(x: Array, y: Array) -> Array:
    return lax.div(x, y)


def int_rests(x: Array, y: Array) -> Array:
    return lax.rem(x, y)


def int_shifts(x: Array, y: Array) -> Array:
    return (
        lax.shift_left(x, y),
        lax.shift_right_logical(x, y),
        lax.shift_right_arithmetic(x, y),
    )


def int_powers(x: Array) -> Array:
    return x**3, abs(x), jnp.sign(x)


def int_bits(x: Array) -> Array:
    return lax.population_count(x), lax.clz(x), ~x, x ^ 5


def int_narrowed(x: Array) -> Array:
    return x.astype(jnp.int8), x.astype(jnp.uint8), x.astype(jnp.float32), x.astype(bool)


def unsigned(x: Array, y: Array) -> Array:
    return x + y, x > y, jnp.maximum(x, y), x.astype(jnp.float32), x >> 1, lax.div(x, y)


def bytes_(x: Array, y: Array) -> Array:
    return x + y, x * y, jnp.maximum(x, y), x.astype(jnp.int32)


def long_integers(x: Array, y: Array) -> Array:
    return x + y, x * y, x > y


def truncated(x: Array) -> Array:
    return x.astype(jnp.int32)


def truncated_unsigned(x: Array) -> Array:
    return x.astype(jnp.uint8)


def sorted_(x: Array) -> Array:
    return jnp.sort(x)


def arg_sorted(x: Array) -> Array:
    return jnp.argsort(x)


def sorted_pairs(x: Array, y: Array) -> Array:
    return lax.sort((x, y), num_keys=1, is_stable=True)


def largest(x: Array) -> Array:
    return x.max(axis=1), x.min(axis=1)


def arg_largest(x: Array) -> Array:
    return jnp.argmax(x, axis=1)


def arg_smallest(x: Array) -> Array:
    return jnp.argmin(x, axis=1)


def top(x: Array) -> Array:
    return lax.top_k(x, 3)


def maxima(x: Array, y: Array) -> Array:
    return jnp.maximum(x, y)


def minima(x: Array, y: Array) -> Array:
    return jnp.minimum(x, y)


def clipped(x: Array) -> Array:
    return jnp.clip(x, -1, 1), jax.nn.relu(x)


def signs(x: Array) -> Array:
    return jnp.sign(x), jnp.abs(x), jnp.signbit(x), jnp.copysign(x, -1)


def rounded(x: Array) -> Array:
    return jnp.round(x), jnp.floor(x), jnp.ceil(x), jnp.trunc(x)


def compared(x: Array, y: Array) -> Array:
    return x < y, x <= y, x == y, x != y


def quotients(x: Array, y: Array) -> Array:
    return x / y


def rests(x: Array, y: Array) -> Array:
    return lax.rem(x, y)


def powers(x: Array, y: Array) -> Array:
    return lax.pow(x, y)


def exponentials(x: Array) -> Array:
    return jnp.exp(x), jnp.expm1(x), jax.nn.sigmoid(x)


def logarithms(x: Array) -> Array:
    return jnp.log(x), jnp.log1p(x)


def roots(x: Array) -> Array:
    return jnp.sqrt(x), lax.rsqrt(x)


def cube_roots(x: Array) -> Array:
    return jnp.cbrt(x)


def angles(x: Array) -> Array:
    return jnp.sin(x), jnp.cos(x)


def turns(x: Array) -> Array:
    return jnp.sin(x), jnp.cos(x)


def tangents(x: Array) -> Array:
    return jnp.tan(x)


def hyperbolic(x: Array) -> Array:
    return jnp.tanh(x)


def error_function(x: Array) -> Array:
    return lax.erf(x)


def arc_tangents(x: Array, y: Array) -> Array:
    return jnp.arctan2(x, y)


def finite(x: Array) -> Array:
    return jnp.isfinite(x), jnp.isnan(x), jnp.isinf(x), jnp.nan_to_num(x)


def sums(x: Array) -> Array:
    return x.sum(), x[:6].sum(), x[:6].prod(), x.mean()


def denormal_products(x: Array) -> Array:
    return x * 0.5, x * 2


def denormal_sums(x: Array) -> Array:
    return x + x, x > 0


def running(x: Array) -> Array:
    return jnp.cumsum(x), jnp.cumprod(x), lax.cummax(x)


def halves(x: Array) -> Array:
    return x + x, x * x, x.astype(jnp.float32)


def brain_floats(x: Array) -> Array:
    y = x.astype(jnp.bfloat16)
    return y, y + y, (y * y).astype(jnp.float32)


def doubles(x: Array) -> Array:
    return x * x, x + 1, x.astype(jnp.float32)


def complex_(x: Array) -> Array:
    return x * x, abs(x), jnp.exp(x), x.real, jnp.conj(x)


def gathered(x: Array, y: Array) -> Array:
    return x[y], x.at[y].get(mode="fill"), x.at[y].get(mode="clip")


def scattered(x: Array, y: Array) -> Array:
    return x.at[y].add(1.0), x.at[y].set(7.0), x.at[y].max(1.0)


def sliced(x: Array, y: Array) -> Array:
    return lax.dynamic_slice(x, (y, y), (2, 2))


def updated(x: Array, y: Array) -> Array:
    return lax.dynamic_update_slice(x, jnp.ones((2, 2)).astype(x.dtype), (y, y))


def looped(x: Array) -> Array:
    return lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[1] * c[0]), (x, jnp.int32(1)))


def branched(x: Array, y: Array) -> Array:
    return lax.switch(x, [lambda z: z + 1, lambda z: z * 2], y), lax.cond(
        x > 0, lambda z: z, lambda z: -z, y
    )


def booleans(x: Array, y: Array) -> Array:
    return x & y, x | y, x ^ y, ~x, x.any(), x.all(), x.sum(), jnp.where(x, 1.0, 2.0), x > y


def empty_sum(x: Array) -> Array:
    return x.sum(), x.sum(axis=0), x.max(axis=1)


def empty_joined(x: Array, y: Array) -> Array:
    return jnp.concatenate([x, y])


def empty_result(x: Array) -> Array:
    return x[:0], x[:1]


def scalar(x: Array) -> Array:
    return x * 2


def integer_matrix(x: Array) -> Array:
    return lax.dot(x, x, preferred_element_type=jnp.int32)


def convolved(x: Array) -> Array:
    kernel = jnp.arange(54.0).reshape(3, 3, 3, 2).astype(x.dtype) / 54
    return lax.conv_general_dilated(
        x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def pooled(x: Array) -> Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")


def transformed(x: Array) -> Array:
    return jnp.fft.rfft(x)


def strided(x: Array) -> Array:
    return x[::2, ::-1], x.T, jnp.roll(x, 1, axis=0), jnp.pad(x, 1)


def double_complex(x: Array) -> Array:
    return x * x


def small_floats(x: Array) -> Array:
    return x.astype(jnp.float8_e4m3fn)


def factorized(x: Array) -> Array:
    return jnp.linalg.cholesky(x)
