"""What JAX programs lower to, operation by operation, at the edges of each: `PROGRAMS`, by name.

For any engine: nothing here knows one. A program is a function of arrays with the arrays that it is
called with; x64 must be on while it is traced. Names say the operation, its dtype, and what is odd
about the inputs: `unary.exp.float32`, `scatter.add.drop`. The order is that of this file, and all
of it is the same in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.scipy import special

type Array = Any
type Function = Callable[..., Any]

NAN, INF = np.nan, np.inf
FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
EVERY = ("bool", *INTEGERS, *FLOATS, "complex64")


class Program(NamedTuple):
    """A function, and the arrays that it is called with."""

    function: Function
    inputs: tuple[Array, ...]


PROGRAMS: dict[str, Program] = {}


def _add(name: str, function: Function, *inputs: Array) -> None:
    assert name not in PROGRAMS, name
    PROGRAMS[name] = Program(function, tuple(map(np.asarray, inputs)))


def dtype_of(name: str) -> np.dtype[Any]:
    """numpy's dtype of a name."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _floats(name: str) -> Array:
    """Edges of a float's dtype, and numbers of every size: 96 of them. Denormal ones are apart: XLA
    itself takes some for zero, depending on what is around.
    """
    dtype = dtype_of(name)
    limits = ml_dtypes.finfo(dtype)
    big, small = float(limits.max), float(limits.tiny)
    edges = [0.0, NAN, INF, big, small, small * 2, small * 9, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 7.0]
    edges += [1e-5, 1e-3, 0.1, 0.99, 1.01, np.pi / 2, np.pi, 10.0, 20.0, 88.0, 104.0, 127.0]
    edges += [128.0, 255.5, 256.0, 32768.0, 65504.0, 1e5, 2.0**24 + 1, 2.0**31, 2.0**32, 2.0**63]
    edges += [1.0 + float(limits.eps), 1.0 - float(limits.epsneg)]
    values = _random(1).standard_normal(20) * np.exp(_random(2).uniform(-9, 9, 20))
    with np.errstate(all="ignore"):
        return np.concatenate([edges, np.negative(edges), values]).astype(dtype)


def _integers(name: str) -> Array:
    limits = np.iinfo(name)
    edges = [0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 100, 127]
    edges += [limits.max, limits.max - 1, limits.min, limits.min + 1, limits.max // 2 + 1]
    if limits.min < 0:
        edges += [-1, -2, -3, -7, -8, -32, -64, -100, -128]
    values = _random(3).integers(limits.min, limits.max, 10, name, endpoint=True)
    return np.concatenate([np.array(edges, name), values])


def _complexes() -> Array:
    parts = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-20, 1e20, 3e38, NAN, INF, -INF]
    values = [complex(x, y) for x, y in product(parts, parts)]
    return np.array(values, np.complex64)


def edges(name: str) -> Array:
    """One array of each dtype that holds its edges."""
    if name == "bool":
        return np.array([True, False, True, True, False, False, True])
    if name == "complex64":
        return _complexes()
    return _floats(name) if name in FLOATS else _integers(name)


def pairs(name: str) -> tuple[Array, Array]:
    """Each edge of a dtype beside each other one."""
    values = edges(name)
    if len(values) > 60:
        values = np.concatenate([values[:19], values[38:57], values[-4:]])
    left, right = np.meshgrid(values, values)
    return left.ravel(), right.ravel()


def some(name: str, *shape: int, seed: int = 0) -> Array:
    """Ordinary numbers of a dtype."""
    random = _random(seed)
    if name == "bool":
        return random.integers(0, 2, shape) > 0
    if name in INTEGERS:
        return random.integers(0 if name in UNSIGNED else -9, 10, shape).astype(name)
    values = random.standard_normal(shape)
    if name == "complex64":
        return (values + 1j * random.standard_normal(shape)).astype(name)
    return values.astype(dtype_of(name))


def _each(names: Sequence[str], kind: str, functions: dict[str, Function]) -> None:
    for (word, function), name in product(functions.items(), names):
        inputs = (edges(name),) if kind == "unary" else pairs(name)
        _add(f"{kind}.{word}.{name}", function, *inputs)


# One number to one number

