"""Functions of each element: arithmetic, comparisons, bits, elementary functions, activations."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from aotc.capture.model_files.framework_arithmetic import integer_power, true_divide
from aotc.frontends.pytorch.operators.torch_operator_table import Family, Memory
from aotc.frontends.pytorch.torch_dtypes import (
    DType,
    as_dtype,
    as_float,
    category,
    is_float,
    is_low,
    is_tensor,
    promote,
    promote_all,
    scaled,
    wide,
)
from aotc.frontends.pytorch.torch_refusals import Unsupported

FAMILY = Family()
op = FAMILY

type Number = Any
"""A Python number, or a size that varies."""

type Functions = Mapping[str, Callable[..., Array]]
"""By names of operators."""


def rounded(function: Callable[..., Array], *values: Array) -> Array:
    """Return a function that computes shorter floats in float32 and rounds, as torch does."""
    dtype = values[0].dtype
    return function(*(value.astype(wide(dtype)) for value in values)).astype(dtype)


def floats(function: Callable[..., Array], *values: Any) -> Array:
    """Return a function computed as `rounded` does it, of values that become floats first."""
    return rounded(function, *as_float(*values))


def _sinc(x: Array) -> Array:
    angle = jnp.pi * x
    return jnp.where(x == 0, 1, jnp.sin(angle) / angle)


def _digamma(x: Array) -> Array:
    pole = jnp.copysign(jnp.asarray(jnp.inf, x.dtype), -x)
    return jnp.where(x == 0, pole, jax.scipy.special.digamma(x))


def _sign(x: Array) -> Array:
    """0 of NaN, as in torch."""
    if category(x.dtype) in (0, 3):
        return x if x.dtype == bool else jnp.sign(x)
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def _of_one(compute: Callable[..., Array], functions: Functions) -> None:
    """Register the functions of one tensor that compute these."""

    def function(of: Callable[..., Array]) -> Callable[..., Array]:
        return lambda self: compute(of, self)

    op.table({name: function(of) for name, of in functions.items()})


def _of_two(compute: Callable[..., Array], functions: Functions) -> None:
    """Register the functions of two tensors or numbers that compute these."""

    def function(of: Callable[..., Array]) -> Callable[..., Array]:
        return lambda self, other: compute(of, self, other)

    op.table({name: function(of) for name, of in functions.items()})


def _named(module: Any, names: str, prefix: str = "", there: str = "") -> Functions:
    """Return a module's functions by torch's names for them, which are its own but for prefixes."""
    return {prefix + name: getattr(module, there + name) for name in names.split()}


_of_one(
    floats,
    {
        **_named(jnp, "cos cosh sin sinh tan tanh"),
        **_named(jnp, "cos cosh sin sinh tan tanh", "a", "arc"),
        **_named(jnp, "deg2rad exp exp2 expm1 log log10 log1p log2 rad2deg sqrt"),
        **_named(jax.scipy.special, "entr i0e i1 i1e log_ndtr ndtr ndtri", "special_"),
        "digamma": _digamma,
        "erf": lax.erf,
        "erfc": lax.erfc,
        "erfinv": lax.erf_inv,
        "i0": jax.scipy.special.i0,
        "lgamma": lax.lgamma,
        "log_sigmoid": jax.nn.log_sigmoid,
        "reciprocal": lambda x: 1 / x,
        "rsqrt": lambda x: 1 / jnp.sqrt(x),
        "sigmoid": jax.nn.sigmoid,
        "silu": jax.nn.silu,
        "sinc": _sinc,
        "mish": lambda x: x * jnp.tanh(jax.nn.softplus(x)),
    },
)
_of_one(
    lambda function, x: function(x),
    {
        **_named(jnp, "abs bitwise_not isfinite isinf isnan isneginf isposinf logical_not"),
        **_named(jnp, "signbit square"),
        "neg": jnp.negative,
        "sgn sign": _sign,
        "relu": lambda x: jnp.maximum(x, 0),
        "relu6": lambda x: jnp.clip(x, 0, 6),
        "conj_physical": jnp.conj,
        "frac": lambda x: x - jnp.trunc(x),
    },
)
_of_one(
    lambda function, x: function(x) if is_float(x) else x,
    {"ceil": jnp.ceil, "floor": jnp.floor, "trunc fix": jnp.trunc, "round": jnp.round},
)


@op("round.decimals")
def round_to(self: Array, decimals: int) -> Array:
    if not is_float(self):
        return self
    factor = 10.0 ** abs(decimals)

    def scaled(x: Array) -> Array:
        if decimals < 0:
            return jnp.round(x / factor) * factor
        return jnp.round(x * factor) / factor

    return rounded(scaled, self)


def _times(b: Array, alpha: Number, dtype: DType) -> Array:
    """Return b times alpha, which is rounded to the tensors' dtype."""
    return b if isinstance(alpha, int) and alpha == 1 else b * as_dtype(alpha, dtype)


