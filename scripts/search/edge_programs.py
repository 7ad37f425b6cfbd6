"""JAX programs for each operation of StableHLO, at the edges of each: `PROGRAMS`, by name.

For any engine: nothing here knows one. A program is a function of arrays with the arrays that it is
called with; x64 must be on while it is traced. Names say the operation, its dtype, and what is odd
about the inputs: `unary.exp.float32`, `scatter.add.drop`. The order is that of this file, and all
of it is the same in every process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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


def _all(group: str, functions: Mapping[str, Function], *inputs: Array, ends: str = "") -> None:
    """Add programs that are called with the same inputs."""
    for name, function in functions.items():
        _add(f"{group}.{name}{ends}", function, *inputs)


def _named(module: Any, names: str) -> dict[str, Function]:
    """Return functions of a module by their names."""
    return {name: getattr(module, name) for name in names.split()}


# Arrays


def dtype_of(name: str) -> np.dtype[Any]:
    """Return numpy's dtype of a name."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _floats(name: str) -> Array:
    """Return 96 numbers: edges of a float's dtype, and some of every size.

    Denormal ones are apart: XLA itself takes some for zero, depending on what is around.
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
    """Return one array of a dtype that holds its edges."""
    if name == "bool":
        return np.array([True, False, True, True, False, False, True])
    if name == "complex64":
        return _complexes()
    return _floats(name) if name in FLOATS else _integers(name)


def pairs(name: str) -> tuple[Array, Array]:
    """Return each edge of a dtype beside each other one."""
    values = edges(name)
    if len(values) > 60:
        values = np.concatenate([values[:19], values[38:57], values[-4:]])
    left, right = np.meshgrid(values, values)
    return left.ravel(), right.ravel()


def some(name: str, *shape: int, seed: int = 0) -> Array:
    """Return ordinary numbers of a dtype."""
    random = _random(seed)
    if name == "bool":
        return random.integers(0, 2, shape) > 0
    if name in INTEGERS:
        return random.integers(0 if name in UNSIGNED else -9, 10, shape).astype(name)
    values = random.standard_normal(shape)
    if name == "complex64":
        return (values + 1j * random.standard_normal(shape)).astype(name)
    return values.astype(dtype_of(name))


def f32(*shape: int, seed: int = 0) -> Array:
    """Return ordinary numbers of float32."""
    return some("float32", *shape, seed=seed)


def floats(*values: Any) -> Array:
    """Return an array of float32."""
    return np.array(values, np.float32)


def ints(*values: Any) -> Array:
    """Return an array of int32."""
    return np.array(values, np.int32)


def none(*shape: int, dtype: Any = np.float32) -> Array:
    """Return an array, of which one size is 0."""
    return np.zeros(shape, dtype)


def _one(x: Array) -> Array:
    return jnp.asarray(1, x.dtype)


def _each(names: Sequence[str], kind: str, functions: Mapping[str, Function]) -> None:
    for (word, function), name in product(functions.items(), names):
        inputs = (edges(name),) if kind == "unary" else pairs(name)
        _add(f"{kind}.{word}.{name}", function, *inputs)


# One number to one number

_each(
    FLOATS,
    "unary",
    _named(jnp, "abs trunc log2 log10 nan_to_num")
    | _named(lax, "neg sign floor ceil is_finite exp exp2 expm1 log log1p sin cos tan asin acos")
    | _named(lax, "atan sinh cosh tanh asinh acosh atanh sqrt rsqrt cbrt logistic erf erfc erf_inv")
    | _named(lax, "digamma lgamma bessel_i0e bessel_i1e square reciprocal")
    | _named(jax.nn, "relu gelu silu softplus elu")
    | {
        "round_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        "round_away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
        "power_3": lambda x: lax.integer_pow(x, 3),
        "power_-2": lambda x: lax.integer_pow(x, -2),
        "power_7": lambda x: lax.integer_pow(x, 7),
        "reduce_precision_5_2": lambda x: lax.reduce_precision(x, 5, 2),
        "reduce_precision_8_7": lambda x: lax.reduce_precision(x, 8, 7),
        "reduce_precision_5_10": lambda x: lax.reduce_precision(x, 5, 10),
        "not_a_number": lambda x: (jnp.isnan(x), jnp.isinf(x), jnp.isneginf(x), jnp.signbit(x)),
        "gelu_exact": lambda x: jax.nn.gelu(x, approximate=False),
        "softmax": lambda x: jax.nn.softmax(x[-20:]),
        "logsumexp": lambda x: jax.nn.logsumexp(x[-20:]),
        "clamp": lambda x: lax.clamp(jnp.asarray(-1, x.dtype), x, _one(x)),
        "clamp_crossed": lambda x: lax.clamp(_one(x), x, jnp.asarray(-1, x.dtype)),
        "clamp_none": lambda x: lax.clamp(jnp.asarray(NAN, x.dtype), x, _one(x)),
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
    _named(jnp, "frexp modf spacing sinc i0")
    | _named(special, "ndtr ndtri log_ndtr logit entr i1 exp1 expi")
    | {
        "polygamma_1": lambda x: special.polygamma(1, x),
        "zeta_2": lambda x: special.zeta(x, 2.0),
        "grad_tanh": jax.vmap(jax.grad(jnp.tanh)),
        "grad_log1p": jax.vmap(jax.grad(jnp.log1p)),
        "grad_lgamma": jax.vmap(jax.grad(lax.lgamma)),
        "grad_sqrt": jax.vmap(jax.grad(jnp.sqrt)),
        "grad_abs": jax.vmap(jax.grad(jnp.abs)),
    },
)


def _over(number: int) -> Function:
    return lambda x: (lax.div(x, jnp.full_like(x, number)), lax.rem(x, jnp.full_like(x, number)))


_each(
    INTEGERS,
    "unary",
    _named(jnp, "abs sqrt mean")
    | _named(lax, "neg sign clz")
    | {
        "not": lax.bitwise_not,
        "popcnt": lax.population_count,
        "power_2": lambda x: lax.integer_pow(x, 2),
        "power_5": lambda x: lax.integer_pow(x, 5),
        "clamp": lambda x: lax.clamp(jnp.asarray(2, x.dtype), x, jnp.asarray(50, x.dtype)),
        "over_constant": _over(3),
        "over_zero": _over(0),
        "over_power": _over(8),
        "divided": lambda x: (x // 3, x % 5, x // jnp.asarray(8, x.dtype)),
        "shifted": lambda x: (x << 3, x >> 2, x >> jnp.asarray(100, x.dtype)),
        "self_quotient": lambda x: (lax.div(x, x), lax.rem(x, x)),
        "true_quotient": lambda x: x / 3,
        "parity": lambda x: (x & 1, x | 1, x ^ x),
    },
)
_each(
    ("complex64",),
    "unary",
    _named(lax, "neg sign abs exp log expm1 log1p sin cos tan tanh sqrt rsqrt conj real imag sinh")
    | _named(lax, "cosh asin acos atan asinh acosh atanh logistic square reciprocal")
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

_COMPARISONS: dict[str, Function] = {
    "compare": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
    **_named(lax, "max min"),
}
_BITS = {name: getattr(lax, f"bitwise_{name}") for name in ("and", "or", "xor")}


def _total_order(x: Array, y: Array) -> Array:
    return tuple(each.bind(x, y) for each in (lax.eq_to_p, lax.le_to_p, lax.lt_to_p))


_each(
    FLOATS,
    "binary",
    _COMPARISONS
    | _named(lax, "add sub mul div rem pow atan2")
    | _named(jnp, "mod floor_divide fmax hypot copysign logaddexp heaviside")
    | {
        "total_order": _total_order,
        "where": lambda x, y: (jnp.where(x > y, x, y), jnp.where(x != x, y, x)),
        "fused": lambda x, y: x * y + x,
        "fused_less": lambda x, y: x - x * y,
    },
)


_each(
    INTEGERS,
    "binary",
    _COMPARISONS
    | _BITS
    | _named(lax, "add sub mul div rem shift_left shift_right_logical shift_right_arithmetic")
    | _named(jnp, "floor_divide mod left_shift right_shift")
    | {"power": lambda x, y: jnp.power(x, jnp.abs(y) % 9)},
)
_WITH_BOOL = {"plus": jnp.add, "times": jnp.multiply, "power": jnp.power, "maximum": jnp.maximum}
_each(("bool",), "binary", _COMPARISONS | _BITS | _WITH_BOOL)
_each(
    ("complex64",),
    "binary",
    _named(lax, "add sub mul div pow")
    | {"equal": lambda x, y: (x == y, x != y), "maximum": jnp.maximum},
)
_add("binary.mul.complex128", lax.mul, *(each.astype(complex) for each in pairs("complex64")))
_add("linalg.cholesky.float32", jnp.linalg.cholesky, np.eye(3, dtype=np.float32))
_BASES = np.linspace(0.1, 9.0, 40)
_LARGE = [1e2, -1e3, 1e4, 3e4, -1e5, 1e6, 1e7, 1e8, 9.9e8, 1e10, 1e15, 1e22, -1e30, 3e38]
_NEAR = _named(lax, "exp expm1 log1p sin cos tan tanh erf erfc erf_inv asin acos atan lgamma")
_NEAR |= _named(lax, "digamma cbrt sinh cosh asinh acosh atanh logistic")
_GAMMAS = _named(lax, "igamma igammac igamma_grad_a random_gamma_grad")
for _name in ("float32", "float64"):
    _betainc = (np.asarray(each, _name) for each in (_BASES, _BASES[::-1], np.linspace(0, 1, 40)))
    _add(f"special.betainc.{_name}", lax.regularized_incomplete_beta_p.bind, *_betainc)
    _a, _x = np.meshgrid(np.array([0.1, 0.5, 1, 3, 10, 100]), np.array([0, 1e-3, 0.5, 1, 5, 50]))
    _gamma = (_a.ravel().astype(_name), _x.ravel().astype(_name))
    _all("special", _GAMMAS, *_gamma, ends=f".{_name}")
    _all("large", _named(lax, "sin cos tan"), np.array(_LARGE).astype(_name), ends=f".{_name}")
    _all("near", _NEAR, np.linspace(-3, 3, 121).astype(_name), ends=f".{_name}")
    _all("small", _NEAR, np.logspace(-30, 0, 61).astype(_name), ends=f".{_name}")

# From dtype to dtype


def _cast(to: str) -> Function:
    return lambda x: x.astype(dtype_of(to))


for _name, _other in product(EVERY, EVERY):
    _add(
        f"convert.{_name}.{_other}",
        lambda x, to=_other: lax.convert_element_type(x, dtype_of(to)),
        edges(_name),
    )
_narrowest: Function = lambda x: x.astype(jnp.float8_e4m3fn)  # noqa: E731
_add("convert.float32.float8_e4m3fn", _narrowest, edges("float32"))

# Numbers of an array together

_REDUCERS = _named(jnp, "sum prod max min argmax argmin")


def _along(function: Function, axis: int | None) -> Function:
    return lambda x: function(x, axis=axis)


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
        _add(f"reduce.{_word}.{_axis}.{_name}", _along(_function, _axis), _matrix(_name))
for _name, (_word, _function) in product(
    ("float32", "int32", "bfloat16", "uint8"), _REDUCERS.items()
):
    _dtype, _rows = dtype_of(_name), _along(_function, 1)
    if _word in ("sum", "prod"):
        _add(f"empty.{_word}.{_name}", _rows, none(3, 0, dtype=_dtype))
    _add(f"empty.{_word}_of_none.{_name}", _rows, none(0, 3, dtype=_dtype))
    _add(f"alone.{_word}.{_name}", _rows, some(_name, 5, 1))
    _add(f"long.{_word}.{_name}", _along(_function, None), some(_name, 1031))
    _add(f"long.{_word}_rows.{_name}", _rows, some(_name, 3, 517))
    _add(f"long.{_word}_columns.{_name}", _along(_function, 0), some(_name, 517, 3))
for (_word, _function), _axis in product(_named(jnp, "any all").items(), (None, 0, 1)):
    _add(f"reduce.{_word}.{_axis}.bool", _along(_function, _axis), some("bool", 4, 9))


_add(
    "reduce.sum.bool", lambda x: (x.sum(), x.sum(axis=0), jnp.count_nonzero(x)), some("bool", 7, 5)
)
_add(
    "reduce.two_operands.float32",
    lambda x, y: lax.reduce(
        (x, y), (np.float32(0), np.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)
    ),
    f32(4, 6),
    f32(4, 6, seed=1),
)
_STATISTICS = _named(jnp, "mean var std median nanmean nanmax nanmin nansum nanprod nanargmax ptp")
_STATISTICS |= _named(jnp, "nanargmin nanstd nanmedian nancumsum diff ediff1d")
_all("statistics", _STATISTICS, floats(3, NAN, 1, 2, 8, -0.0, 2), ends=".float32")


def _running(function: Function, reverse: bool) -> Function:
    return lambda x: tuple(function(x, axis=axis, reverse=reverse) for axis in (0, 1))


_RUNNING = _named(lax, "cumsum cumprod cummax cummin cumlogsumexp")
for (_word, _function), _name, _reverse in product(
    _RUNNING.items(),
    ("float32", "float64", "bfloat16", "float16", "int32", "uint8", "int64"),
    (False, True),
):
    if _word != "cumlogsumexp" or _name in FLOATS:
        _ends = ".reverse" * _reverse
        _add(f"running.{_word}.{_name}{_ends}", _running(_function, _reverse), _matrix(_name))


# Order


def _ties(name: str) -> Array:
    values = np.array([3, 1, 3, 1, 2, 3, 0, 0, 2, 2, 1, 7, 5], dtype_of(name))
    if name in FLOATS:
        values[[0, 5]], values[6], values[7] = NAN, -0.0, 0.0
        values[11], values[12] = INF, -INF
    return values


_SORTS: dict[str, Function] = {
    "plain": jnp.sort,
    "descending": lambda x: jnp.sort(x, descending=True),
    "argsort": jnp.argsort,
    "argsort_descending": lambda x: jnp.argsort(x, descending=True),
    "unstable": lambda x: lax.sort(x, is_stable=False),
}
for _name in (*INTEGERS, *FLOATS, "bool"):
    _all("sort", _SORTS, _ties(_name), ends=f".{_name}")
    _add(f"sort.edges.{_name}", jnp.sort, edges(_name))
    if _name != "bool":
        _add(f"sort.top_k.{_name}", lambda x: lax.top_k(x, 4), _ties(_name))
        _add(f"sort.top_all.{_name}", lambda x: lax.top_k(x, x.shape[0]), edges(_name))
_OF_ROWS: dict[str, Function] = {
    "axis_1": lambda x: jnp.sort(x, axis=1),
    "argsort_rows": lambda x: jnp.argsort(x, axis=1),
    "top_rows": lambda x: lax.top_k(x, 3),
}
_OF_TIES: dict[str, Function] = {
    "unique": lambda x: jnp.unique(x, size=9, return_counts=True, return_inverse=True),
    "partition": lambda x: jnp.partition(x, 3)[3],
}
for _name in ("float32", "int32"):
    _tied = _ties(_name)
    _turned, _numbered = _tied[::-1].copy(), np.arange(13, dtype=np.int32)
    _rows = np.stack([_tied, _tied[::-1]])
    _all("sort", _OF_ROWS, _rows, ends=f".{_name}")
    _all("sort", _OF_TIES, _tied, ends=f".{_name}")
    _add(f"sort.axis_0.{_name}", lambda x: jnp.sort(x, axis=0), _rows.T)
    _add(f"sort.empty.{_name}", jnp.sort, none(3, 0, dtype=_name))
    _add(f"sort.one.{_name}", jnp.argsort, np.zeros((1,), _name))
    _keys: Function = lambda x, y, z: lax.sort((x, y, z), num_keys=2)  # noqa: E731
    _add(f"sort.two_keys.{_name}", _keys, _tied, _turned, _numbered)
    _key: Function = lambda x, y: lax.sort((x, y), num_keys=1)  # noqa: E731
    _add(f"sort.values_follow.{_name}", _key, _tied, f32(13))
    _add(f"sort.lexsort.{_name}", lambda x, y: jnp.lexsort((x, y)), _tied, _turned)
    for _method, _side in product(
        ("scan", "sort", "compare_all", "scan_unrolled"), ("left", "right")
    ):
        _add(
            f"sort.searchsorted.{_method}.{_side}.{_name}",
            lambda x, y, m=_method, s=_side: jnp.searchsorted(x, y, method=m, side=s),
            np.sort(_tied),
            _tied,
        )
_add("sort.nonzero.int32", lambda x: jnp.nonzero(x, size=9, fill_value=-1), _ties("int32"))

# Places

_PLACES = {
    "inside": ints(0, 3, 1, 2),
    "outside": ints(0, 3, -1, 9, 3, -9, 2**31 - 1, -(2**31), 4, -4, -5),
    "repeated": ints(2, 2, 2, 0, 2),
    "none": none(0, dtype=np.int32),
}
_OUTSIDE, _REPEATED = _PLACES["outside"], _PLACES["repeated"]


def _at(mode: str | None) -> Function:
    return lambda x, i: (
        x.at[i].get(mode=mode),
        x.at[:, i].get(mode=mode),
        x.at[i, i].get(mode=mode),
    )


def _taken_along(mode: str | None) -> Function:
    return lambda x, i: jnp.take_along_axis(x, jnp.stack([i, i[::-1]]), axis=1, mode=mode)


for (_where, _indices), _mode in product(
    _PLACES.items(), ("fill", "clip", "promise_in_bounds", None)
):
    if _where != "outside" or _mode != "promise_in_bounds":
        _add(f"gather.at.{_where}.{_mode}", _at(_mode), f32(4, 4), _indices)
        _add(f"gather.along.{_where}.{_mode}", _taken_along(_mode), f32(2, 4), _indices)


def _slices(x: Array, i: Array) -> Array:
    return tuple(lax.dynamic_slice(x, (i[n], i[-1 - n]), (2, 3)) for n in range(i.shape[0]))


def _updates(x: Array, i: Array) -> Array:
    return tuple(
        lax.dynamic_update_slice(x, jnp.ones((2, 3), x.dtype), (i[n], i[-1 - n]))
        for n in range(i.shape[0])
    )


_INDICES: dict[str, list[int]] = {name: [0, 3, 4, 100, 127] for name in INTEGERS} | {
    "int8": [0, 3, 4, 127, -1, -128],
    "uint8": [0, 3, 4, 255, 128],
    "uint16": [0, 3, 65535],
    "uint32": [0, 3, 4, 2**32 - 1, 2**31],
    "int64": [0, 3, 2**32, -(2**32), 2**63 - 1, -(2**63), 2**32 + 1],
    "uint64": [0, 3, 2**32, 2**63, 2**64 - 1, 2**32 + 1],
}
for _name, _numbers in _INDICES.items():
    _given = f32(4, 4), np.array(_numbers, _name)
    for _mode in ("fill", "clip"):
        _gets: Function = lambda x, i, m=_mode: x.at[i].get(mode=m)  # noqa: E731
        _adds: Function = lambda x, i, m=_mode: x.at[i].add(1.0, mode=m)  # noqa: E731
        _add(f"gather.index.{_name}.{_mode}", _gets, *_given)
        _add(f"scatter.index.{_name}.{_mode}", _adds, *_given)
    _add(f"slice.index.{_name}", _slices, *_given)
    _add(f"slice.update_index.{_name}", _updates, *_given)


def _moved_slice(x: Array, i: Array) -> Array:
    return lax.dynamic_slice(x, (i, i), (2, 2)), lax.dynamic_update_slice(x, x[:2, :2], (i, i))


for _name in EVERY:
    _given = some(_name, 4, 3), _OUTSIDE
    _add(f"gather.dtype.{_name}", lambda x, i: (x[i], x.at[i].get(mode="fill")), *_given)
    _add(f"scatter.dtype.{_name}", lambda x, i: x.at[i].set(x[0], mode="drop"), *_given)
    if _name != "bool":
        _add(f"scatter.add_dtype.{_name}", lambda x, i: x.at[i].add(x[0]), *_given)
    _add(f"slice.dtype.{_name}", _moved_slice, _given[0], np.array(3, np.int32))


def _updated(update: str, mode: str | None) -> Function:
    return lambda x, i, y: getattr(x.at[i], update)(y[: i.shape[0]], mode=mode)


for (_where, _indices), _update, _mode in product(
    _PLACES.items(),
    ("set", "add", "multiply", "min", "max", "subtract", "divide"),
    ("drop", "clip", None),
):
    if _update == "set" and _where in ("repeated", "outside") and _mode == "clip":
        continue  # which of several is kept is nobody's promise
    for _name in ("float32",) if _update == "divide" else ("float32", "int32"):
        _given = some(_name, 4, 3), _indices, some(_name, 11, 3, seed=1)
        _add(f"scatter.{_update}.{_where}.{_mode}.{_name}", _updated(_update, _mode), *_given)
_SPECIAL = floats(NAN, 1, INF, -0.0)
for _word in ("max", "min"):
    _add(
        f"scatter.{_word}_of_none.float32",
        lambda x, i, y, w=_word: getattr(x.at[i], w)(y),
        floats(NAN, 1, INF, -0.0, 0.0, 2),
        np.arange(6, dtype=np.int32),
        floats(1, NAN, NAN, 0.0, -0.0, 5),
    )
_add(
    "scatter.values.float32",
    lambda x, i: (x.at[i].max(1.0), x.at[i].min(0.0), x.at[i].multiply(2.0), x.at[i].add(NAN)),
    _SPECIAL,
    _REPEATED,
)
_add("scatter.both.float32", lambda x, i: x.at[i, i[::-1]].add(1.0), f32(4, 4), _OUTSIDE)

_CORNERS = ints([0, 0], [4, 4], [-1, 2], [3, 3], [9, -9], [2, 4])


def _windows_put(function: Function, mode: Any) -> Function:
    numbers = lax.ScatterDimensionNumbers((0, 1), (), (0, 1))
    return lambda x, i, y: tuple(function(x, each, y, numbers, mode=mode) for each in i)


def _windows_taken(mode: Any, *offsets: int) -> Function:
    numbers = lax.GatherDimensionNumbers(offsets, (), tuple(range(len(offsets))))
    return lambda x, i: lax.gather(x, i, numbers, (2,) * len(offsets), mode=mode)


_SCATTERS = "scatter scatter_add scatter_min scatter_max scatter_mul scatter_sub"
for _mode in ("drop", "clip"):
    _kept = lax.GatherScatterMode.from_any(_mode if _mode == "clip" else "fill")
    for _word, _function in _named(lax, _SCATTERS).items():
        _given = f32(5, 5), _CORNERS, f32(2, 2, seed=1)
        _add(f"scatter.window.{_word}.{_mode}", _windows_put(_function, _kept), *_given)
    _add(f"gather.window.{_mode}", _windows_taken(_kept, 1, 2), f32(5, 5), _CORNERS)
    _edges = ints([[0], [4]], [[-1], [3]], [[9], [-9]])
    _add(f"gather.batched.{_mode}", jax.vmap(_windows_taken(_kept, 1)), f32(3, 5), _edges)
    _adding: Function = jax.vmap(lambda a, b, m=_mode: a.at[b].add(1.0, mode=m))
    _add(f"scatter.batched.{_mode}", _adding, f32(3, 5), _edges[..., 0])
_add("gather.whole", lambda x, i: x[i], f32(4, 3, 2), ints([0, 9], [-1, 2]))
_add(
    "slice.empty_of",
    lambda x, i: lax.dynamic_update_slice(x, jnp.zeros((0, 2), x.dtype), (i, i)),
    f32(4, 3),
    np.int32(4),
)
_add(
    "slice.negative",
    lambda x, i: (
        lax.dynamic_slice(x, (i, i + 9), (2, 2)),
        lax.dynamic_index_in_dim(x, i),
        lax.dynamic_update_index_in_dim(x, x[0], i, 0),
    ),
    f32(4, 3),
    np.int32(-7),
)
for (_word, _function), _name in product(
    _named(jax.ops, "segment_sum segment_prod segment_max segment_min").items(),
    ("float32", "int32"),
):
    _segments: Function = lambda x, i, f=_function: f(x, i, num_segments=4)  # noqa: E731
    _add(f"segment.{_word}.{_name}", _segments, some(_name, 6, 2), ints(0, 0, 3, -1, 9, 1))

# Windows, convolutions and products


def _windows(start: Any, combine: Function, *options: Any) -> Function:
    """Return a reduction of windows. options: dimensions, strides, padding, and both dilations."""
    return lambda x: lax.reduce_window(x, np.asarray(start, x.dtype), combine, *options)


_WINDOWS: dict[str, tuple[Function, float]] = {
    "max": (lax.max, -INF),
    "min": (lax.min, INF),
    "add": (lax.add, 0.0),
    "mul": (lax.mul, 1.0),
}
_POOLS: dict[str, tuple[Any, ...]] = {
    "valid": ((2, 3), (1, 1), "VALID"),
    "same": ((3, 3), (2, 2), "SAME"),
    "dilated": ((2, 2), (1, 2), ((1, 2), (0, 1)), (2, 1), (1, 2)),
    "negative": ((2, 2), (1, 1), ((-1, 1), (0, -1))),
}
for (_word, (_function, _start)), (_kind, _options), _name in product(
    _WINDOWS.items(), _POOLS.items(), ("float32", "int32", "bfloat16", "uint8")
):
    if _name in INTEGERS and abs(_start) == INF:
        _start = np.iinfo(_name).max if _start > 0 else np.iinfo(_name).min
    _pool = _windows(_start, _function, *_options)
    _add(f"window.{_word}.{_kind}.{_name}", _pool, some(_name, 6, 7))
_add(
    "window.nan.float32",
    lambda x: (
        lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "SAME"),
        lax.reduce_window(x, jnp.inf, lax.min, (2,), (1,), "SAME"),
    ),
    floats(1, NAN, 3, -0.0, 0.0, INF, -INF, 2),
)


def _squares(pool: Function) -> Function:
    """Return the gradient of the sum of squares of windows."""
    return jax.grad(lambda x: (pool(x) ** 2).sum())


_PLANE = (1, 3, 3, 1)

_planes = _squares(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, _PLANE, (1, 2, 2, 1), "SAME"))
_least = _squares(
    lambda x: lax.reduce_window(x, jnp.inf, lax.min, (2, 2), (2, 2), ((1, 1), (0, 0)))
)
_add("window.max_grad.float32", _planes, np.round(f32(1, 6, 6, 2)))
_add("window.min_grad.float32", _least, np.round(f32(6, 6)))

type Shape = tuple[int, ...]
_SAME, _VALID = ((1, 1), "SAME"), ((1, 1), "VALID")
_CONVOLUTIONS: dict[str, tuple[Shape, Shape, tuple[Any, Any], dict[str, Any]]] = {
    "plain": ((2, 3, 8, 9), (4, 3, 3, 3), _VALID, {}),
    "strided": ((2, 3, 8, 9), (4, 3, 3, 2), ((2, 3), "SAME"), {}),
    "dilated": ((1, 3, 8, 9), (4, 3, 2, 2), _SAME, {"rhs_dilation": (2, 3)}),
    "transposed": (
        *((1, 3, 5, 5), (4, 3, 3, 3), ((1, 1), ((2, 1), (1, 2)))),
        {"lhs_dilation": (2, 2)},
    ),
    "all": (
        *((1, 4, 7, 6), (6, 2, 2, 3), ((2, 1), ((3, -1), (1, 2)))),
        {"lhs_dilation": (2, 1), "rhs_dilation": (1, 2), "feature_group_count": 2},
    ),
    "grouped": ((2, 6, 5, 5), (6, 2, 3, 3), _SAME, {"feature_group_count": 3}),
    "depthwise": ((2, 6, 5, 5), (6, 1, 3, 3), _SAME, {"feature_group_count": 6}),
    "depthwise_many": (*((2, 3, 5, 5), (6, 1, 3, 3), ((2, 2), "SAME")), {"feature_group_count": 3}),
    "batch_grouped": ((4, 3, 5, 5), (6, 3, 3, 3), _SAME, {"batch_group_count": 2}),
    "negative": ((1, 2, 8, 8), (3, 2, 3, 3), ((1, 1), ((-2, 1), (-1, -1))), {}),
    "line": ((2, 3, 11), (4, 3, 3), ((2,), "SAME"), {}),
    "volume": ((1, 2, 5, 5, 4), (3, 2, 2, 3, 2), ((1, 2, 1), "SAME"), {}),
    "point": ((2, 3), (4, 3), ((), ()), {}),
    "empty": ((0, 3, 8, 9), (4, 3, 3, 3), _VALID, {}),
    "too_small": ((1, 3, 2, 2), (4, 3, 3, 3), _VALID, {}),
}


def _conv(*steps: Any, **options: Any) -> Function:
    """Return a convolution. steps: strides and padding."""
    return lambda x, y: lax.conv_general_dilated(x, y, *steps, **options)


for (_word, (_left, _right, _steps, _more)), _name in product(
    _CONVOLUTIONS.items(),
    ("float32", "bfloat16", "float16", "float64", "int8", "int32", "complex64"),
):
    _given = some(_name, *_left), some(_name, *_right, seed=1)
    _add(f"conv.{_word}.{_name}", _conv(*_steps, **_more), *_given)
_IMAGES = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
_nhwc = _conv((2, 2), "SAME", **_IMAGES)
_split = _conv((2, 1), "SAME", feature_group_count=2, rhs_dilation=(1, 2))


def _turned(x: Array, y: Array) -> Array:
    return lax.conv_transpose(x, y, (2, 2), "SAME", transpose_kernel=True, **_IMAGES)


_add("conv.nhwc.float32", _nhwc, f32(2, 9, 9, 3), f32(3, 3, 3, 5, seed=1))
for _word, _function, _left, _right in (
    ("grad", _nhwc, (2, 7, 7, 3), (3, 3, 3, 4)),
    ("grad_grouped", _split, (2, 4, 7, 7), (6, 2, 3, 3)),
):
    _gradient = jax.grad(lambda x, y, f=_function: (f(x, y) ** 2).sum(), (0, 1))
    _add(f"conv.{_word}.float32", _gradient, f32(*_left), f32(*_right, seed=1))

_PRODUCTS: dict[str, tuple[Shape, Shape, Any]] = {
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
_MATRIX = (((1,), (0,)), ((), ()))


def _dot(numbers: Any, wide: str = "") -> Function:
    preferred = dtype_of(wide) if wide else None
    return lambda x, y: lax.dot_general(x, y, numbers, preferred_element_type=preferred)


for (_word, (_left, _right, _numbers2)), _name in product(_PRODUCTS.items(), EVERY):
    _given = some(_name, *_left), some(_name, *_right, seed=1)
    _add(f"dot.{_word}.{_name}", _dot(_numbers2), *_given)
for _name, _wide_name in (
    ("int8", "int32"), ("uint8", "int32"), ("uint8", "uint32"), ("int16", "int64"),
    ("bfloat16", "float32"),
    ("float16", "float32"), ("float32", "float64"), ("int32", "float32"), ("bool", "int32"),
    ("float32", "bfloat16"),
):  # fmt: skip
    _left_matrix = np.resize(edges(_name), (4, 9)) if _name in INTEGERS else some(_name, 4, 9)
    _given = _left_matrix, some(_name, 9, 4, seed=1)
    _add(f"dot.{_name}_to_{_wide_name}", _dot(_MATRIX, _wide_name), *_given)


def _converted(wide: str) -> Function:
    cast = _cast(wide)
    return lambda x, y: (cast(x) @ cast(y), cast(x) @ cast(x).T)


for _name, _wide_name in product(("bool", *INTEGERS), ("int32", "int64", "uint64", *FLOATS[1:])):
    _values = np.resize(edges(_name) // 2 if _name != "bool" else edges(_name), (4, 9))
    _add(f"dot.converted.{_name}.{_wide_name}", _converted(_wide_name), _values, f32(9, 4))
_add("dot.overflow.int8", lambda x: lax.dot(x, x), np.full((20, 20), 100, np.int8))
_add("dot.overflow.int32", lambda x: lax.dot(x, x), np.full((20, 20), 2**30 + 7, np.int32))
_mixed = edges("uint8")[:24].reshape(4, 6), edges("int8")[:24].reshape(6, 4)
_add("dot.mixed", _dot(_MATRIX, "int32"), *_mixed)
_add(
    "dot.einsum.float32",
    lambda x, y: jnp.einsum("bhqd,bhkd->bhqk", x, y),
    f32(2, 3, 4, 5),
    f32(2, 3, 6, 5, seed=1),
)

# Shapes


def _padded(*widths: Any) -> Function:
    return lambda x: lax.pad(x, _one(x), widths)


_PADDED = (((1, 2, 0), (0, 0, 2)), ((-1, 2, 1), (-1, -1, 0)), ((-2, 0, 1), (3, -4, 2)))
_MOVED: dict[str, Function] = {
    "moved": lambda x: (
        *(x.T, x[::-1], x[:, ::-1], x.reshape(4, 3), jnp.roll(x, 1, 0), x[::2, 1::2], x.ravel()),
    ),
    "triangles": lambda x: (
        *(jnp.tril(x), jnp.triu(x, 1), jnp.diag(x[0]), jnp.diagonal(x), jnp.flipud(x)),
        jnp.rot90(x),
    ),
}


def _joined(x: Array, y: Array) -> Array:
    whole = jnp.concatenate([x, y])
    return whole, jnp.stack([x, x], 1), jnp.tile(x, (2, 2)), jnp.repeat(y, 2, 1)


def _selected(m: Array, x: Array) -> Array:
    other = x[::-1]
    return jnp.where(m, x, other), lax.select_n(m, x, x[::-1]), lax.select(m[0], x, x[::-1])


def _iotas(x: Array) -> Array:
    iota, wide = lax.iota(x.dtype, 300), lax.broadcasted_iota
    return iota, wide(x.dtype, (3, 4), 1), wide(x.dtype, (3, 4), 0)


for _name in EVERY:
    _all("shape", _MOVED, some(_name, 3, 4), ends=f".{_name}")
    _add(f"pad.{_name}", lambda x: tuple(_padded(*w)(x) for w in _PADDED), some(_name, 3, 4))
    _add(f"shape.joined.{_name}", _joined, some(_name, 3, 4), some(_name, 2, 4, seed=1))
    _scalars: Function = lambda x: (x, x.reshape(1, 1), jnp.broadcast_to(x, (3, 2)))  # noqa: E731
    _add(f"shape.scalar.{_name}", _scalars, some(_name))
    _add(f"shape.chosen.{_name}", _selected, some("bool", 5), some(_name, 5))
    _add(f"shape.same.{_name}", lambda x: x, edges(_name))
    if _name != "bool":
        _add(f"iota.{_name}", _iotas, some(_name, 1))
    _flips: Function = lambda x: lax.fori_loop(0, 3, lambda i, c: c[::-1], x)  # noqa: E731
    _add(f"control.kept.{_name}", _flips, some(_name, 4))
_OF_NONE: dict[str, Function] = {
    "moved": lambda x: (x.T, x[::-1], x.reshape(4, 0), x.reshape(2, 0, 3)),
    "padded": _padded((1, 2, 0), (0, 0, 1)),
    "plain": lambda x: (x == x, jnp.where(x == x, x, x), x.astype(jnp.float32)),
    "sorted": lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1)),
}
_TO_NONE: dict[str, Function] = {
    "padded_away": _padded((-3, 0, 0), (0, 0, 0)),
    "reversed": lambda x: (x[:0], x[3:], x[:0, ::-1]),
}
for _name in ("float32", "int32", "bool", "uint8", "bfloat16"):
    _none, _many = none(0, 4, dtype=dtype_of(_name)), some(_name, 3, 4)
    _add(f"empty.joined.{_name}", lambda x, y: jnp.concatenate([x, y, x]), _none, _many)
    _all("empty", _OF_NONE, _none, ends=f".{_name}")
    _all("empty", _TO_NONE, _many, ends=f".{_name}")
_OF_FIVE: dict[str, Function] = {
    "insert": lambda x: (jnp.insert(x, 2, 9.0), jnp.delete(x, 1), jnp.append(x, x)),
    "polynomials": lambda x: (
        *(jnp.polyval(x, x), jnp.convolve(x, x), jnp.correlate(x, x), jnp.vander(x)),
        jnp.interp(x, jnp.sort(x), x),
    ),
}
_all("shape", _OF_FIVE, f32(5))
_add("shape.split", lambda x: jnp.split(x, 3, axis=1), f32(4, 6))

# Control flow


def _loop(count: Array, x: Array) -> Array:
    return lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[1] * 2), (count, x))


def _halved(x: Array) -> Array:
    """Find a root by bisection."""

    def step(c: Array) -> Array:
        low: Function = lambda d: (d[0], (d[0] + d[1]) / 2)  # noqa: E731
        high: Function = lambda d: ((d[0] + d[1]) / 2, d[1])  # noqa: E731
        return lax.cond((c[0] + c[1]) ** 2 / 4 > x, low, high, c)

    return lax.while_loop(lambda c: c[1] - c[0] > 1e-5, step, (jnp.zeros_like(x), x))


def _switch(*branches: Function) -> Function:
    return lambda i, x: lax.switch(i, branches, x)


_PLUS, _TIMES = lambda y: y + 1, lambda y: y * 2
_OF_COUNTS: dict[str, Function] = {
    "fori": lambda n, x: lax.fori_loop(0, n, lambda i, c: c + i, x),
    "fori_backwards": lambda n, x: lax.fori_loop(n, 0, lambda i, c: c + i, x),
}
_SCANS: dict[str, Function] = {
    "scan": lambda x: lax.scan(lambda c, y: (c * 0.5 + y, c), x[0], x),
    "scan_reverse": lambda x: lax.scan(lambda c, y: (c * 0.5 + y, (c, y)), x[0], x, reverse=True),
    "scan_unrolled": lambda x: lax.scan(lambda c, y: (c * 0.5 + y, c), x[0], x, unroll=2),
    "grad_scan": jax.grad(lambda x: lax.scan(lambda c, y: (jnp.tanh(c * y), c), x[0], x)[0].sum()),
}
_all("control", _OF_COUNTS, np.int32(9), np.int32(2))
_all("control", _SCANS, f32(5, 3))
for _word, _function, *_given in (
    ("while", _loop, np.int32(6), f32(3)),
    ("while_never", _loop, np.int32(-1), f32(3)),
    ("while_each", jax.vmap(_loop), ints(0, 3, 1), f32(3)),
    (
        *("until", lambda x: lax.while_loop(lambda c: (c < 100).all(), lambda c: c * 3, x)),
        floats(1, 2.5),
    ),
    (
        "scan_carry_array",
        lambda x: lax.scan(lambda c, i: (c.at[i].add(c[i - 1]), c.sum()), x, jnp.arange(5)),
        f32(5),
    ),
    ("map", lambda x: lax.map(lambda y: jnp.sort(y), x), f32(4, 6)),
    (
        "swap",
        lambda x, y: lax.fori_loop(0, 5, lambda i, c: (c[1], c[0] + c[1]), (x, y)),
        *(np.int32(0), np.int32(1)),
    ),
    *(
        (f"switch.{n}", _switch(_PLUS, _TIMES, lambda y: -y), np.int32(n), f32(3))
        for n in (-5, -1, 0, 1, 2, 3, 99, 2**31 - 1, -(2**31))
    ),
    ("switch_each", jax.vmap(_switch(_PLUS, _TIMES)), ints(-1, 0, 1, 7), f32(4)),
    ("switch_clamp.int64", _switch(_PLUS, _TIMES), np.int64(2**32), f32(3)),
    (
        *("cond", lambda p, x: lax.cond(p > 0, _PLUS, lambda y: jnp.sort(y), x)),
        *(np.float32(NAN), f32(5)),
    ),
    (
        "cond_one",
        lambda p, x: lax.cond(p, lambda y: (y, y[0]), lambda y: (y * 2, y[1]), x),
        *(np.True_, f32(5)),
    ),
    (
        "cond_each",
        jax.vmap(lambda p, x: lax.cond(p, lambda y: 1 / y, lambda y: y, x)),
        *(np.array([True, False]), floats(2, 0)),
    ),
    (
        "nested",
        lambda x: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, i, lambda j, d: d + j, c), x),
        np.int32(1),
    ),
    ("checkpoint", jax.grad(jax.checkpoint(lambda x: jnp.sin(x).sum())), f32(5)),
    ("bisection", _halved, np.float32(2)),
):
    _add(f"control.{_word}", _function, *_given)

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

# Transforms

for _word, _length in product(
    ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), (1, 2, 5, 8, 12, 16)
):
    _of = "complex64" if _word in ("fft", "ifft", "irfft", "hfft") else "float32"
    _more_by_one = _word in ("irfft", "hfft")
    _add(f"fft.{_word}.{_length}", getattr(jnp.fft, _word), some(_of, 3, _length + _more_by_one))


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
    _add(f"behind.{_word}.{_other}", lambda x, f=_loops, g=_taken: g(f(x)), f32(9, 4))
_BY_PLACES: dict[str, Function] = {
    "slice.flipped": lambda x, i: lax.dynamic_slice(x, (i[0], 0), (3, 4))[::-1, ::2],
    "update.flipped": lambda x, i: lax.dynamic_update_slice(x, x[:3, :2] + 1, (i[0], i[1]))[
        ::-1, ::2
    ],
}
_all("behind", _BY_PLACES, f32(9, 4), ints(5, 2))

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
_BY_ROWS: dict[str, Function] = {
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
_all("rows", _BY_ROWS, _ROWS)
_all("rows", _BY_ROWS, -_ROWS, ends=".negative")

for _power in (0.5, -0.5, 1.5, 0.25, 1 / 3, -1.5, 2.0, -1.0, 0.0):
    _add(f"power.of_constant.{_power:.2f}", lambda x, p=_power: x**p, _floats("float32"))
    _add(
        f"power.of_each.{_power:.2f}", lambda x, p=_power: x ** jnp.full(96, p), _floats("float32")
    )

_add(
    "conv.infinite_kernel",
    _conv((1,), [(2, 1)], dimension_numbers=("NHC", "HIO", "NHC")),
    np.array([1, 0, INF, 2, NAN, -1, 3, 0, 1, -2] * 4, np.float32).reshape(2, 10, 2),
    np.array([INF, 1, 2, -INF, 0, 3] * 2, np.float32).reshape(3, 2, 2),
)

# Sums and products with constants, one after the other, of numbers far from zero

_FAR = np.float32(1e6) + f32(8, 16)
_ROW, _SCALE = np.float32(1e6) + f32(16, seed=1), np.float32(0.1) + f32(16, seed=2)
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
_all("chain", _CHAINS, _FAR)
_add("chain.image", lambda x: (x / 255 - 0.485) / 0.229, np.arange(256, dtype=np.float32))


# Integers that float32 does not hold

_MOST, _FINE = np.int32(2**31 - 1), np.int32(2**24 + 1)
_ENDS = ints(0, 1, -1, _FINE, _FINE - 1, -_FINE, _MOST, _MOST - 1, -_MOST, ~_MOST, 65535, 65536)
_LEFT, _RIGHT = (each.ravel() for each in np.meshgrid(_ENDS, _ENDS))
_BLOCK = _random(4).permutation(_LEFT).reshape(4, 3, 12)
_EXACT = [*_named(jnp, "sum prod max min").values()]


def _reduced(*axes: Any) -> Function:
    return lambda x: [function(x, axis) for function in _EXACT for axis in axes]


def _chosen(*operands: Array) -> Array:
    """Choose by several conditions, which an engine may join with the choice."""
    x, y = operands
    return jnp.where((x > y) | (y == 0), x, y * 3)


_COMBINED: dict[str, Function] = {
    "clamped": lambda x, y: (lax.clamp(y, x, y[::-1]), jnp.clip(x, -_FINE, 7)),
    "padded": lambda x, y: [lax.pad(x, each, [(1, 2, 1)]) for each in (_MOST, y[4], _FINE)],
    "scattered": lambda x, y: (x.at[::2].max(y[1::2]), x.at[::2].min(y[4])),
    "chosen": _chosen,
    "chosen_in_loops": lambda x, y: lax.fori_loop(0, 3, lambda _, z: _chosen(z, y), x),
    "chosen_in_branches": lambda x, y: lax.cond(y[3] > 0, _chosen, jnp.maximum, x, y),
}
_all("fine", _COMBINED, _LEFT, _RIGHT)
_OF_BLOCK: dict[str, Function] = {
    "reduced": _reduced(0, 2, (0, 2), (), None),
    "places": lambda x: (x.argmax(2), x.argmin(1), (x > 5).sum((0, 1))),
    "sums": lambda x: [lax.cumsum(x, 2), lax.cumsum(x, 1, reverse=True), lax.cumprod(x, 2)],
    "extremes": lambda x: [lax.cummax(x, 2), lax.cummin(x, 2), lax.cummin(x, 0, reverse=True)],
    "windows": lambda x: lax.reduce_window(x, _MOST, lax.min, (1, 2, 3), (1, 1, 2), "SAME"),
}
_all("fine", _OF_BLOCK, _BLOCK)
_add("fine.one_to_reduce", _reduced(0), _ENDS[None])
_none_to_reduce: Function = lambda x: (x.sum(0), x.max(0, initial=_FINE), x.sum(1))  # noqa: E731
_add("fine.none_to_reduce", _none_to_reduce, none(0, 3, dtype=np.int32))
_add("fine.no_results", _reduced(0), none(3, 0, dtype=np.int32))


def _counted(x: Array, i: Array) -> Array:
    return lax.fori_loop(0, 2, lambda _, y: y.at[i, i + 1].add(1.0, mode="drop"), x)


_add("fine.scattered_far", _counted, none(4200, 4200), ints(4198, 4196, 9000))


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

_WIDE, _DEEP = f32(7, 2, 6), f32(1, 1, 1, 4, seed=3)


def _window_of_one(x: Array, start: float = 0.0, function: Function = lax.add) -> Array:
    return lax.reduce_window(x, start, function, (1, 1, 1), (2, 1, 2), "SAME")


def _depthwise(padding: Any, **options: Any) -> Function:
    return _conv((2, 1), padding, feature_group_count=4, **_IMAGES, **options)


_PARTS: dict[str, Function] = {
    "window_sum": _window_of_one,
    "window_min": lambda x: _window_of_one(x, INF, lax.min),
    "window_padded": lambda x: lax.reduce_window(
        x, np.float32(1), lax.mul, (1, 1, 1), (2, 1, 2), ((0, 0), (1, 0), (2, 1))
    ),
    "depthwise": lambda x: _depthwise("SAME")(x[..., None, :4], _DEEP),
    "depthwise_padded": lambda x: _depthwise(((1, 1), (0, 2)), lhs_dilation=(1, 2))(
        x[..., None, :4], _DEEP
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

_MANY = np.float32(1000) + np.abs(f32(9000))
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
_all("many", _MANY_SUMS, _MANY, ends=".float32")

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
for (_word, _made), (_other, _taken) in product(_FILLED.items(), _REDUCED.items()):
    _add(f"filled.{_word}.{_other}", lambda x, f=_made, r=_taken: (x, r(f())), floats(1, 2))

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

# Numbers of 16 bits that a maximum and a difference share


def _scores(x: Array, w: Array) -> Array:
    scores = (x @ w) @ jnp.swapaxes(x, -1, -2) / 3.464
    return jax.nn.softmax(jnp.where(np.tri(2, dtype=np.bool_), scores, -jnp.inf))


_FAR = np.random.default_rng(0).standard_normal((2, 12, 12))
_add(
    "scores.bfloat16",
    _scores,
    (1000 + _FAR[0].reshape(6, 2, 12)).astype(dtype_of("bfloat16")),
    _FAR[1].astype(dtype_of("bfloat16")),
)

_BESIDE = ("bool", "float32", "int32", "uint8")


def _beside() -> Iterator[tuple[str, Program]]:
    """Yield programs of some operations with their inputs as constants, each result beside inputs.

    What an engine computes once is not changed by calls.
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