_each(
    FLOATS,
    "unary",
    {
        "abs": jnp.abs,
        "neg": lax.neg,
        "sign": lax.sign,
        "floor": lax.floor,
        "ceil": lax.ceil,
        "round_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        "round_away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
        "trunc": jnp.trunc,
        "is_finite": lax.is_finite,
        "exp": lax.exp,
        "exp2": lax.exp2,
        "expm1": lax.expm1,
        "log": lax.log,
        "log1p": lax.log1p,
        "log2": jnp.log2,
        "log10": jnp.log10,
        "sin": lax.sin,
        "cos": lax.cos,
        "tan": lax.tan,
        "asin": lax.asin,
        "acos": lax.acos,
        "atan": lax.atan,
        "sinh": lax.sinh,
        "cosh": lax.cosh,
        "tanh": lax.tanh,
        "asinh": lax.asinh,
        "acosh": lax.acosh,
        "atanh": lax.atanh,
        "sqrt": lax.sqrt,
        "rsqrt": lax.rsqrt,
        "cbrt": lax.cbrt,
        "logistic": lax.logistic,
        "erf": lax.erf,
        "erfc": lax.erfc,
        "erf_inv": lax.erf_inv,
        "digamma": lax.digamma,
        "lgamma": lax.lgamma,
        "bessel_i0e": lax.bessel_i0e,
        "bessel_i1e": lax.bessel_i1e,
        "square": lax.square,
        "reciprocal": lax.reciprocal,
        "power_3": lambda x: lax.integer_pow(x, 3),
        "power_-2": lambda x: lax.integer_pow(x, -2),
        "power_7": lambda x: lax.integer_pow(x, 7),
        "reduce_precision_5_2": lambda x: lax.reduce_precision(x, 5, 2),
        "reduce_precision_8_7": lambda x: lax.reduce_precision(x, 8, 7),
        "reduce_precision_5_10": lambda x: lax.reduce_precision(x, 5, 10),
        "not_a_number": lambda x: (jnp.isnan(x), jnp.isinf(x), jnp.isneginf(x), jnp.signbit(x)),
        "nan_to_num": jnp.nan_to_num,
        "relu": jax.nn.relu,
        "gelu": jax.nn.gelu,
        "gelu_exact": lambda x: jax.nn.gelu(x, approximate=False),
        "silu": jax.nn.silu,
        "softplus": jax.nn.softplus,
        "elu": jax.nn.elu,
        "softmax": lambda x: jax.nn.softmax(x[-20:]),
        "logsumexp": lambda x: jax.nn.logsumexp(x[-20:]),
        "clamp": lambda x: lax.clamp(jnp.asarray(-1, x.dtype), x, jnp.asarray(1, x.dtype)),
        "clamp_crossed": lambda x: lax.clamp(jnp.asarray(1, x.dtype), x, jnp.asarray(-1, x.dtype)),
        "clamp_none": lambda x: lax.clamp(jnp.asarray(NAN, x.dtype), x, jnp.asarray(1, x.dtype)),
        "after": lambda x: lax.nextafter(x, jnp.zeros_like(x)) if x.dtype.itemsize > 2 else x,
        "barrier": lambda x: lax.optimization_barrier(x) + 1,
        "self_difference": lambda x: x - x,
        "self_quotient": lambda x: x / x,
        "self_equal": lambda x: (x == x, x != x, x <= x, x < x),
        "times_zero": lambda x: (x * 0, 0 * x),
        "plus_zero": lambda x: (x + 0.0, x - 0.0, 0.0 - x, x + -0.0),
        "over_constant": lambda x: (x / 3, x / 8, x / 0),
        "squared_root": lambda x: (jnp.sqrt(x) * jnp.sqrt(x), jnp.sqrt(x * x)),
        "exp_log": lambda x: (jnp.exp(jnp.log(x)), jnp.log(jnp.exp(x))),
        "twice_negated": lambda x: (lax.neg(lax.neg(x)), abs(-x), abs(abs(x))),
        "there_and_back": lambda x: x.astype(jnp.float64).astype(x.dtype),
        "distributed": lambda x: x * 3 + x * 5,
    },
)
_each(
    ("float32", "float64"),
    "unary",
    {
        "frexp": jnp.frexp,
        "modf": jnp.modf,
        "spacing": jnp.spacing,
        "sinc": jnp.sinc,
        "i0": jnp.i0,
        "ndtr": special.ndtr,
        "ndtri": special.ndtri,
        "log_ndtr": special.log_ndtr,
        "logit": special.logit,
        "entr": special.entr,
        "i1": special.i1,
        "polygamma_1": lambda x: special.polygamma(1, x),
        "zeta_2": lambda x: special.zeta(x, 2.0),
        "exp1": special.exp1,
        "expi": special.expi,
        "grad_tanh": lambda x: jax.vmap(jax.grad(jnp.tanh))(x),
        "grad_log1p": lambda x: jax.vmap(jax.grad(jnp.log1p))(x),
        "grad_lgamma": lambda x: jax.vmap(jax.grad(lax.lgamma))(x),
        "grad_sqrt": lambda x: jax.vmap(jax.grad(jnp.sqrt))(x),
        "grad_abs": lambda x: jax.vmap(jax.grad(jnp.abs))(x),
    },
)
_each(
    INTEGERS,
    "unary",
    {
        "abs": jnp.abs,
        "neg": lax.neg,
        "sign": lax.sign,
        "not": lax.bitwise_not,
        "popcnt": lax.population_count,
        "clz": lax.clz,
        "power_2": lambda x: lax.integer_pow(x, 2),
        "power_5": lambda x: lax.integer_pow(x, 5),
        "clamp": lambda x: lax.clamp(jnp.asarray(2, x.dtype), x, jnp.asarray(50, x.dtype)),
        "over_constant": lambda x: (
            lax.div(x, jnp.full_like(x, 3)),
            lax.rem(x, jnp.full_like(x, 3)),
        ),
        "over_zero": lambda x: (lax.div(x, jnp.zeros_like(x)), lax.rem(x, jnp.zeros_like(x))),
        "over_power": lambda x: (lax.div(x, jnp.full_like(x, 8)), lax.rem(x, jnp.full_like(x, 8))),
        "divided": lambda x: (x // 3, x % 5, x // jnp.asarray(8, x.dtype)),
        "shifted": lambda x: (x << 3, x >> 2, x >> jnp.asarray(100, x.dtype)),
        "self_quotient": lambda x: (lax.div(x, x), lax.rem(x, x)),
        "true_quotient": lambda x: x / 3,
        "parity": lambda x: (x & 1, x | 1, x ^ x),
        "sqrt": jnp.sqrt,
        "mean": jnp.mean,
    },
)
_each(
    SIGNED,
    "unary",
    {
        "over_minus_one": lambda x: (
            lax.div(x, jnp.full_like(x, -1)),
            lax.rem(x, jnp.full_like(x, -1)),
        ),
    },
)
_each(
    ("complex64",),
    "unary",
    {
        name: getattr(lax, name)
        for name in [
            "neg",
            "sign",
            "abs",
            "exp",
            "log",
            "expm1",
            "log1p",
            "sin",
            "cos",
            "tan",
            "tanh",
            "sqrt",
            "rsqrt",
            "conj",
            "real",
            "imag",
            "sinh",
            "cosh",
            "asin",
            "acos",
            "atan",
            "asinh",
            "acosh",
            "atanh",
            "logistic",
            "square",
            "reciprocal",
        ]
    }
    | {
        "angle": jnp.angle,
        "power_3": lambda x: lax.integer_pow(x, 3),
        "finite": lambda x: (jnp.isfinite(x), jnp.isnan(x)),
        "rotated": lambda x: x * 1j,
        "parts": lambda x: lax.complex(x.imag, x.real),
        "sum": lambda x: (x[40:60].sum(), x[40:44].prod(), x.mean()),
    },
)

# Two numbers to one

_COMPARISONS = {
    "compare": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
    "max": lax.max,
    "min": lax.min,
}
_ARITHMETIC = {"add": lax.add, "sub": lax.sub, "mul": lax.mul}
_each(
    FLOATS,
    "binary",
    {
        **_COMPARISONS,
        **_ARITHMETIC,
        "div": lax.div,
        "rem": lax.rem,
        "pow": lax.pow,
        "atan2": lax.atan2,
        "mod": jnp.mod,
        "floor_divide": jnp.floor_divide,
        "fmax": jnp.fmax,
        "hypot": jnp.hypot,
        "copysign": jnp.copysign,
        "logaddexp": jnp.logaddexp,
        "heaviside": jnp.heaviside,
        "total_order": lambda x, y: (
            lax.eq_to_p.bind(x, y),
            lax.le_to_p.bind(x, y),
            lax.lt_to_p.bind(x, y),
        ),
        "where": lambda x, y: (jnp.where(x > y, x, y), jnp.where(x != x, y, x)),
        "fused": lambda x, y: x * y + x,
        "fused_less": lambda x, y: x - x * y,
    },
)
_each(
    ("float32", "float64"),
    "binary",
    {
        "nextafter": lax.nextafter,
        "igamma": lax.igamma,
        "igammac": lax.igammac,
        "xlogy": special.xlogy,
        "xlog1py": special.xlog1py,
        "zeta": lax.zeta,
        "betaln": special.betaln,
        "ldexp": lambda x, y: jnp.ldexp(
            x, jnp.clip(jnp.nan_to_num(y), -300, 300).astype(jnp.int32)
        ),
        "igamma_grad": lax.igamma_grad_a,
        "random_gamma_grad": lax.random_gamma_grad,
        "polygamma": lax.polygamma,
    },
)
_each(
    INTEGERS,
    "binary",
    {
        **_COMPARISONS,
        **_ARITHMETIC,
        "div": lax.div,
        "rem": lax.rem,
        "and": lax.bitwise_and,
        "or": lax.bitwise_or,
        "xor": lax.bitwise_xor,
        "shift_left": lax.shift_left,
        "shift_right_logical": lax.shift_right_logical,
        "shift_right_arithmetic": lax.shift_right_arithmetic,
        "floor_divide": jnp.floor_divide,
        "mod": jnp.mod,
        "power": lambda x, y: jnp.power(x, jnp.abs(y) % 9),
        "left_shift": jnp.left_shift,
        "right_shift": jnp.right_shift,
    },
)
_each(("int32", "uint8", "int64"), "binary", {"gcd": jnp.gcd, "lcm": jnp.lcm})
_each(
    ("bool",),
    "binary",
    {
        **_COMPARISONS,
        "and": lax.bitwise_and,
        "or": lax.bitwise_or,
        "xor": lax.bitwise_xor,
        "plus": jnp.add,
        "times": jnp.multiply,
        "power": jnp.power,
        "maximum": jnp.maximum,
    },
)
_each(
    ("complex64",),
    "binary",
    {
        **_ARITHMETIC,
        "div": lax.div,
        "pow": lax.pow,
        "equal": lambda x, y: (x == y, x != y),
        "maximum": jnp.maximum,
    },
)
_BASES = np.linspace(0.1, 9.0, 40)
for _name in ("float32", "float64"):
    _add(
        f"special.betainc.{_name}",
        lax.regularized_incomplete_beta_p.bind,
        *(np.asarray(each, _name) for each in (_BASES, _BASES[::-1], np.linspace(0, 1, 40))),
    )
    _a, _x = np.meshgrid(np.array([0.1, 0.5, 1, 3, 10, 100]), np.array([0, 1e-3, 0.5, 1, 5, 50]))
    for _word in ("igamma", "igammac", "igamma_grad_a", "random_gamma_grad"):
        _add(
            f"special.{_word}.{_name}",
            getattr(lax, _word),
            _a.ravel().astype(_name),
            _x.ravel().astype(_name),
        )
    _large = np.array(
        [1e2, -1e3, 1e4, 3e4, -1e5, 1e6, 1e7, 1e8, 9.9e8, 1e10, 1e15, 1e22, -1e30, 3e38]
    )
    for _word in ("sin", "cos", "tan"):
        _add(f"large.{_word}.{_name}", getattr(lax, _word), _large.astype(_name))
    _steps = np.linspace(-3, 3, 121)
    for _word in [
        "exp",
        "expm1",
        "log1p",
        "sin",
        "cos",
        "tan",
        "tanh",
        "erf",
        "erfc",
        "erf_inv",
        "asin",
        "acos",
        "atan",
        "lgamma",
        "digamma",
        "cbrt",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "logistic",
    ]:
        _add(f"near.{_word}.{_name}", getattr(lax, _word), _steps.astype(_name))
        _add(f"small.{_word}.{_name}", getattr(lax, _word), np.logspace(-30, 0, 61).astype(_name))

# From dtype to dtype

for _name, _other in product(EVERY, EVERY):
    _add(
        f"convert.{_name}.{_other}",
        lambda x, to=_other: lax.convert_element_type(x, dtype_of(to)),
        edges(_name),
    )
for _name, _other in product(EVERY[1:-1], EVERY[1:-1]):
    if dtype_of(_name) != dtype_of(_other):
        _values = edges(_name)
        _ratio = dtype_of(_other).itemsize // dtype_of(_name).itemsize
        if _ratio > 1:
            _values = _values[: len(_values) // _ratio * _ratio].reshape(-1, _ratio)
        _add(
            f"bitcast.{_name}.{_other}",
            lambda x, to=_other: lax.bitcast_convert_type(x, dtype_of(to)),
            _values,
        )
_HALFWAY = np.array(
    [2**24 + 1, 2**24 + 3, 2**25 + 2, 2**53 + 1, 2**53 + 3, 2**62 + 1, 2**63 - 1, 257, 2049, 65519,
     65520, 65535, 131071, 33554431]
)  # fmt: skip
for _name in FLOATS:
    _add(
        f"rounding.int64.{_name}",
        lambda x, to=_name: (x.astype(dtype_of(to)), (-x).astype(dtype_of(to))),
        _HALFWAY,
    )
    _add(
        f"rounding.float64.{_name}",
        lambda x, to=_name: x.astype(dtype_of(to)),
        np.concatenate(
            [_HALFWAY.astype(np.float64), 1 + np.arange(40) * 2.0**-14, np.arange(40) * 2.0**-27]
        ),
    )
    _add(
        f"rounding.float32.{_name}",
        lambda x, to=_name: x.astype(dtype_of(to)),
        np.concatenate([1 + np.arange(64) * 2.0**-14, np.arange(64) * 2.0**-27]).astype(np.float32),
    )

# Numbers of an array together

_REDUCERS: dict[str, Function] = {
    "sum": jnp.sum,
    "prod": jnp.prod,
    "max": jnp.max,
    "min": jnp.min,
    "argmax": jnp.argmax,
    "argmin": jnp.argmin,
}


def _matrix(name: str) -> Array:
    """Rows with ties, zeros of both signs, numbers that are none, and more columns than a lane."""
    rows = [
        [1, 3, 3, 2, 3, 1, 0, 0, 2],
        [5, 4, 3, 2, 1, 0, 7, 7, 7],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
        [1, 2, 3, 4, 5, 6, 7, 8, 9],
    ]
    matrix = np.array(rows, dtype_of(name))
    if name in FLOATS:
        matrix[0, 3], matrix[0, 6] = NAN, NAN
        matrix[2, ::2] = -0.0
        matrix[1, 4], matrix[1, 5] = INF, -INF
    return matrix


for _name, (_word, _function) in product((*INTEGERS, *FLOATS, "bool"), _REDUCERS.items()):
    if _name == "bool" and _word in ("sum", "prod"):
        continue
    for _axis in (None, 0, 1):
        _add(
            f"reduce.{_word}.{_axis}.{_name}",
            lambda x, f=_function, a=_axis: f(x, axis=a),
            _matrix(_name),
        )
for _name in ("float32", "int32", "bfloat16", "uint8"):
    for _word, _function in _REDUCERS.items():
        _shape = (3, 0) if not _word.startswith("arg") else (0, 3)
        _kept = 1
        if _word in ("sum", "prod"):
            _add(
                f"empty.{_word}.{_name}",
                lambda x, f=_function: f(x, axis=1),
                np.zeros((3, 0), dtype_of(_name)),
            )
        _add(
            f"empty.{_word}_of_none.{_name}",
            lambda x, f=_function: f(x, axis=1),
            np.zeros((0, 3), dtype_of(_name)),
        )
        _add(f"alone.{_word}.{_name}", lambda x, f=_function: f(x, axis=1), some(_name, 5, 1))
        _add(f"long.{_word}.{_name}", lambda x, f=_function: f(x), some(_name, 1031))
        _add(f"long.{_word}_rows.{_name}", lambda x, f=_function: f(x, axis=1), some(_name, 3, 517))
        _add(
            f"long.{_word}_columns.{_name}",
            lambda x, f=_function: f(x, axis=0),
            some(_name, 517, 3),
        )
for _word in ("any", "all"):
    for _axis in (None, 0, 1):
        _function = getattr(jnp, _word)
        _add(
            f"reduce.{_word}.{_axis}.bool",
            lambda x, f=_function, a=_axis: f(x, axis=a),
            some("bool", 4, 9),
        )
_add(
    "reduce.xor.int32",
    lambda x: lax.reduce(x, np.int32(0), lax.bitwise_xor, (0,)),
    some("int32", 7, 5),
)
_add(
    "reduce.xor.bool", lambda x: lax.reduce(x, np.False_, lax.bitwise_xor, (0,)), some("bool", 7, 5)
)
_add(
    "reduce.sum.bool", lambda x: (x.sum(), x.sum(axis=0), jnp.count_nonzero(x)), some("bool", 7, 5)
)
_add(
    "reduce.wide_init.float32",
    lambda x: lax.reduce(x, np.float32(100), lax.max, (0,)),
    some("float32", 7, 5),
)
_add("reduce.two_axes.float32", lambda x: x.max(axis=(0, 2)), some("float32", 3, 4, 5))
_add(
    "reduce.two_operands.float32",
    lambda x, y: lax.reduce(
        (x, y), (np.float32(0), np.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)
    ),
    some("float32", 4, 6),
    some("float32", 4, 6, seed=1),
)
_add(
    "reduce.sum_of_squares.float32",
    lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b, (0,)),
    some("float32", 4, 6),
)
for _word in [
    "mean",
    "var",
    "std",
    "median",
    "nanmean",
    "nanmax",
    "nanmin",
    "nansum",
    "nanprod",
    "nanargmax",
    "nanargmin",
    "nanstd",
    "ptp",
    "nanmedian",
    "nancumsum",
    "diff",
    "ediff1d",
]:
    _add(
        f"statistics.{_word}.float32",
        getattr(jnp, _word),
        np.array([3, NAN, 1, 2, 8, -0.0, 2], np.float32),
    )
    _add(f"statistics.{_word}_plain.float32", getattr(jnp, _word), some("float32", 11))
_add(
    "statistics.quantile.float32",
    lambda x: jnp.quantile(x, jnp.array([0, 0.25, 0.5, 1])),
    some("float32", 11),
)
_add(
    "statistics.percentile.float32", lambda x: jnp.percentile(x, 30, axis=0), some("float32", 11, 3)
)
_add(
    "statistics.average.float32", lambda x: jnp.average(x, weights=jnp.abs(x)), some("float32", 11)
)
_add("statistics.cov.float32", jnp.cov, some("float32", 3, 9))
_add("statistics.corrcoef.float32", jnp.corrcoef, some("float32", 3, 9))
_add("statistics.histogram.float32", lambda x: jnp.histogram(x, bins=5), some("float32", 40))
_add(
    "statistics.digitize.float32",
    lambda x: jnp.digitize(x, jnp.array([-1.0, 0, 1])),
    some("float32", 40),
)
_add(
    "statistics.bincount.int32",
    lambda x: jnp.bincount(x, length=6),
    np.array([1, 2, 9, -1, 2, 0], np.int32),
)
for _word, _name, _reverse in product(
    ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"),
    ("float32", "float64", "bfloat16", "float16", "int32", "uint8", "int64"),
    (False, True),
):
    if _word == "cumlogsumexp" and _name not in FLOATS:
        continue
    _function = getattr(lax, _word)
    _add(
        f"running.{_word}.{_name}{'.reverse' * _reverse}",
        lambda x, f=_function, r=_reverse: (
            f(x, axis=0, reverse=r),
            f(x, axis=1, reverse=r),
        ),
        _matrix(_name),
    )
_add("running.long.float32", lambda x: jnp.cumsum(x), some("float32", 1031))
_add("running.long.int32", lambda x: jnp.cumsum(x), some("int32", 1031))
_add("running.long_max.float32", lambda x: lax.cummax(x), some("float32", 1031))
_add("running.complex64", lambda x: (jnp.cumsum(x), jnp.cumprod(x)), some("complex64", 9))
_add("running.bool", lambda x: jnp.cumsum(x), some("bool", 19))
_add(
    "running.associative.float32",
    lambda x: lax.associative_scan(lambda a, b: a * b + b, x),
    some("float32", 13),
)
_add(
    "running.associative_pairs.float32",
    lambda x: lax.associative_scan(
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, x + 1), axis=0
    ),
    some("float32", 8, 3),
)
_add("running.unwrap.float32", jnp.unwrap, some("float32", 13) * np.float32(6))
_add("running.trapezoid.float32", jnp.trapezoid, some("float32", 13))