@op("add.Tensor", "add.Scalar")
def add(self: Array, other: Any, alpha: Number = 1) -> Array:
    a, b = promote_all(self, other)
    if a.dtype == bool:
        return a | b if alpha else a
    return rounded(lambda x, y: x + _times(y, alpha, a.dtype), a, b)


@op("sub.Tensor", "sub.Scalar", "subtract.Tensor", "subtract.Scalar")
def sub(self: Array, other: Any, alpha: Number = 1) -> Array:
    a, b = promote_all(self, other)
    return rounded(lambda x, y: x - _times(y, alpha, a.dtype), a, b)


@op("mul.Tensor", "mul.Scalar", "multiply.Tensor", "multiply.Scalar")
def mul(self: Array, other: Any) -> Array:
    a, b = scaled(self, other)
    return a & b if a.dtype == bool else rounded(jnp.multiply, a, b)


@op(
    *("div.Tensor", "div.Scalar", "divide.Tensor", "divide.Scalar"),
    *("true_divide.Tensor", "true_divide.Scalar"),
)
def div(self: Array, other: Any) -> Array:
    a, b = scaled(self, other)
    if a.dtype != b.dtype:
        return rounded(true_divide, *_alike(a, b))
    return floats(lax.div, *_alike(*as_float(self, other)))


def _alike(a: Array, b: Array) -> tuple[Array, ...]:
    return tuple(jnp.broadcast_arrays(a, b))


@op("div.Tensor_mode", "div.Scalar_mode", "divide.Tensor_mode", "divide.Scalar_mode")
def div_mode(self: Array, other: Any, rounding_mode: str | None = None) -> Array:
    if rounding_mode is None:
        return div(self, other)
    if rounding_mode not in ("floor", "trunc"):
        raise Unsupported(f"rounding_mode {rounding_mode!r}")
    a, b = _alike(*scaled(self, other))
    divide = _floor_divide if rounding_mode == "floor" else _truncated
    # Torch rounds each step, but not if the divisor is a number.
    return divide(a, b) if a.dtype == b.dtype else rounded(divide, a, b)


def _truncated(a: Array, b: Array) -> Array:
    return jnp.trunc(true_divide(a, b)) if is_float(a) else lax.div(a, b)


def _floor_divide(a: Array, b: Array) -> Array:
    """For floats as in torch, which takes care of quotients that round up to the next integer."""
    if category(a.dtype) < 2:
        return jnp.floor_divide(a, b)
    rest = lax.rem(a, b)
    quotient = (a - rest) / b
    quotient = jnp.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1, quotient)
    floor = jnp.floor(quotient)
    floor = jnp.where(quotient - floor > 0.5, floor + 1, floor)
    floor = jnp.where(quotient == 0, jnp.copysign(jnp.zeros_like(a), a / b), floor)
    return jnp.where(b == 0, a / b, floor)


@op("pow.Tensor_Tensor", "pow.Scalar", "pow.Tensor_Scalar")
def power(self: Any, exponent: Any) -> Array:
    dtype = promote(self, exponent)
    if isinstance(exponent, int | float) and not isinstance(exponent, bool) and is_tensor(self):
        return _fixed_power(as_dtype(self, dtype), exponent)
    base, to = _alike(as_dtype(self, dtype), as_dtype(exponent, dtype))
    return integer_power(base, to) if category(dtype) == 1 else rounded(jnp.power, base, to)


def _fixed_power(base: Array, exponent: float) -> Array:
    if category(base.dtype) < 2:
        if exponent < 0:
            raise Unsupported("integers to negative integer powers")
        return lax.integer_pow(base, int(exponent))
    if base.dtype == jnp.bfloat16 and exponent in (3, -2):  # torch rounds twice
        return base * base * base if exponent == 3 else 1 / (base * base)
    if abs(exponent) <= 4 and exponent == int(exponent):
        return rounded(lambda x: lax.integer_pow(x, int(exponent)), base)
    if exponent == 0.5:
        return rounded(jnp.sqrt, base)
    if exponent == -0.5:
        return rounded(lambda x: 1 / jnp.sqrt(x), base)
    return rounded(jnp.power, base, as_dtype(exponent, base.dtype))