# Order


def _ties(name: str) -> Array:
    values = np.array([3, 1, 3, 1, 2, 3, 0, 0, 2, 2, 1, 7, 5], dtype_of(name))
    if name in FLOATS:
        values[[0, 5]], values[6], values[7] = NAN, -0.0, 0.0
        values[11], values[12] = INF, -INF
    return values


for _name in (*INTEGERS, *FLOATS, "bool"):
    _values = _ties(_name)
    _add(f"sort.plain.{_name}", jnp.sort, _values)
    _add(f"sort.descending.{_name}", lambda x: jnp.sort(x, descending=True), _values)
    _add(f"sort.argsort.{_name}", jnp.argsort, _values)
    _add(f"sort.argsort_descending.{_name}", lambda x: jnp.argsort(x, descending=True), _values)
    _add(f"sort.unstable.{_name}", lambda x: lax.sort(x, is_stable=False), _values)
    _add(f"sort.edges.{_name}", jnp.sort, edges(_name))
    if _name != "bool":
        _add(f"sort.top_k.{_name}", lambda x: lax.top_k(x, 4), _values)
        _add(f"sort.top_all.{_name}", lambda x: lax.top_k(x, x.shape[0]), edges(_name))
_add("sort.plain.complex64", jnp.sort, np.array([1 + 2j, 1 - 2j, 0, -1, 1 + 2j, NAN], np.complex64))
for _name in ("float32", "int32"):
    _rows = np.stack([_ties(_name), _ties(_name)[::-1]])
    _add(f"sort.axis_0.{_name}", lambda x: jnp.sort(x, axis=0), _rows.T)
    _add(f"sort.axis_1.{_name}", lambda x: jnp.sort(x, axis=1), _rows)
    _add(f"sort.argsort_rows.{_name}", lambda x: jnp.argsort(x, axis=1), _rows)
    _add(f"sort.top_rows.{_name}", lambda x: lax.top_k(x, 3), _rows)
    _add(f"sort.empty.{_name}", jnp.sort, np.zeros((3, 0), _name))
    _add(f"sort.one.{_name}", jnp.argsort, np.zeros((1,), _name))
    _add(
        f"sort.two_keys.{_name}",
        lambda x, y, z: lax.sort((x, y, z), num_keys=2),
        _ties(_name),
        _ties(_name)[::-1].copy(),
        np.arange(13, dtype=np.int32),
    )
    _add(
        f"sort.values_follow.{_name}",
        lambda x, y: lax.sort((x, y), num_keys=1),
        _ties(_name),
        some("float32", 13),
    )
    _add(
        f"sort.lexsort.{_name}",
        lambda x, y: jnp.lexsort((x, y)),
        _ties(_name),
        _ties(_name)[::-1].copy(),
    )
    _add(
        f"sort.unique.{_name}",
        lambda x: jnp.unique(x, size=9, return_counts=True, return_inverse=True),
        _ties(_name),
    )
    _add(f"sort.partition.{_name}", lambda x: jnp.partition(x, 3)[3], _ties(_name))
    _sorted = np.sort(_ties(_name))
    for _method, _side in product(
        ("scan", "sort", "compare_all", "scan_unrolled"), ("left", "right")
    ):
        _add(
            f"sort.searchsorted.{_method}.{_side}.{_name}",
            lambda x, y, m=_method, s=_side: jnp.searchsorted(x, y, method=m, side=s),
            _sorted,
            _ties(_name),
        )
_add("sort.nonzero.int32", lambda x: jnp.nonzero(x, size=9, fill_value=-1), _ties("int32"))
_add("sort.approx_max.float32", lambda x: lax.approx_max_k(x, 3), some("float32", 40))

# Places

_PLACES = {
    "inside": np.array([0, 3, 1, 2], np.int32),
    "outside": np.array([0, 3, -1, 9, 3, -9, 2**31 - 1, -(2**31), 4, -4, -5], np.int32),
    "repeated": np.array([2, 2, 2, 0, 2], np.int32),
    "none": np.zeros((0,), np.int32),
}
_MODES = ("fill", "clip", "promise_in_bounds", None)
for (_where, _indices), _mode in product(_PLACES.items(), _MODES):
    if _where == "outside" and _mode == "promise_in_bounds":
        continue
    _add(
        f"gather.at.{_where}.{_mode}",
        lambda x, i, m=_mode: (x.at[i].get(mode=m), x.at[:, i].get(mode=m), x.at[i, i].get(mode=m)),
        some("float32", 4, 4),
        _indices,
    )
    _add(
        f"gather.along.{_where}.{_mode}",
        lambda x, i, m=_mode: jnp.take_along_axis(x, jnp.stack([i, i[::-1]]), axis=1, mode=m),
        some("float32", 2, 4),
        _indices,
    )
_INDEX_DTYPES = {name: np.array([0, 3, 4, 100, 127], name) for name in INTEGERS} | {
    "int8": np.array([0, 3, 4, 127, -1, -128], np.int8),
    "uint8": np.array([0, 3, 4, 255, 128], np.uint8),
    "uint16": np.array([0, 3, 65535], np.uint16),
    "uint32": np.array([0, 3, 4, 2**32 - 1, 2**31], np.uint32),
    "int64": np.array([0, 3, 2**32, -(2**32), 2**63 - 1, -(2**63), 2**32 + 1], np.int64),
    "uint64": np.array([0, 3, 2**32, 2**63, 2**64 - 1, 2**32 + 1], np.uint64),
}
for _name, _indices in _INDEX_DTYPES.items():
    for _mode in ("fill", "clip"):
        _add(
            f"gather.index.{_name}.{_mode}",
            lambda x, i, m=_mode: x.at[i].get(mode=m),
            some("float32", 4, 4),
            _indices,
        )
        _add(
            f"scatter.index.{_name}.{_mode}",
            lambda x, i, m=_mode: x.at[i].add(1.0, mode=m),
            some("float32", 4, 4),
            _indices,
        )
    _add(
        f"slice.index.{_name}",
        lambda x, i: tuple(
            lax.dynamic_slice(x, (i[n], i[-1 - n]), (2, 3)) for n in range(i.shape[0])
        ),
        some("float32", 4, 4),
        _indices,
    )
    _add(
        f"slice.update_index.{_name}",
        lambda x, i: tuple(
            lax.dynamic_update_slice(x, jnp.ones((2, 3), x.dtype), (i[n], i[-1 - n]))
            for n in range(i.shape[0])
        ),
        some("float32", 4, 4),
        _indices,
    )
for _name in EVERY:
    _indices = _PLACES["outside"]
    _add(
        f"gather.dtype.{_name}",
        lambda x, i: (x[i], x.at[i].get(mode="fill")),
        some(_name, 4, 3),
        _indices,
    )
    _add(
        f"scatter.dtype.{_name}",
        lambda x, i: x.at[i].set(x[0], mode="drop"),
        some(_name, 4, 3),
        _indices,
    )
    if _name != "bool":
        _add(
            f"scatter.add_dtype.{_name}",
            lambda x, i: x.at[i].add(x[0]),
            some(_name, 4, 3),
            _indices,
        )
    _add(
        f"slice.dtype.{_name}",
        lambda x, i: (
            lax.dynamic_slice(x, (i, i), (2, 2)),
            lax.dynamic_update_slice(x, x[:2, :2], (i, i)),
        ),
        some(_name, 4, 3),
        np.array(3, np.int32),
    )
_UPDATES = ("set", "add", "multiply", "min", "max", "subtract", "divide")
for (_where, _indices), _update, _mode in product(
    _PLACES.items(), _UPDATES, ("drop", "clip", None)
):
    if _update == "set" and _where in ("repeated", "outside") and _mode == "clip":
        continue  # which of several is kept is nobody's promise
    for _name in ("float32", "int32"):
        if _update == "divide" and _name == "int32":
            continue
        _add(
            f"scatter.{_update}.{_where}.{_mode}.{_name}",
            lambda x, i, y, u=_update, m=_mode: getattr(x.at[i], u)(y[: i.shape[0]], mode=m),
            some(_name, 4, 3),
            _indices,
            some(_name, 11, 3, seed=1),
        )
_add(
    "scatter.values.float32",
    lambda x, i: (x.at[i].max(1.0), x.at[i].min(0.0), x.at[i].multiply(2.0), x.at[i].add(NAN)),
    np.array([NAN, 1, INF, -0.0], np.float32),
    _PLACES["repeated"],
)
for _word in ("max", "min"):
    _add(
        f"scatter.{_word}_of_none.float32",
        lambda x, i, y, w=_word: getattr(x.at[i], w)(y),
        np.array([NAN, 1, INF, -0.0, 0.0, 2], np.float32),
        np.array([0, 1, 2, 3, 4, 5], np.int32),
        np.array([1, NAN, NAN, 0.0, -0.0, 5], np.float32),
    )
_add(
    "scatter.apply.float32",
    lambda x, i: x.at[i].apply(jnp.exp),
    some("float32", 4),
    np.array([1, 3, 7], np.int32),
)
_add(
    "scatter.power.float32",
    lambda x, i: x.at[i].power(2.0),
    some("float32", 4),
    np.array([1, 3, 7], np.int32),
)
_add(
    "scatter.unique.float32",
    lambda x, i: x.at[i].set(5.0, unique_indices=True, indices_are_sorted=True),
    some("float32", 9),
    np.array([1, 3, 7], np.int32),
)
_add(
    "scatter.both.float32",
    lambda x, i: x.at[i, i[::-1]].add(1.0),
    some("float32", 4, 4),
    _PLACES["outside"],
)
_add(
    "scatter.columns.float32",
    lambda x, i: x.at[:, i].add(1.0),
    some("float32", 4, 4),
    _PLACES["outside"],
)
_add(
    "scatter.alone.float32",
    lambda x, i: x.at[i[0]].set(1.0),
    some("float32", 4, 4),
    np.array([9], np.int32),
)
_add(
    "scatter.scalar.float32",
    lambda x, i: (x.at[i].set(1.0), x.at[-1].set(2.0), x.at[i, 1].add(3.0)),
    some("float32", 4, 4),
    np.int32(-2),
)
_add(
    "scatter.bool",
    lambda x, i: x.at[i].set(True),
    some("bool", 9),
    np.array([1, 3, 7, 20], np.int32),
)
_add(
    "scatter.boolean_mask.float32",
    lambda x, m: x.at[m].set(0.0),
    some("float32", 9),
    some("bool", 9),
)
_add(
    "scatter.boolean_max",
    lambda x, i, y: x.at[i].max(y),
    some("bool", 4),
    _PLACES["repeated"],
    some("bool", 5, seed=2),
)
for _mode in ("drop", "clip"):
    _numbers = lax.ScatterDimensionNumbers((0, 1), (), (0, 1))
    _kept_mode = lax.GatherScatterMode.from_any(_mode if _mode == "clip" else "fill")
    for _word in (
        "scatter",
        "scatter_add",
        "scatter_min",
        "scatter_max",
        "scatter_mul",
        "scatter_sub",
    ):
        if hasattr(lax, _word):
            _function = getattr(lax, _word)
            _add(
                f"scatter.window.{_word}.{_mode}",
                lambda x, i, y, f=_function, m=_kept_mode, n=_numbers: tuple(
                    f(x, each, y, n, mode=m) for each in i
                ),
                some("float32", 5, 5),
                np.array([[0, 0], [4, 4], [-1, 2], [3, 3], [9, -9], [2, 4]], np.int32),
                some("float32", 2, 2, seed=1),
            )
    _add(
        f"gather.window.{_mode}",
        lambda x, i, m=_kept_mode: lax.gather(
            x, i, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 2), mode=m
        ),
        some("float32", 5, 5),
        np.array([[0, 0], [4, 4], [-1, 2], [3, 3], [9, -9], [2, 4]], np.int32),
    )
    _add(
        f"gather.batched.{_mode}",
        lambda x, i, m=_kept_mode: jax.vmap(
            lambda a, b: lax.gather(a, b, lax.GatherDimensionNumbers((1,), (), (0,)), (2,), mode=m)
        )(x, i),
        some("float32", 3, 5),
        np.array([[[0], [4]], [[-1], [3]], [[9], [-9]]], np.int32),
    )
    _add(
        f"scatter.batched.{_mode}",
        lambda x, i, m=_mode: jax.vmap(lambda a, b: a.at[b].add(1.0, mode=m))(x, i),
        some("float32", 3, 5),
        np.array([[0, 4], [-1, 3], [9, -9]], np.int32),
    )
_add(
    "gather.whole",
    lambda x, i: x[i],
    some("float32", 4, 3, 2),
    np.array([[0, 9], [-1, 2]], np.int32),
)
_add("gather.one", lambda x, i: (x[i], x[i, i], x[:, i]), some("float32", 4, 3), np.int32(7))
_add(
    "gather.of_empty",
    lambda x, i: x.at[i].get(mode="fill", fill_value=3),
    np.zeros((0, 3), np.float32),
    np.array([0, 1], np.int32),
)
_add(
    "gather.no_slices", lambda x, i: x[i], np.zeros((4, 0), np.float32), np.array([0, 9], np.int32)
)
_add(
    "gather.one_row",
    lambda x, i: (x[i], jnp.take(x, i, axis=0)),
    some("float32", 1, 3),
    np.array([0, 1, -1, -2], np.int32),
)
_add(
    "gather.take_modes",
    lambda x, i: (jnp.take(x, i), jnp.take(x, i, mode="clip"), jnp.take(x, i, mode="wrap")),
    some("float32", 4, 3),
    np.array([0, 11, 12, -1, -13, 99], np.int32),
)
_add(
    "gather.choose",
    lambda i, x: jnp.choose(i, [x, x + 1, x + 2], mode="clip"),
    np.array([0, 2, 5, -1], np.int32),
    some("float32", 4),
)
_add("gather.one_hot", lambda i: jax.nn.one_hot(i, 4), np.array([0, 3, 4, -1], np.int32))
_add(
    "scatter.of_empty",
    lambda x, i: x.at[i].add(1.0),
    np.zeros((0, 3), np.float32),
    np.array([0, 1], np.int32),
)
_add(
    "slice.of_empty",
    lambda x, i: lax.dynamic_slice(x, (i, i), (0, 2)),
    np.zeros((0, 3), np.float32),
    np.int32(4),
)
_add(
    "slice.empty_of",
    lambda x, i: lax.dynamic_update_slice(x, jnp.zeros((0, 2), x.dtype), (i, i)),
    some("float32", 4, 3),
    np.int32(4),
)
_add(
    "slice.negative",
    lambda x, i: (
        lax.dynamic_slice(x, (i, i + 9), (2, 2)),
        lax.dynamic_index_in_dim(x, i),
        lax.dynamic_update_index_in_dim(x, x[0], i, 0),
    ),
    some("float32", 4, 3),
    np.int32(-7),
)
_add(
    "slice.rank_4",
    lambda x, i: (
        lax.dynamic_slice(x, (i, 0, i, i), (1, 3, 2, 2)),
        lax.dynamic_update_slice(x, x[:1, :2, :2, :2], (i, i, 0, i)),
    ),
    some("float32", 3, 3, 4, 4),
    np.int32(2),
)
for _word in ("segment_sum", "segment_prod", "segment_max", "segment_min"):
    _function = getattr(jax.ops, _word)
    for _name in ("float32", "int32"):
        _add(
            f"segment.{_word}.{_name}",
            lambda x, i, f=_function: f(x, i, num_segments=4),
            some(_name, 6, 2),
            np.array([0, 0, 3, -1, 9, 1], np.int32),
        )

# Windows, convolutions and products

_WINDOWS: dict[str, tuple[Function, float]] = {
    "max": (lax.max, -INF),
    "min": (lax.min, INF),
    "add": (lax.add, 0.0),
    "mul": (lax.mul, 1.0),
}
_POOLS: dict[str, dict[str, Any]] = {
    "valid": {"window_dimensions": (2, 3), "window_strides": (1, 1), "padding": "VALID"},
    "same": {"window_dimensions": (3, 3), "window_strides": (2, 2), "padding": "SAME"},
    "dilated": {
        "window_dimensions": (2, 2),
        "window_strides": (1, 2),
        "padding": ((1, 2), (0, 1)),
        "base_dilation": (2, 1),
        "window_dilation": (1, 2),
    },
    "negative": {
        "window_dimensions": (2, 2),
        "window_strides": (1, 1),
        "padding": ((-1, 1), (0, -1)),
    },
}
for (_word, (_function, _start)), (_kind, _options), _name in product(
    _WINDOWS.items(), _POOLS.items(), ("float32", "int32", "bfloat16", "uint8")
):
    _init: Any = _start
    if _name in INTEGERS and abs(_start) == INF:
        _init = np.iinfo(_name).max if _start > 0 else np.iinfo(_name).min
    _add(
        f"window.{_word}.{_kind}.{_name}",
        lambda x, f=_function, i=_init, o=_options: lax.reduce_window(
            x, np.asarray(i, x.dtype), f, **o
        ),
        some(_name, 6, 7),
    )