@op("isclose")
def isclose(
    self: Array, other: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    a, b = promote_all(self, other)
    if is_low(a.dtype):
        far = jnp.abs(a - b)
        close = jnp.isfinite(far) & (far <= add(jnp.abs(mul(b, rtol)), atol))
        return close | jnp.isclose(a, b, 0, 0, equal_nan)
    return jnp.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _product(log: Callable[..., Array], *values: Any) -> Array:
    """Return x log(y), whose logarithm is rounded as well."""
    x, y = as_float(*values)
    return jnp.where(jnp.isnan(y), y, jnp.where(x == 0, 0, x * log(y)))


_of_two(
    _product,
    {
        "xlogy.Tensor xlogy.Scalar_Other xlogy.Scalar_Self": jnp.log,
        "special_xlog1py special_xlog1py.other_scalar special_xlog1py.self_scalar": jnp.log1p,
    },
)


def between(a: Array, b: Array, weight: Any) -> Array:
    """Interpolate in torch's order of operations, which is exact at both ends."""
    near = a + weight * (b - a)
    return jnp.where(jnp.abs(weight) < 0.5, near, b - (b - a) * (1 - weight))


@op("lerp.Scalar", "lerp.Tensor")
def lerp(self: Array, end: Array, weight: Any) -> Array:
    a, b = promote_all(self, end)
    dtype = a.dtype if is_tensor(weight) else wide(a.dtype)
    return rounded(between, a, b, as_dtype(weight, dtype))


_of_two(
    lambda function, *values: function(*promote_all(*values)),
    {
        "eq.Tensor eq.Scalar": jnp.equal,
        "ne.Tensor ne.Scalar not_equal.Tensor not_equal.Scalar": jnp.not_equal,
        "lt.Tensor lt.Scalar less.Tensor less.Scalar": jnp.less,
        "le.Tensor le.Scalar less_equal.Tensor less_equal.Scalar": jnp.less_equal,
        "gt.Tensor gt.Scalar greater.Tensor greater.Scalar": jnp.greater,
        "ge.Tensor ge.Scalar greater_equal.Tensor greater_equal.Scalar": jnp.greater_equal,
        "__and__.Tensor __and__.Scalar": jnp.bitwise_and,
        "__or__.Tensor __or__.Scalar": jnp.bitwise_or,
        "__xor__.Tensor __xor__.Scalar": jnp.bitwise_xor,
        "__lshift__.Tensor __lshift__.Scalar": jnp.left_shift,
        "__rshift__.Tensor __rshift__.Scalar": jnp.right_shift,
        "bitwise_and.Tensor bitwise_and.Scalar bitwise_and.Scalar_Tensor": jnp.bitwise_and,
        "bitwise_or.Tensor bitwise_or.Scalar bitwise_or.Scalar_Tensor": jnp.bitwise_or,
        "bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor": jnp.bitwise_xor,
        "bitwise_left_shift.Tensor bitwise_left_shift.Scalar": jnp.left_shift,
        "bitwise_left_shift.Scalar_Tensor bitwise_left_shift.Tensor_Scalar": jnp.left_shift,
        "bitwise_right_shift.Tensor bitwise_right_shift.Scalar": jnp.right_shift,
        "bitwise_right_shift.Scalar_Tensor bitwise_right_shift.Tensor_Scalar": jnp.right_shift,
        **_named(jnp, "nextafter gcd lcm fmax fmin logical_and logical_or logical_xor"),
        "maximum max.other": jnp.maximum,
        "minimum min.other": jnp.minimum,
    },
)
_of_two(
    floats,
    {
        "atan2 arctan2": jnp.arctan2,
        **_named(jnp, "hypot logaddexp logaddexp2"),
        "copysign.Tensor copysign.Scalar": jnp.copysign,
    },
)
_of_two(
    lambda function, *values: rounded(function, *promote_all(*values)),
    {
        "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor": jnp.remainder,
        "fmod.Tensor fmod.Scalar": jnp.fmod,
    },
)


@op("clamp", "clamp.Tensor", "clip", "clip.Tensor")
def clamp(self: Array, min: Any = None, max: Any = None) -> Array:
    bounds = [bound for bound in (min, max) if bound is not None]
    dtype = promote(self, *bounds)
    result = as_dtype(self, dtype)
    result = result if min is None else jnp.maximum(result, as_dtype(min, dtype))
    return result if max is None else jnp.minimum(result, as_dtype(max, dtype))


@op("nan_to_num")
def nan_to_num(
    self: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    return jnp.nan_to_num(self, nan=nan or 0.0, posinf=posinf, neginf=neginf)


op.table(
    {
        "floor_divide floor_divide.Scalar": lambda self, other: div_mode(self, other, "floor"),
        "isreal": lambda self: (
            jnp.imag(self) == 0 if category(self.dtype) == 3 else jnp.ones(self.shape, bool)
        ),
        "addcmul": lambda self, tensor1, tensor2, value=1: rounded(
            lambda a, b, c: a + value * b * c, *promote_all(self, tensor1, tensor2)
        ),
        "addcdiv": lambda self, tensor1, tensor2, value=1: floats(
            lambda a, b, c: a + true_divide(value * b, c), self, tensor1, tensor2
        ),
        "heaviside": lambda self, values: jnp.where(
            self == 0, values, (self > 0).astype(values.dtype)
        ),
        "rsub.Scalar rsub.Tensor": lambda self, other, alpha=1: sub(other, self, alpha),
        "where.self where.ScalarOther where.ScalarSelf where.Scalar": (
            lambda condition, self, other: jnp.where(
                condition.astype(bool), *promote_all(self, other)
            )
        ),
        "clamp_min clamp_min.Tensor": lambda self, min: clamp(self, min),
        "clamp_max clamp_max.Tensor": lambda self, max: clamp(self, None, max),
        "masked_fill.Scalar masked_fill.Tensor": lambda self, mask, value: jnp.where(
            mask, as_dtype(value, self.dtype), self
        ),
    }
)


# Activations.


@op("leaky_relu")
def leaky_relu(self: Array, negative_slope: Number = 0.01) -> Array:
    return rounded(lambda x: jnp.where(x > 0, x, x * negative_slope), self)


@op("rrelu", refuse=lambda given: "random numbers" if given.get("training") else None)
def rrelu(
    self: Array, lower: Number = 0.125, upper: Number = 1 / 3, training: bool = False
) -> Array:
    return leaky_relu(self, (lower + upper) / 2)


@op("prelu", "_prelu_kernel")
def prelu(self: Array, weight: Array) -> Array:
    if weight.ndim == 1 and self.ndim > 1:
        weight = weight.reshape((1, -1) + (1,) * (self.ndim - 2))
    elif weight.ndim == 1:
        weight = weight.reshape(-1)[0]
    return jnp.where(self > 0, self, weight * self)


@op("elu")
def elu(self: Array, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Array:
    def apply(x: Array) -> Array:
        below = jnp.where(x > 0, 0, x)
        return jnp.where(x > 0, x * scale, jnp.expm1(below * input_scale) * (alpha * scale))

    return rounded(apply, self)


@op("softplus")
def softplus(self: Array, beta: Number = 1, threshold: Number = 20) -> Array:
    def apply(x: Array) -> Array:
        scaled = x * beta
        return jnp.where(
            scaled > threshold, x, jnp.log1p(jnp.exp(jnp.minimum(scaled, threshold))) / beta
        )

    return rounded(apply, self)


@op("logit", "special_logit")
def logit(self: Array, eps: float | None = None) -> Array:
    (x,) = as_float(self)
    if eps is not None:
        # With eps over a half the bounds cross, and torch asks for the lower one first.
        low = as_dtype(eps, x.dtype)
        x = jnp.where(x < low, low, jnp.minimum(x, 1 - low))
    return jnp.log(x / (1 - x))


op.table(
    {
        "gelu": lambda self, approximate="none": rounded(
            lambda x: jax.nn.gelu(x, approximate=approximate == "tanh"), self
        ),
        "glu": lambda self, dim=-1: rounded(
            lambda a, b: a * jax.nn.sigmoid(b), *jnp.split(self, 2, axis=dim)
        ),
        "softshrink": lambda self, lambd=0.5: jnp.where(
            self > lambd, self - lambd, jnp.where(self < -lambd, self + lambd, self * 0)
        ),
        "selu": lambda self: elu(
            self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
        ),
        "celu": lambda self, alpha=1.0: elu(self, alpha, 1, 1 / alpha),
        "hardtanh": lambda self, min_val=-1, max_val=1: jnp.minimum(
            jnp.maximum(self, as_dtype(min_val, self.dtype)), as_dtype(max_val, self.dtype)
        ),
        "hardswish": lambda self: rounded(lambda x: x * jnp.clip(x + 3, 0, 6) / 6, self),
        "hardsigmoid": lambda self: rounded(lambda x: jnp.clip(x + 3, 0, 6) / 6, self),
        "hardshrink": lambda self, lambd=0.5: jnp.where(
            (self >= -lambd) & (self <= lambd), jnp.zeros_like(self), self
        ),
        "threshold": lambda self, threshold, value: jnp.where(
            self.astype(wide(self.dtype)) <= threshold, as_dtype(value, self.dtype), self
        ),
    }
)


# Complex numbers.


@op("angle")
def angle(self: Array) -> Array:
    (value,) = as_float(self)
    found = jnp.angle(value)
    return jnp.where(jnp.isnan(value), value, found) if is_float(value) else found


op.table(
    {
        "complex": lambda real, imag: lax.complex(*jnp.broadcast_arrays(real, imag)),
        "polar": lambda abs, angle: lax.complex(
            *jnp.broadcast_arrays(abs * jnp.cos(angle), abs * jnp.sin(angle))
        ),
    }
)
op.table({"real": lambda self: jnp.real(self), "imag": lambda self: jnp.imag(self)}, Memory.OVERLAP)