_add(
    "window.nan.float32",
    lambda x: (
        lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "SAME"),
        lax.reduce_window(x, jnp.inf, lax.min, (2,), (1,), "SAME"),
    ),
    np.array([1, NAN, 3, -0.0, 0.0, INF, -INF, 2], np.float32),
)
_add(
    "window.init.float32",
    lambda x: lax.reduce_window(x, np.float32(0.5), lax.max, (2, 2), (2, 2), "SAME"),
    some("float32", 5, 5),
)
_add(
    "window.custom.float32",
    lambda x: lax.reduce_window(x, np.float32(0), lambda a, b: a + b * b, (2,), (1,), "VALID"),
    some("float32", 9),
)
_add(
    "window.two.float32",
    lambda x, y: lax.reduce_window(
        (x, y),
        (np.float32(0), np.float32(-INF)),
        lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])),
        (2,),
        (1,),
        "VALID",
    ),
    some("float32", 9),
    some("float32", 9, seed=1),
)
_add(
    "window.empty.float32",
    lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 1), "VALID"),
    some("float32", 3, 2),
)
_add(
    "window.or.bool",
    lambda x: lax.reduce_window(x, np.False_, lax.bitwise_or, (2, 2), (1, 1), "VALID"),
    some("bool", 5, 5),
)
_add(
    "window.rank_4.float32",
    lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
    some("float32", 2, 7, 7, 3),
)
_add(
    "window.rank_5.float32",
    lambda x: lax.reduce_window(
        x, np.float32(0), lax.add, (1, 2, 2, 2, 1), (1, 2, 2, 2, 1), "SAME"
    ),
    some("float32", 1, 5, 5, 5, 2),
)
_add(
    "window.max_grad.float32",
    jax.grad(
        lambda x: (
            lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") ** 2
        ).sum()
    ),
    np.round(some("float32", 1, 6, 6, 2)),
)
_add(
    "window.max_grad_overlapping.float32",
    jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "VALID") ** 2).sum()),
    np.round(some("float32", 16)),
)
_add(
    "window.min_grad.float32",
    jax.grad(
        lambda x: (
            lax.reduce_window(x, jnp.inf, lax.min, (2, 2), (2, 2), ((1, 1), (0, 0))) ** 2
        ).sum()
    ),
    np.round(some("float32", 6, 6)),
)
_add(
    "window.max_jvp.float32",
    lambda x: jax.jvp(
        lambda y: lax.reduce_window(y, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"), (x,), (x * 2,)
    ),
    np.round(some("float32", 5, 5)),
)
_add(
    "window.mean_grad.float32",
    jax.grad(lambda x: (lax.reduce_window(x, 0.0, lax.add, (3, 3), (2, 2), "SAME") ** 2).sum()),
    some("float32", 6, 6),
)

_CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 8, 9), (4, 3, 3, 3), {"window_strides": (1, 1), "padding": "VALID"}),
    "strided": ((2, 3, 8, 9), (4, 3, 3, 2), {"window_strides": (2, 3), "padding": "SAME"}),
    "dilated": (
        (1, 3, 8, 9),
        (4, 3, 2, 2),
        {"window_strides": (1, 1), "padding": "SAME", "rhs_dilation": (2, 3)},
    ),
    "transposed": (
        (1, 3, 5, 5),
        (4, 3, 3, 3),
        {"window_strides": (1, 1), "padding": ((2, 1), (1, 2)), "lhs_dilation": (2, 2)},
    ),
    "all": (
        (1, 4, 7, 6),
        (6, 2, 2, 3),
        {
            "window_strides": (2, 1),
            "padding": ((3, -1), (1, 2)),
            "lhs_dilation": (2, 1),
            "rhs_dilation": (1, 2),
            "feature_group_count": 2,
        },
    ),
    "grouped": (
        (2, 6, 5, 5),
        (6, 2, 3, 3),
        {"window_strides": (1, 1), "padding": "SAME", "feature_group_count": 3},
    ),
    "depthwise": (
        (2, 6, 5, 5),
        (6, 1, 3, 3),
        {"window_strides": (1, 1), "padding": "SAME", "feature_group_count": 6},
    ),
    "depthwise_many": (
        (2, 3, 5, 5),
        (6, 1, 3, 3),
        {"window_strides": (2, 2), "padding": "SAME", "feature_group_count": 3},
    ),
    "batch_grouped": (
        (4, 3, 5, 5),
        (6, 3, 3, 3),
        {"window_strides": (1, 1), "padding": "SAME", "batch_group_count": 2},
    ),
    "negative": (
        (1, 2, 8, 8),
        (3, 2, 3, 3),
        {"window_strides": (1, 1), "padding": ((-2, 1), (-1, -1))},
    ),
    "line": ((2, 3, 11), (4, 3, 3), {"window_strides": (2,), "padding": "SAME"}),
    "volume": ((1, 2, 5, 5, 4), (3, 2, 2, 3, 2), {"window_strides": (1, 2, 1), "padding": "SAME"}),
    "point": ((2, 3), (4, 3), {"window_strides": (), "padding": ()}),
    "empty": ((0, 3, 8, 9), (4, 3, 3, 3), {"window_strides": (1, 1), "padding": "VALID"}),
    "too_small": ((1, 3, 2, 2), (4, 3, 3, 3), {"window_strides": (1, 1), "padding": "VALID"}),
}
for (_word, (_left, _right, _options)), _name in product(
    _CONVOLUTIONS.items(),
    ("float32", "bfloat16", "float16", "float64", "int8", "int32", "complex64"),
):
    _add(
        f"conv.{_word}.{_name}",
        lambda x, y, o=_options: lax.conv_general_dilated(x, y, **o),
        some(_name, *_left),
        some(_name, *_right, seed=1),
    )
_add(
    "conv.nhwc.float32",
    lambda x, y: lax.conv_general_dilated(
        x, y, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    some("float32", 2, 9, 9, 3),
    some("float32", 3, 3, 3, 5, seed=1),
)
_add(
    "conv.reversed.float32",
    lambda x, y: lax.conv_transpose(
        x, y, (2, 2), "SAME", transpose_kernel=True, dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    some("float32", 2, 5, 5, 3),
    some("float32", 3, 3, 5, 3, seed=1),
)
_add(
    "conv.wider.int8",
    lambda x, y: lax.conv_general_dilated(x, y, (1, 1), "SAME", preferred_element_type=jnp.int32),
    edges("int8")[:32].reshape(1, 2, 4, 4),
    edges("int8")[:24].reshape(3, 2, 2, 2),
)
_add(
    "conv.grad.float32",
    jax.grad(
        lambda x, y: (
            lax.conv_general_dilated(
                x, y, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            ** 2
        ).sum(),
        (0, 1),
    ),
    some("float32", 2, 7, 7, 3),
    some("float32", 3, 3, 3, 4, seed=1),
)
_add(
    "conv.grad_grouped.float32",
    jax.grad(
        lambda x, y: (
            lax.conv_general_dilated(
                x, y, (2, 1), "SAME", feature_group_count=2, rhs_dilation=(1, 2)
            )
            ** 2
        ).sum(),
        (0, 1),
    ),
    some("float32", 2, 4, 7, 7),
    some("float32", 6, 2, 3, 3, seed=1),
)
_add(
    "conv.patches.float32",
    lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"),
    some("float32", 1, 3, 5, 5),
)
_add(
    "conv.nan.float32",
    lambda x, y: lax.conv_general_dilated(x, y, (1,), "SAME"),
    np.array([[[1, NAN, 3, INF, 0, 1]]], np.float32),
    np.array([[[0, 1, 0]]], np.float32),
)

_PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any]] = {
    "matrix": ((5, 7), (7, 3), (((1,), (0,)), ((), ()))),
    "vector": ((7,), (7, 3), (((0,), (0,)), ((), ()))),
    "inner": ((7,), (7,), (((0,), (0,)), ((), ()))),
    "outer": ((3,), (4,), (((), ()), ((), ()))),
    "batch": ((2, 5, 7), (2, 7, 3), (((2,), (1,)), ((0,), (0,)))),
    "last_batch": ((5, 7, 2), (7, 3, 2), (((1,), (0,)), ((2,), (2,)))),
    "two_contracted": ((2, 3, 4), (3, 4, 5), (((1, 2), (0, 1)), ((), ()))),
    "crossed": ((2, 3, 4), (4, 3, 5), (((1, 2), (1, 0)), ((), ()))),
    "two_batches": ((2, 3, 4, 5), (3, 2, 5, 4), (((3,), (2,)), ((0, 1), (1, 0)))),
    "none_contracted": ((3, 0), (0, 4), (((1,), (0,)), ((), ()))),
    "empty": ((0, 3), (3, 4), (((1,), (0,)), ((), ()))),
    "wide": ((33, 65), (65, 130), (((1,), (0,)), ((), ()))),
}
for (_word, (_left, _right, _numbers2)), _name in product(_PRODUCTS.items(), EVERY):
    _add(
        f"dot.{_word}.{_name}",
        lambda x, y, n=_numbers2: lax.dot_general(x, y, n),
        some(_name, *_left),
        some(_name, *_right, seed=1),
    )
for _name, _wide in (
    ("int8", "int32"), ("uint8", "int32"), ("uint8", "uint32"), ("int16", "int64"),
    ("bfloat16", "float32"),
    ("float16", "float32"), ("float32", "float64"), ("int32", "float32"), ("bool", "int32"),
    ("float32", "bfloat16"),
):  # fmt: skip
    _add(
        f"dot.{_name}_to_{_wide}",
        lambda x, y, w=_wide: lax.dot_general(
            x, y, (((1,), (0,)), ((), ())), preferred_element_type=dtype_of(w)
        ),
        np.resize(edges(_name), (4, 9)) if _name in INTEGERS else some(_name, 4, 9),
        some(_name, 9, 4, seed=1),
    )
for _name, _wide in product(("bool", *INTEGERS), ("int32", "int64", "uint64", *FLOATS[1:])):
    _add(
        f"dot.converted.{_name}.{_wide}",
        lambda x, y, w=_wide: (
            x.astype(dtype_of(w)) @ y.astype(dtype_of(w)),
            x.astype(dtype_of(w)) @ x.astype(dtype_of(w)).T,
        ),
        np.resize(edges(_name) // 2 if _name != "bool" else edges(_name), (4, 9)),
        some("float32", 9, 4),
    )
_add("dot.overflow.int8", lambda x: lax.dot(x, x), np.full((20, 20), 100, np.int8))
_add("dot.overflow.int32", lambda x: lax.dot(x, x), np.full((20, 20), 2**30 + 7, np.int32))
_add(
    "dot.mixed",
    lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32),
    edges("uint8")[:24].reshape(4, 6),
    edges("int8")[:24].reshape(6, 4),
)
_add(
    "dot.nan.float32",
    lambda x, y: x @ y,
    np.array([[1, NAN, 0], [0, 0, 0], [INF, 0, 1]], np.float32),
    np.array([[0, 1, 2], [0, 0, 0], [-0.0, 3, 4]], np.float32),
)
_add(
    "dot.precise.float32",
    lambda x, y: jnp.dot(x, y, precision="highest"),
    some("float32", 40, 40) * 1e3,
    some("float32", 40, 40, seed=1),
)
_add(
    "dot.einsum.float32",
    lambda x, y: jnp.einsum("bhqd,bhkd->bhqk", x, y),
    some("float32", 2, 3, 4, 5),
    some("float32", 2, 3, 6, 5, seed=1),
)
_add(
    "dot.diagonal.float32", lambda x: (jnp.einsum("ii->i", x), jnp.trace(x)), some("float32", 4, 4)
)
_add("dot.kron.float32", jnp.kron, some("float32", 2, 3), some("float32", 3, 2, seed=1))
_add("dot.power.float32", lambda x: jnp.linalg.matrix_power(x, 5), some("float32", 4, 4))
_add(
    "dot.norms.float32",
    lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, 1), jnp.linalg.norm(x, jnp.inf, axis=0)),
    some("float32", 4, 4),
)
_add("dot.expm.float32", lambda x: jnp.cross(x, x[::-1]), some("float32", 4, 3))

# Shapes

for _name in EVERY:
    _add(
        f"pad.{_name}",
        lambda x: (
            lax.pad(x, jnp.asarray(1, x.dtype), ((1, 2, 0), (0, 0, 2))),
            lax.pad(x, jnp.asarray(1, x.dtype), ((-1, 2, 1), (-1, -1, 0))),
            lax.pad(x, jnp.asarray(1, x.dtype), ((-2, 0, 1), (3, -4, 2))),
        ),
        some(_name, 3, 4),
    )
    _add(
        f"shape.moved.{_name}",
        lambda x: (
            x.T,
            x[::-1],
            x[:, ::-1],
            x.reshape(4, 3),
            jnp.roll(x, 1, 0),
            x[::2, 1::2],
            x.ravel(),
        ),
        some(_name, 3, 4),
    )
    _add(
        f"shape.joined.{_name}",
        lambda x, y: (
            jnp.concatenate([x, y]),
            jnp.stack([x, x], 1),
            jnp.tile(x, (2, 2)),
            jnp.repeat(y, 2, 1),
        ),
        some(_name, 3, 4),
        some(_name, 2, 4, seed=1),
    )
    _add(
        f"shape.scalar.{_name}",
        lambda x: (x, x.reshape(1, 1), jnp.broadcast_to(x, (3, 2))),
        some(_name),
    )
    _add(
        f"shape.chosen.{_name}",
        lambda m, x: (
            jnp.where(m, x, x[::-1]),
            lax.select_n(m, x, x[::-1]),
            lax.select(m[0], x, x[::-1]),
        ),
        some("bool", 5),
        some(_name, 5),
    )
    _add(f"shape.same.{_name}", lambda x: x, edges(_name))
    _add(
        f"shape.triangles.{_name}",
        lambda x: (
            jnp.tril(x),
            jnp.triu(x, 1),
            jnp.diag(x[0]),
            jnp.diagonal(x),
            jnp.flipud(x),
            jnp.rot90(x),
        ),
        some(_name, 3, 4),
    )
    if _name != "bool":
        _add(
            f"iota.{_name}",
            lambda x: (
                lax.iota(x.dtype, 300),
                lax.broadcasted_iota(x.dtype, (3, 4), 1),
                lax.broadcasted_iota(x.dtype, (3, 4), 0),
            ),
            some(_name, 1),
        )
    _add(
        f"control.kept.{_name}",
        lambda x: lax.fori_loop(0, 3, lambda i, c: c[::-1], x),
        some(_name, 4),
    )
for _name in ("float32", "int32", "bool", "uint8", "bfloat16"):
    _none, _more = np.zeros((0, 4), dtype_of(_name)), some(_name, 3, 4)
    _add(f"empty.joined.{_name}", lambda x, y: jnp.concatenate([x, y, x]), _none, _more)
    _add(
        f"empty.moved.{_name}", lambda x: (x.T, x[::-1], x.reshape(4, 0), x.reshape(2, 0, 3)), _none
    )
    _add(
        f"empty.padded.{_name}",
        lambda x: lax.pad(x, jnp.asarray(1, x.dtype), ((1, 2, 0), (0, 0, 1))),
        _none,
    )
    _add(
        f"empty.padded_away.{_name}",
        lambda x: lax.pad(x, jnp.asarray(1, x.dtype), ((-3, 0, 0), (0, 0, 0))),
        _more,
    )
    _add(
        f"empty.plain.{_name}",
        lambda x: (x == x, jnp.where(x == x, x, x), x.astype(jnp.float32)),
        _none,
    )
    _add(f"empty.sorted.{_name}", lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1)), _none)
    _add(f"empty.reversed.{_name}", lambda x: (x[:0], x[3:], x[:0, ::-1]), _more)
_add("empty.running", lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x, 1)), np.zeros((0, 4), np.float32))
_add(
    "empty.scan",
    lambda x: lax.scan(lambda c, y: (c + y, c), jnp.zeros(4, x.dtype), x),
    np.zeros((0, 4), np.float32),
)
_add(
    "empty.random",
    lambda k: jax.random.normal(jax.random.wrap_key_data(k), (0, 3)),
    np.array([1, 2], np.uint32),
)
_add("empty.fft", lambda x: jnp.fft.fft(x), np.zeros((0, 4), np.complex64))
_add(
    "shape.rank_8",
    lambda x: (x.transpose(7, 0, 6, 1, 5, 2, 4, 3), x.sum((0, 3, 5)), x[..., ::-1]),
    some("float32", 2, 1, 3, 2, 1, 2, 2, 3),
)
_add(
    "shape.rank_12",
    lambda x: (x.transpose(*range(11, -1, -1)) + 1, x.max(tuple(range(0, 12, 2)))),
    some("float32", *(2, 1) * 6),
)
_add("shape.meshgrid", lambda x, y: jnp.meshgrid(x, y), some("float32", 3), some("float32", 4))
_add(
    "shape.linspace",
    lambda x: (jnp.linspace(x, x * 3, 7), jnp.logspace(0, x, 4), jnp.geomspace(1, 9, 5)),
    np.float32(2.5),
)
_add(
    "shape.arange",
    lambda x: (jnp.arange(7) + x, jnp.arange(0.5, 4.5, 0.75) * x, jnp.eye(3, 4, 1) * x),
    np.float32(2.5),
)
_add("shape.split", lambda x: jnp.split(x, 3, axis=1), some("float32", 4, 6))
_add(
    "shape.cases",
    lambda i, x: lax.select_n(i, x, x + 1, x + 2, x + 3),
    np.array([0, 3, 1, 2], np.int32),
    some("float32", 4),
)
_add(
    "shape.insert",
    lambda x: (jnp.insert(x, 2, 9.0), jnp.delete(x, 1), jnp.append(x, x)),
    some("float32", 5),
)
_add(
    "shape.polynomials",
    lambda x: (
        jnp.polyval(x, x),
        jnp.convolve(x, x),
        jnp.correlate(x, x),
        jnp.vander(x),
        jnp.interp(x, jnp.sort(x), x),
    ),
    some("float32", 5),
)

# Control flow


def _loop(count: Array, x: Array) -> Array:
    return lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[1] * 2), (count, x))


_add("control.while", _loop, np.int32(6), some("float32", 3))
_add("control.while_never", _loop, np.int32(-1), some("float32", 3))
_add("control.while_each", jax.vmap(_loop), np.array([0, 3, 1], np.int32), some("float32", 3))
_add(
    "control.until",
    lambda x: lax.while_loop(lambda c: (c < 100).all(), lambda c: c * 3, x),
    np.array([1, 2.5], np.float32),
)
_add(
    "control.fori",
    lambda n, x: lax.fori_loop(0, n, lambda i, c: c + i, x),
    np.int32(9),
    np.int32(2),
)
_add(
    "control.fori_backwards",
    lambda n, x: lax.fori_loop(n, 0, lambda i, c: c + i, x),
    np.int32(9),
    np.int32(2),
)
_add(
    "control.scan",
    lambda x: lax.scan(lambda c, y: (c * 0.5 + y, c), x[0], x),
    some("float32", 5, 3),
)
_add(
    "control.scan_reverse",
    lambda x: lax.scan(lambda c, y: (c * 0.5 + y, (c, y)), x[0], x, reverse=True),
    some("float32", 5, 3),
)
_add(
    "control.scan_unrolled",
    lambda x: lax.scan(lambda c, y: (c * 0.5 + y, c), x[0], x, unroll=2),
    some("float32", 5, 3),
)
_add(
    "control.scan_carry_array",
    lambda x: lax.scan(lambda c, i: (c.at[i].add(c[i - 1]), c.sum()), x, jnp.arange(5)),
    some("float32", 5),
)
_add("control.map", lambda x: lax.map(lambda y: jnp.sort(y), x), some("float32", 4, 6))
_add(
    "control.swap",
    lambda x, y: lax.fori_loop(0, 5, lambda i, c: (c[1], c[0] + c[1]), (x, y)),
    np.int32(0),
    np.int32(1),
)
for _index in (-5, -1, 0, 1, 2, 3, 99, 2**31 - 1, -(2**31)):
    _add(
        f"control.switch.{_index}",
        lambda i, x: lax.switch(i, [lambda y: y + 1, lambda y: y * 2, lambda y: -y], x),
        np.int32(_index),
        some("float32", 3),
    )
_add(
    "control.switch_each",
    jax.vmap(lambda i, x: lax.switch(i, [lambda y: y + 1, lambda y: y * 2], x)),
    np.array([-1, 0, 1, 7], np.int32),
    some("float32", 4),
)
_add(
    "control.switch_clamp.int64",
    lambda i, x: lax.switch(i, [lambda y: y + 1, lambda y: y * 2], x),
    np.int64(2**32),
    some("float32", 3),
)
_add(
    "control.cond",
    lambda p, x: lax.cond(p > 0, lambda y: y + 1, lambda y: jnp.sort(y), x),
    np.float32(NAN),
    some("float32", 5),
)
_add(
    "control.cond_one",
    lambda p, x: lax.cond(p, lambda y: (y, y[0]), lambda y: (y * 2, y[1]), x),
    np.True_,
    some("float32", 5),
)
_add(
    "control.cond_each",
    jax.vmap(lambda p, x: lax.cond(p, lambda y: 1 / y, lambda y: y, x)),
    np.array([True, False]),
    np.array([2, 0], np.float32),
)
_add(
    "control.nested",
    lambda x: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, i, lambda j, d: d + j, c), x),
    np.int32(1),
)
_add(
    "control.grad_scan",
    jax.grad(lambda x: lax.scan(lambda c, y: (jnp.tanh(c * y), c), x[0], x)[0].sum()),
    some("float32", 5, 3),
)
_add("control.checkpoint", jax.grad(jax.checkpoint(lambda x: jnp.sin(x).sum())), some("float32", 5))
_add(
    "control.bisection",
    lambda x: lax.while_loop(
        lambda c: c[1] - c[0] > 1e-5,
        lambda c: lax.cond(
            (c[0] + c[1]) ** 2 / 4 > x,
            lambda d: (d[0], (d[0] + d[1]) / 2),
            lambda d: ((d[0] + d[1]) / 2, d[1]),
            c,
        ),
        (jnp.zeros_like(x), x),
    ),
    np.float32(2),
)

# Random numbers

_DRAWS: dict[str, Function] = {
    "bits": lambda k: tuple(jax.random.bits(k, (7,), dtype) for dtype in UNSIGNED),
    "uniform": lambda k: tuple(jax.random.uniform(k, (7,), dtype_of(name)) for name in FLOATS),
    "normal": lambda k: tuple(jax.random.normal(k, (7,), dtype_of(name)) for name in FLOATS),
    "normal_complex": lambda k: jax.random.normal(k, (7,), jnp.complex64),
    "randint": lambda k: tuple(jax.random.randint(k, (9,), 0, 100, name) for name in INTEGERS),
    "randint_wide": lambda k: jax.random.randint(k, (9,), -(2**31), 2**31 - 1, jnp.int32),
    "permutation": lambda k: jax.random.permutation(k, 33),
    "choice": lambda k: jax.random.choice(k, 10, (5,), p=jnp.arange(10) / 45),
    "choice_alone": lambda k: jax.random.choice(k, 10, (5,), replace=False),
    "categorical": lambda k: jax.random.categorical(k, jnp.log(jnp.arange(1.0, 6.0)), shape=(9,)),
    "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (20,)),
    "split": lambda k: jax.random.key_data(jax.random.split(k, 5)),
    "fold_in": lambda k: jax.random.key_data(jax.random.fold_in(k, 7)),
}
_MORE_DRAWS: dict[str, Function] = {
    "gamma": lambda k: jax.random.gamma(k, jnp.array([0.2, 1, 5], jnp.float32)),
    "beta": lambda k: jax.random.beta(k, 0.5, 2.0, (4,), jnp.float32),
    "dirichlet": lambda k: jax.random.dirichlet(k, jnp.ones(3, jnp.float32)),
    "poisson": lambda k: jax.random.poisson(k, jnp.array([0.5, 5, 50], jnp.float32)),
    "binomial": lambda k: jax.random.binomial(k, 10.0, 0.3, (4,), jnp.float32),
    "truncated": lambda k: jax.random.truncated_normal(k, -1, 2, (7,), jnp.float32),
    "gumbel": lambda k: jax.random.gumbel(k, (7,), jnp.float32),
    "laplace": lambda k: jax.random.laplace(k, (7,), jnp.float32),
    "cauchy": lambda k: jax.random.cauchy(k, (7,), jnp.float32),
    "logistic": lambda k: jax.random.logistic(k, (7,), jnp.float32),
    "exponential": lambda k: jax.random.exponential(k, (7,), jnp.float32),
    "rademacher": lambda k: jax.random.rademacher(k, (7,)),
    "t": lambda k: jax.random.t(k, 3.0, (4,), jnp.float32),
    "geometric": lambda k: jax.random.geometric(k, 0.2, (7,)),
    "maxwell": lambda k: jax.random.maxwell(k, (7,), jnp.float32),
    "weibull": lambda k: jax.random.weibull_min(k, 2.0, 3.0, (7,), jnp.float32),
    "ball": lambda k: jax.random.ball(k, 3, shape=(4,), dtype=jnp.float32),
    "rayleigh": lambda k: jax.random.rayleigh(k, 2.0, (5,), jnp.float32),
    "triangular": lambda k: jax.random.triangular(k, 0.0, 0.5, 1.0, (5,), jnp.float32),
}
_KEYS = {"threefry2x32": 2, "rbg": 4, "unsafe_rbg": 4}
for _impl, _words in _KEYS.items():
    _drawn = {**_DRAWS, **_MORE_DRAWS} if _impl == "threefry2x32" else _DRAWS
    for _word, _function in _drawn.items():
        _add(
            f"random.{_impl}.{_word}",
            lambda k, f=_function, i=_impl: f(jax.random.wrap_key_data(k, impl=i)),
            np.array([17, 42, 2**32 - 1, 5][:_words], np.uint32),
        )
_add(
    "random.large",
    lambda k: jax.random.bits(jax.random.wrap_key_data(k), (1031,)),
    np.array([3, 4], np.uint32),
)
_add("random.seeded", lambda s: jax.random.key_data(jax.random.key(s)), np.int64(-(2**40) - 3))
for _name in ("uint8", "uint16", "uint32", "uint64"):
    _add(
        f"random.generator.{_name}",
        lambda k, n=_name: lax.rng_bit_generator(k, (9,), dtype=n),
        np.array([17, 42, 2**32 - 1, 5], np.uint32),
    )

# Transforms

for _word, _length in product(
    ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), (1, 2, 5, 8, 12, 16)
):
    _of = "complex64" if _word in ("fft", "ifft", "irfft", "hfft") else "float32"
    _add(
        f"fft.{_word}.{_length}",
        getattr(jnp.fft, _word),
        some(_of, 3, _length + (_word in ("irfft", "hfft"))),
    )
_add("fft.fft2", jnp.fft.fft2, some("complex64", 4, 8))
_add("fft.rfft2", jnp.fft.rfft2, some("float32", 4, 8))
_add("fft.irfft_odd", lambda x: jnp.fft.irfft(x, 7), some("complex64", 4))
_add("fft.shorter", lambda x: jnp.fft.fft(x, 4), some("complex64", 8))
_add("fft.float64", jnp.fft.rfft, some("float64", 8))
_add("fft.shifted", lambda x: (jnp.fft.fftshift(x), jnp.fft.fftfreq(8)), some("float32", 8))


# Slices, flips and strides of what a loop gives

_STACKED: dict[str, Function] = {
    "scan": lambda x: lax.scan(lambda c, y: (c + y, c + y), jnp.zeros(4, x.dtype), x)[1],
    "reverse": lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0], x, reverse=True)[1],
    "map": lambda x: lax.map(lambda y: y[::-1] * 2, x),
    "while": lambda x: lax.fori_loop(0, 3, lambda i, c: c[::-1] * 2 + x, x),
}
_BEHIND: dict[str, Function] = {
    "flipped": lambda x: x[::-1],
    "flipped_twice": lambda x: x[::-1, ::-1],
    "strided": lambda x: x[::2],
    "strided_backwards": lambda x: x[::-3, 1::2],
    "part": lambda x: x[2:7],
    "last": lambda x: x[-1],
    "rolled": lambda x: jnp.roll(x, 3, 0),
    "transposed": lambda x: x.T[::-1],
    "picked": lambda x: x[jnp.array([3, 1, 8])],
    "summed": lambda x: x[::-1].sum(0),
    "padded": lambda x: jnp.pad(x[::2], ((1, 0), (0, 2))),
    "looped": lambda x: lax.scan(lambda c, y: (c - y, c * y), x[1], x[::-2])[1][::-1],
}
for (_word, _loops), (_other, _taken) in product(_STACKED.items(), _BEHIND.items()):
    _add(f"behind.{_word}.{_other}", lambda x, f=_loops, g=_taken: g(f(x)), some("float32", 9, 4))
_add(
    "behind.slice.flipped",
    lambda x, i: lax.dynamic_slice(x, (i[0], 0), (3, 4))[::-1, ::2],
    some("float32", 9, 4),
    np.array([5, 2], np.int32),
)
_add(
    "behind.update.flipped",
    lambda x, i: lax.dynamic_update_slice(x, x[:3, :2] + 1, (i[0], i[1]))[::-1, ::2],
    some("float32", 9, 4),
    np.array([5, 2], np.int32),
)

_SIGNALS = ("NHC", "HIO", "NHC")

# Rows with what is no number, and with infinities

_ROWS = np.array(
    [
        [NAN, 1, 2, 3],
        [INF, 1, 2, 3],
        [-INF, -INF, -INF, -INF],
        [-INF, 1, 2, 3],
        [INF, -INF, 1, 2],
        [INF, NAN, 1, 2],
        [3, 2, 1, NAN],
        [INF, INF, INF, INF],
        [1, 2, 3, 4],
        [np.finfo(np.float32).min] * 4,
        [-INF, np.finfo(np.float32).min, -INF, -INF],
        [np.finfo(np.float32).max] * 4,
        [0, -0.0, 0, -0.0],
    ],
    np.float32,
)
_OF_ROWS: dict[str, Function] = {
    "softmax": jax.nn.softmax,
    "softmax_first": lambda x: jax.nn.softmax(x, axis=0),
    "softmax_masked": lambda x: jax.nn.softmax(jnp.where(x > 1, x, -1e9)),
    "softmax_product": lambda x: jax.nn.softmax(x) @ jnp.ones((4, 3), x.dtype),
    "log_softmax": jax.nn.log_softmax,
    "logsumexp": lambda x: jax.nn.logsumexp(x, axis=1),
    "max": lambda x: (x.max(1), x.max(0), x.max()),
    "min": lambda x: (x.min(1), x.min(0), x.min()),
    "argmax": lambda x: (x.argmax(1), x.argmax(0), x.argmax()),
    "argmin": lambda x: (x.argmin(1), x.argmin(0), x.argmin()),
    "max_window": lambda x: lax.reduce_window(x, -INF, lax.max, (2, 2), (2, 1), "SAME"),
    "max_relu": lambda x: jax.nn.relu(x).max(1),
}
for _word, _function in _OF_ROWS.items():
    _add(f"rows.{_word}", _function, _ROWS)
    _add(f"rows.{_word}.negative", _function, -_ROWS)

for _power in (0.5, -0.5, 1.5, 0.25, 1 / 3, -1.5, 2.0, -1.0, 0.0):
    _add(f"power.of_constant.{_power:.2f}", lambda x, p=_power: x**p, _floats("float32"))
    _add(
        f"power.of_each.{_power:.2f}", lambda x, p=_power: x ** jnp.full(96, p), _floats("float32")
    )

_add(
    "conv.infinite_kernel",
    lambda x, k: lax.conv_general_dilated(x, k, (1,), [(2, 1)], dimension_numbers=_SIGNALS),
    np.array([1, 0, INF, 2, NAN, -1, 3, 0, 1, -2] * 4, np.float32).reshape(2, 10, 2),
    np.array([INF, 1, 2, -INF, 0, 3] * 2, np.float32).reshape(3, 2, 2),
)

# Sums and products with constants, one after the other, of numbers far from zero

_FAR = np.float32(1e6) + some("float32", 8, 16)
_ROW, _SCALE = (
    np.float32(1e6) + some("float32", 16, seed=1),
    np.float32(0.1) + some("float32", 16, seed=2),
)
_CHAINS: dict[str, Function] = {
    "less_over": lambda x: (x - _ROW) / _SCALE,
    "less_times": lambda x: (x - _ROW) * _SCALE,
    "less_times_one": lambda x: (x - np.float32(1e6)) * np.float32(3.3),
    "from_times": lambda x: (_ROW - x) * _SCALE,
    "less_negative_times": lambda x: -(x - _ROW) * _SCALE,
    "less_less": lambda x: (x - _ROW) - _SCALE,
    "plus_less": lambda x: (x * 1e-6 + np.float32(1e8)) - np.float32(1e8),
    "times_times": lambda x: (x * np.float32(1e35)) * np.float32(1e-35),
    "over_over": lambda x: (x / np.float32(1e-35)) / np.float32(1e35),
    "less_repeated_times": lambda x: jnp.broadcast_to((x - _ROW)[None], (3, 8, 16)) * _SCALE,
    "less_reshaped_times": lambda x: (x - _ROW).reshape(2, 4, 16) * _SCALE,
    "less_turned_times": lambda x: (x - _ROW).T * _SCALE[:, None],
    "less_times_product": lambda x: ((x - _ROW) * _SCALE) @ jnp.ones((16, 3), jnp.float32),
    "less_times_plus": lambda x: (x - _ROW) * _SCALE + _ROW,
    "less_twice_used": lambda x: ((x - _ROW) * _SCALE, x - _ROW),
    "looped": lambda x: lax.fori_loop(0, 2, lambda i, c: (c - _ROW) * _SCALE + _ROW, x),
    "layer_norm": lambda x: jax.nn.standardize(x),
    "variance": lambda x: (x.var(1), x.std(0)),
}
for _word, _function in _CHAINS.items():
    _add(f"chain.{_word}", _function, _FAR)
_add("chain.image", lambda x: (x / 255 - 0.485) / 0.229, np.arange(256, dtype=np.float32))


# Numbers that are known when a program is compiled


def _folded() -> Iterator[tuple[str, Program]]:
    """The programs of one and two numbers again, with their inputs as constants of the program."""
    for name, (function, inputs) in PROGRAMS.items():
        group, *rest = name.split(".")
        if (
            group in ("unary", "binary") and rest[-1] in ("float32", "int32", "uint8", "bool")
        ) or group == "convert":

            def run(x: Array, f: Function = function, given: tuple[Array, ...] = inputs) -> Array:
                return x, f(*map(jnp.asarray, given))

            yield f"constant.{name}", Program(run, (np.float32(1),))


PROGRAMS.update(dict(_folded()))


# What reads a part of an array that others read whole

_WIDE, _DEEP = some("float32", 7, 2, 6), some("float32", 1, 1, 1, 4, seed=3)


def _window_of_one(x: Array, start: float = 0.0, function: Function = lax.add) -> Array:
    return lax.reduce_window(x, start, function, (1, 1, 1), (2, 1, 2), "SAME")


_PARTS: dict[str, Function] = {
    "window_sum": _window_of_one,
    "window_min": lambda x: _window_of_one(x, INF, lax.min),
    "window_padded": lambda x: lax.reduce_window(
        x, np.float32(1), lax.mul, (1, 1, 1), (2, 1, 2), ((0, 0), (1, 0), (2, 1))
    ),
    "depthwise": lambda x: lax.conv_general_dilated(
        x[..., None, :4],
        _DEEP,
        (2, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=4,
    ),
    "depthwise_padded": lambda x: lax.conv_general_dilated(
        x[..., None, :4],
        _DEEP,
        (2, 1),
        ((1, 1), (0, 2)),
        lhs_dilation=(1, 2),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=4,
    ),
    "strided": lambda x: x[::2, :, ::2] * 2,
    "flipped": lambda x: x[::-1, :, ::-2] + 1,
    "picked": lambda x: x[jnp.array([0, 3, 6])] + 1,
    "diagonal": lambda x: jnp.diagonal(x, axis1=0, axis2=2) + 1,
}
for _word, _function in _PARTS.items():
    _add(
        f"part.{_word}.float32",
        lambda x, f=_function: (f(jnp.exp(x)), jnp.exp(x) + 1, jnp.where(x > 0, jnp.exp(x), x)),
        _WIDE,
    )

# Many numbers of one sign

_MANY = np.float32(1000) + np.abs(some("float32", 9000))
_MANY_SUMS: dict[str, Function] = {
    "sum": lambda x: (x.sum(), x.reshape(3, -1).sum(1), x.reshape(-1, 3).sum(0)),
    "mean": lambda x: (x.mean(), x.var()),
    "axes": lambda x: (x.reshape(2, -1, 3).sum((0, 1)), x.reshape(2, 90, 50).sum((0, 2))),
    "running": lambda x: (jnp.cumsum(x), jnp.cumsum(x.reshape(-1, 3), 0)),
    "running_back": lambda x: lax.cumsum(x, reverse=True),
    "running_narrow": lambda x: jnp.cumsum(x.astype(jnp.bfloat16).reshape(9, 1000), 1),
    "product": lambda x: (x @ x, x[:4500] @ x.reshape(4500, 2), x.reshape(2, 4500) @ x[:4500]),
    "matrices": lambda x: jnp.einsum("bij,bkj->bik", x.reshape(1, 2, 4500), x.reshape(1, 2, 4500)),
}
for _word, _function in _MANY_SUMS.items():
    _add(f"many.{_word}.float32", _function, _MANY)

# Reductions of what constants alone make

_FILLED: dict[str, Function] = {
    "exp": lambda: jnp.exp(jnp.ones((4, 5), jnp.float32)),
    "chosen": lambda: jnp.where(jnp.ones((4, 5)) > 2, 1, jnp.full((4, 5), 3, jnp.int32)),
    "places": lambda: jnp.exp(lax.broadcasted_iota(jnp.float32, (4, 5), 0)),
    "filled": lambda: jnp.full((4, 5), 3, jnp.float32),
}
_REDUCED: dict[str, Function] = {
    "sum": lambda x: (x.sum(), x.sum(0), x.sum(1)),
    "prod": lambda x: (x.prod(), x.max(1)),
    "nansum": lambda x: jnp.nansum(x, axis=1),
    "window": lambda x: lax.reduce_window(x, x.dtype.type(0), lax.add, (2, 2), (1, 1), "VALID"),
    "running": lambda x: jnp.cumsum(x, 1),
    "product": lambda x: x @ x.T,
    "convolution": lambda x: lax.conv(x[None, None], x[None, None, :2, :2], (1, 1), "VALID"),
}
for (_word, _filled), (_other, _reduced) in product(_FILLED.items(), _REDUCED.items()):
    _add(
        f"filled.{_word}.{_other}", lambda x, f=_filled, r=_reduced: (x, r(f())), np.float32([1, 2])
    )

# Products with masks, which XLA chooses by

_MASKED = np.array([[NAN, 1, -2, INF], [3, NAN, -INF, 4]], np.float32)
_MASK = np.array([[False, True, False, False], [True, False, False, True]])
_MASKS: dict[str, Function] = {
    "times": lambda x, m: (x * m, m * x, x * m.astype(x.dtype)),
    "sum": lambda x, m: (x * m).sum(1),
    "compared": lambda x, m: x * (m == m[:1]),
    "einsum": lambda x, m: jnp.einsum("ij,ij->i", x, m.astype(x.dtype)),
    "row": lambda x, m: x * m[0],
    "constant": lambda x, m: x * jnp.asarray(_MASK),
}
for (_word, _function), _name in product(_MASKS.items(), ("float16", "float32", "bfloat16")):
    _add(f"mask.{_word}.{_name}", _function, _MASKED.astype(dtype_of(_name)), _MASK)

_BESIDE = ("bool", "float32", "int32", "uint8")


def _beside() -> Iterator[tuple[str, Program]]:
    """The programs of some operations, with their inputs as constants, each result beside inputs:
    what an engine computes once is not changed by calls.
    """
    groups = ("binary", "conv", "convert", "dot", "gather", "reduce", "running", "scatter")
    groups = (*groups, "shape", "slice", "unary", "window")
    for name, (function, inputs) in PROGRAMS.items():
        if name.split(".")[0] not in groups or any(each.dtype not in _BESIDE for each in inputs):
            continue

        def run(
            x: Array, y: Array, z: Array, f: Function = function, given: tuple[Array, ...] = inputs
        ) -> Array:
            number = {"float32": x[0], "int32": y[0]}

            def beside(leaf: Array) -> Array:
                if leaf.dtype == bool:
                    return leaf & z[0]
                if str(leaf.dtype) in number:
                    return leaf * number[str(leaf.dtype)]
                return jnp.where(z[0], leaf, jnp.zeros_like(leaf))

            return jax.tree.map(beside, f(*map(jnp.asarray, given)))

        numbers = np.array([2, 3])
        inputs_beside = (numbers.astype(np.float32), numbers.astype(np.int32), numbers > 2)
        yield f"beside.{name}", Program(run, inputs_beside)


PROGRAMS.update(dict(_beside()))
