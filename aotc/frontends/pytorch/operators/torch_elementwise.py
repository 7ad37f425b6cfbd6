"""Functions of each element: arithmetic, comparisons, bits, elementary functions, activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from aotc.capture.model_files.framework_arithmetic import integer_power
from aotc.frontends.pytorch.operators.torch_operator_table import Arguments, Family, Memory
from aotc.frontends.pytorch.torch_dtypes import (
    as_dtype,
    as_float,
    category,
    is_float,
    is_tensor,
    promote,
    promoted,
    wide,
)
from aotc.frontends.pytorch.torch_refusals import Unsupported

FAMILY = Family()
op = FAMILY

type Number = Any
"""A Python number, or a size that varies."""


def rounded(function: Callable[..., Array], *values: Array) -> Array:
    """A function computed as torch does, in float32 for shorter floats, which it is rounded to."""
    dtype = values[0].dtype
    return function(*(value.astype(wide(dtype)) for value in values)).astype(dtype)


def floats(function: Callable[..., Array], *values: Any) -> Array:
    """A function computed as `rounded` does it, of values that become floats first."""
    return rounded(function, *as_float(*values))


def _sinc(x: Array) -> Array:
    angle = jnp.pi * x
    return jnp.where(x == 0, 1, jnp.sin(angle) / angle)


def _digamma(x: Array) -> Array:
    pole = jnp.copysign(jnp.asarray(jnp.inf, x.dtype), -x)
    return jnp.where(x == 0, pole, jax.scipy.special.digamma(x))


def _float_functions() -> None:
    for name, function in {
        "acos": jnp.arccos,
        "acosh": jnp.arccosh,
        "asin": jnp.arcsin,
        "asinh": jnp.arcsinh,
        "atan": jnp.arctan,
        "atanh": jnp.arctanh,
        "cos": jnp.cos,
        "cosh": jnp.cosh,
        "deg2rad": jnp.deg2rad,
        "digamma": _digamma,
        "erf": lax.erf,
        "erfc": lax.erfc,
        "erfinv": lax.erf_inv,
        "exp": jnp.exp,
        "exp2": jnp.exp2,
        "expm1": jnp.expm1,
        "i0": jax.scipy.special.i0,
        "lgamma": lax.lgamma,
        "log": jnp.log,
        "log10": jnp.log10,
        "log1p": jnp.log1p,
        "log2": jnp.log2,
        "log_sigmoid": jax.nn.log_sigmoid,
        "rad2deg": jnp.rad2deg,
        "reciprocal": lambda x: 1 / x,
        "rsqrt": lambda x: 1 / jnp.sqrt(x),
        "sigmoid": jax.nn.sigmoid,
        "silu": jax.nn.silu,
        "sin": jnp.sin,
        "sinc": _sinc,
        "sinh": jnp.sinh,
        "sqrt": jnp.sqrt,
        "tan": jnp.tan,
        "tanh": jnp.tanh,
        "special_entr": jax.scipy.special.entr,
        "special_i0e": jax.scipy.special.i0e,
        "special_i1": jax.scipy.special.i1,
        "special_i1e": jax.scipy.special.i1e,
        "special_log_ndtr": jax.scipy.special.log_ndtr,
        "special_ndtr": jax.scipy.special.ndtr,
        "special_ndtri": jax.scipy.special.ndtri,
        "mish": lambda x: x * jnp.tanh(jax.nn.softplus(x)),
    }.items():

        def apply(self: Array, *, _function: Callable[..., Array] = function) -> Array:
            return floats(_function, self)

        op(f"{name}.default")(apply)


_float_functions()


def _sign(x: Array) -> Array:
    """0 of NaN, as in torch."""
    if category(x.dtype) in (0, 3):
        return x if x.dtype == bool else jnp.sign(x)
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def _same_dtype() -> None:
    """Functions that leave integers integers."""
    for name, function in {
        "abs": jnp.abs,
        "neg": jnp.negative,
        "sgn": _sign,
        "sign": _sign,
        "square": jnp.square,
        "relu": lambda x: jnp.maximum(x, 0),
        "relu6": lambda x: jnp.clip(x, 0, 6),
        "logical_not": jnp.logical_not,
        "bitwise_not": jnp.bitwise_not,
        "isnan": jnp.isnan,
        "isinf": jnp.isinf,
        "isfinite": jnp.isfinite,
        "isposinf": jnp.isposinf,
        "isneginf": jnp.isneginf,
        "signbit": jnp.signbit,
        "conj_physical": jnp.conj,
    }.items():

        def apply(self: Array, *, _function: Callable[..., Array] = function) -> Array:
            return _function(self)

        op(f"{name}.default")(apply)


_same_dtype()


def _roundings() -> None:
    for name, function in {
        "ceil": jnp.ceil,
        "floor": jnp.floor,
        "trunc": jnp.trunc,
        "round": jnp.round,
    }.items():

        def apply(self: Array, *, _function: Callable[..., Array] = function) -> Array:
            return _function(self) if is_float(self) else self

        op(f"{name}.default")(apply)


_roundings()


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


@op("frac.default")
def frac(self: Array) -> Array:
    return self - jnp.trunc(self)


@op("fix.default")
def fix(self: Array) -> Array:
    return jnp.trunc(self) if is_float(self) else self


def _times(a: Array, b: Array, alpha: Number) -> Array:
    return b if isinstance(alpha, int) and alpha == 1 else b * as_dtype(alpha, b.dtype)


@op("add.Tensor", "add.Scalar")
def add(self: Array, other: Any, alpha: Number = 1) -> Array:
    a, b = promoted(self, other)
    if a.dtype == bool:
        return a | b if alpha else a
    return rounded(lambda a, b: a + _times(a, b, alpha), a, b)


@op("sub.Tensor", "sub.Scalar", "subtract.Tensor", "subtract.Scalar")
def sub(self: Array, other: Any, alpha: Number = 1) -> Array:
    return rounded(lambda a, b: a - _times(a, b, alpha), *promoted(self, other))


@op("rsub.Scalar", "rsub.Tensor")
def rsub(self: Array, other: Any, alpha: Number = 1) -> Array:
    a, b = promoted(self, other)
    return rounded(lambda a, b: b - _times(b, a, alpha), a, b)


@op("mul.Tensor", "mul.Scalar", "multiply.Tensor", "multiply.Scalar")
def mul(self: Array, other: Any) -> Array:
    a, b = promoted(self, other)
    return a & b if a.dtype == bool else a * b


@op(
    *("div.Tensor", "div.Scalar", "divide.Tensor", "divide.Scalar"),
    *("true_divide.Tensor", "true_divide.Scalar"),
)
def div(self: Array, other: Any) -> Array:
    return floats(lax.div, *_alike(*as_float(self, other)))


def _alike(a: Array, b: Array) -> tuple[Array, ...]:
    return tuple(jnp.broadcast_arrays(a, b))


@op("div.Tensor_mode", "div.Scalar_mode", "divide.Tensor_mode", "divide.Scalar_mode")
def div_mode(self: Array, other: Any, rounding_mode: str | None = None) -> Array:
    if rounding_mode is None:
        return div(self, other)
    a, b = promoted(self, other)
    if rounding_mode == "floor":
        return rounded(_floor_divide, a, b)
    if rounding_mode != "trunc":
        raise Unsupported(f"rounding_mode {rounding_mode!r}")
    a, b = _alike(a, b)
    return rounded(lambda a, b: jnp.trunc(a / b), a, b) if is_float(a) else lax.div(a, b)


def _floor_divide(a: Array, b: Array) -> Array:
    """For floats as in torch, which takes care of quotients that round up to the next integer."""
    if category(a.dtype) < 2:
        return jnp.floor_divide(a, b)
    a, b = jnp.broadcast_arrays(a, b)
    rest = lax.rem(a, b)
    quotient = (a - rest) / b
    quotient = jnp.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1, quotient)
    floor = jnp.floor(quotient)
    floor = jnp.where(quotient - floor > 0.5, floor + 1, floor)
    floor = jnp.where(quotient == 0, jnp.copysign(jnp.zeros_like(a), a / b), floor)
    return jnp.where(b == 0, a / b, floor)


@op("floor_divide.default", "floor_divide.Scalar")
def floor_divide(self: Array, other: Any) -> Array:
    return div_mode(self, other, "floor")


@op("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(self: Any, other: Any) -> Array:
    return rounded(jnp.remainder, *promoted(self, other))


@op("fmod.Tensor", "fmod.Scalar")
def fmod(self: Array, other: Any) -> Array:
    return rounded(jnp.fmod, *promoted(self, other))


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
    if abs(exponent) <= 4 and exponent == int(exponent):
        return rounded(lambda x: lax.integer_pow(x, int(exponent)), base)
    if exponent == 0.5:
        return rounded(jnp.sqrt, base)
    if exponent == -0.5:
        return rounded(lambda x: 1 / jnp.sqrt(x), base)
    return rounded(lambda x: jnp.power(x, jnp.asarray(exponent, x.dtype)), base)


@op("atan2.default", "arctan2.default")
def atan2(self: Array, other: Array) -> Array:
    return floats(jnp.arctan2, self, other)


@op("hypot.default")
def hypot(self: Array, other: Array) -> Array:
    return floats(jnp.hypot, self, other)


@op("copysign.Tensor", "copysign.Scalar")
def copysign(self: Array, other: Any) -> Array:
    return floats(jnp.copysign, self, other)


@op("logaddexp.default")
def logaddexp(self: Array, other: Array) -> Array:
    return floats(jnp.logaddexp, self, other)


@op("logaddexp2.default")
def logaddexp2(self: Array, other: Array) -> Array:
    return floats(jnp.logaddexp2, self, other)


@op(
    *("special_xlog1py.default", "special_xlog1py.other_scalar", "special_xlog1py.self_scalar"),
)
def xlog1py(self: Any, other: Any) -> Array:
    def function(a: Array, b: Array) -> Array:
        return jnp.where(jnp.isnan(b), b, jnp.where(a == 0, 0, a * jnp.log1p(b)))

    return floats(function, self, other)


def _beyond_trigamma(given: Arguments) -> str | None:
    n = given.get("n")
    return f"the derivative number {n} of digamma" if isinstance(n, int) and n > 1 else None


@op("polygamma.default", "special_polygamma.default", refuse=_beyond_trigamma)
def polygamma(n: int, self: Array) -> Array:
    return floats(_digamma if n == 0 else _trigamma, self)


def _trigamma(x: Array) -> Array:
    """Compute it as torch does: reflected below 0.5, six steps up, then the asymptotic series."""
    reflected = x < 0.5
    sine = jnp.sin(jnp.pi * x)
    y = jnp.where(reflected, 1 - x, x)
    made = jnp.where(reflected, -(jnp.pi**2) / (sine * sine), 0)
    for _ in range(6):
        made = made + 1 / (y * y)
        y = y + 1
    part = 1 / (y * y)
    series = 1 + 1 / (2 * y) + part * (1 / 6 - part * (1 / 30 - part / 42))
    made = made + series / y
    return jnp.where(reflected, -made, made)


@op("heaviside.default")
def heaviside(self: Array, values: Array) -> Array:
    a, b = promoted(self, values)
    return jnp.where(a == 0, b, (a > 0).astype(b.dtype))


@op("nextafter.default")
def nextafter(self: Array, other: Array) -> Array:
    return jnp.nextafter(*promoted(self, other))


@op("gcd.default")
def gcd(self: Array, other: Array) -> Array:
    return jnp.gcd(*promoted(self, other))


@op("lcm.default")
def lcm(self: Array, other: Array) -> Array:
    return jnp.lcm(*promoted(self, other))


EXPONENT_MAX = 4096
"""A power of two that is beyond the numbers of each float."""


@op("ldexp.Tensor")
def ldexp(self: Array, other: Array) -> Array:
    if category(other.dtype) > 1:
        return mul(self, power(2.0, other))
    exponents = jnp.clip(other.astype(jnp.int32), -EXPONENT_MAX, EXPONENT_MAX)
    return floats(lambda x: jnp.ldexp(x, exponents), self)


@op("float_power.Tensor_Tensor", "float_power.Tensor_Scalar", "float_power.Scalar")
def float_power(self: Any, exponent: Any) -> Array:
    wider = [
        as_dtype(value, jnp.float64) if is_tensor(value) else value for value in (self, exponent)
    ]
    return power(*wider)


@op("isclose.default")
def isclose(
    self: Array, other: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    a, b = promoted(self, other)
    close = a == b
    if equal_nan and is_float(a):
        close |= jnp.isnan(a) & jnp.isnan(b)
    x, y = as_float(a, b)
    apart = jnp.abs(x - y)
    return close | (jnp.isfinite(apart) & (apart <= atol + jnp.abs(rtol * y)))


@op("isreal.default")
def isreal(self: Array) -> Array:
    return jnp.imag(self) == 0 if category(self.dtype) == 3 else jnp.ones(self.shape, bool)


@op("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self")
def xlogy(self: Any, other: Any) -> Array:
    x, y = as_float(self, other)
    return jnp.where(jnp.isnan(y), y, jnp.where(x == 0, 0, x * jnp.log(y)))


@op("lerp.Scalar", "lerp.Tensor")
def lerp(self: Array, end: Array, weight: Any) -> Array:
    def between(a: Array, b: Array, w: Array) -> Array:
        return jnp.where(jnp.abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w))

    a, b = promoted(self, end)
    return rounded(between, a, b, as_dtype(weight, a.dtype))


@op("addcmul.default")
def addcmul(self: Array, tensor1: Array, tensor2: Array, value: Number = 1) -> Array:
    a, b, c = promoted(self, tensor1, tensor2)
    return rounded(lambda a, b, c: a + value * b * c, a, b, c).astype(a.dtype)


@op("addcdiv.default")
def addcdiv(self: Array, tensor1: Array, tensor2: Array, value: Number = 1) -> Array:
    return floats(lambda a, b, c: a + value * (b / c), self, tensor1, tensor2)


def _comparisons() -> None:
    for names, function in {
        ("eq",): jnp.equal,
        ("ne", "not_equal"): jnp.not_equal,
        ("lt", "less"): jnp.less,
        ("le", "less_equal"): jnp.less_equal,
        ("gt", "greater"): jnp.greater,
        ("ge", "greater_equal"): jnp.greater_equal,
    }.items():

        def compare(
            self: Array, other: Any, *, _function: Callable[..., Array] = function
        ) -> Array:
            return _function(*promoted(self, other))

        for name in names:
            op(f"{name}.Tensor", f"{name}.Scalar")(compare)


_comparisons()


def _bits() -> None:
    functions: dict[tuple[str, ...], Callable[..., Array]] = {
        ("bitwise_and", "__and__"): jnp.bitwise_and,
        ("bitwise_or", "__or__"): jnp.bitwise_or,
        ("bitwise_xor", "__xor__"): jnp.bitwise_xor,
        ("bitwise_left_shift", "__lshift__"): jnp.left_shift,
        ("bitwise_right_shift", "__rshift__"): jnp.right_shift,
    }
    for names, of_bits in functions.items():

        def apply(self: Any, other: Any, *, _function: Callable[..., Array] = of_bits) -> Array:
            return _function(*promoted(self, other))

        for name in names:
            mixed = ("Scalar_Tensor", "Tensor_Scalar") if "shift" in name else ("Scalar_Tensor",)
            more = () if name.startswith("__") else mixed
            op(*(f"{name}.{kind}" for kind in ("Tensor", "Scalar", *more)))(apply)
    for name, of_truth in {
        "logical_and": jnp.logical_and,
        "logical_or": jnp.logical_or,
        "logical_xor": jnp.logical_xor,
    }.items():

        def logical(
            self: Array, other: Array, *, _function: Callable[..., Array] = of_truth
        ) -> Array:
            return _function(self, other)

        op(f"{name}.default")(logical)


_bits()


@op("maximum.default", "max.other")
def maximum(self: Array, other: Array) -> Array:
    return jnp.maximum(*promoted(self, other))


@op("minimum.default", "min.other")
def minimum(self: Array, other: Array) -> Array:
    return jnp.minimum(*promoted(self, other))


@op("fmax.default")
def fmax(self: Array, other: Array) -> Array:
    return jnp.fmax(*promoted(self, other))


@op("fmin.default")
def fmin(self: Array, other: Array) -> Array:
    return jnp.fmin(*promoted(self, other))


@op("clamp.default", "clamp.Tensor", "clip.default", "clip.Tensor")
def clamp(self: Array, min: Any = None, max: Any = None) -> Array:
    bounds = [bound for bound in (min, max) if bound is not None]
    dtype = promote(self, *bounds)
    result = as_dtype(self, dtype)
    if min is not None:
        result = jnp.maximum(result, as_dtype(min, dtype))
    if max is not None:
        result = jnp.minimum(result, as_dtype(max, dtype))
    return result


@op("clamp_min.default", "clamp_min.Tensor")
def clamp_min(self: Array, min: Any) -> Array:
    return clamp(self, min)


@op("clamp_max.default", "clamp_max.Tensor")
def clamp_max(self: Array, max: Any) -> Array:
    return clamp(self, None, max)


@op("nan_to_num.default")
def nan_to_num(
    self: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    if not is_float(self):
        return self
    return jnp.nan_to_num(self, nan=nan or 0.0, posinf=posinf, neginf=neginf)


@op("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(condition: Array, self: Any, other: Any) -> Array:
    return jnp.where(condition.astype(bool), *promoted(self, other))


@op("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(self: Array, mask: Array, value: Any) -> Array:
    return jnp.where(mask, as_dtype(value, self.dtype), self)


# Activations.


@op("gelu.default")
def gelu(self: Array, approximate: str = "none") -> Array:
    return rounded(lambda x: jax.nn.gelu(x, approximate=approximate == "tanh"), self)


@op("leaky_relu.default")
def leaky_relu(self: Array, negative_slope: Number = 0.01) -> Array:
    return rounded(lambda x: jnp.where(x > 0, x, x * negative_slope), self)


@op("rrelu.default", refuse=lambda given: "random numbers" if given.get("training") else None)
def rrelu(
    self: Array, lower: Number = 0.125, upper: Number = 1 / 3, training: bool = False
) -> Array:
    return leaky_relu(self, (lower + upper) / 2)


@op("prelu.default", "_prelu_kernel.default")
def prelu(self: Array, weight: Array) -> Array:
    if weight.ndim == 1 and self.ndim > 1:
        weight = weight.reshape((1, -1) + (1,) * (self.ndim - 2))
    elif weight.ndim == 1:
        weight = weight.reshape(-1)[0]
    return jnp.where(self > 0, self, weight * self)


@op("elu.default")
def elu(self: Array, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Array:
    def apply(x: Array) -> Array:
        below = jnp.where(x > 0, 0, x)
        return jnp.where(x > 0, x * scale, jnp.expm1(below * input_scale) * (alpha * scale))

    return rounded(apply, self)


@op("selu.default")
def selu(self: Array) -> Array:
    return elu(self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@op("celu.default")
def celu(self: Array, alpha: Number = 1.0) -> Array:
    return elu(self, alpha, 1, 1 / alpha)


@op("softplus.default")
def softplus(self: Array, beta: Number = 1, threshold: Number = 20) -> Array:
    def apply(x: Array) -> Array:
        scaled = x * beta
        return jnp.where(
            scaled > threshold, x, jnp.log1p(jnp.exp(jnp.minimum(scaled, threshold))) / beta
        )

    return rounded(apply, self)


@op("hardtanh.default")
def hardtanh(self: Array, min_val: Number = -1, max_val: Number = 1) -> Array:
    return jnp.minimum(
        jnp.maximum(self, as_dtype(min_val, self.dtype)), as_dtype(max_val, self.dtype)
    )


@op("hardswish.default")
def hardswish(self: Array) -> Array:
    return rounded(lambda x: x * jnp.clip(x + 3, 0, 6) / 6, self)


@op("hardsigmoid.default")
def hardsigmoid(self: Array) -> Array:
    return rounded(lambda x: jnp.clip(x + 3, 0, 6) / 6, self)


@op("hardshrink.default")
def hardshrink(self: Array, lambd: Number = 0.5) -> Array:
    return jnp.where((self >= -lambd) & (self <= lambd), jnp.zeros_like(self), self)


@op("softshrink.default")
def softshrink(self: Array, lambd: Number = 0.5) -> Array:
    lower = jnp.where(self < -lambd, self + lambd, self * 0)
    return jnp.where(self > lambd, self - lambd, lower)


@op("threshold.default")
def threshold_(self: Array, threshold: Number, value: Number) -> Array:
    return jnp.where(self <= threshold, as_dtype(value, self.dtype), self)


@op("logit.default", "special_logit.default")
def logit(self: Array, eps: float | None = None) -> Array:
    def apply(x: Array) -> Array:
        if eps is not None:
            # With eps over a half the bounds cross, and torch asks for the lower one first.
            x = jnp.where(x < eps, eps, jnp.minimum(x, 1 - eps))
        return jnp.log(x / (1 - x))

    return floats(apply, self)


@op("glu.default")
def glu(self: Array, dim: int = -1) -> Array:
    a, b = jnp.split(self, 2, axis=dim)
    return rounded(lambda a, b: a * jax.nn.sigmoid(b), a, b)


# Complex numbers.


@op("real.default", memory=Memory.OVERLAP)
def real(self: Array) -> Array:
    return jnp.real(self)


@op("imag.default", memory=Memory.OVERLAP)
def imag(self: Array) -> Array:
    return jnp.imag(self)


@op("angle.default")
def angle(self: Array) -> Array:
    (value,) = as_float(self)
    return (
        jnp.where(jnp.isnan(value), value, jnp.angle(value))
        if is_float(value)
        else jnp.angle(value)
    )


@op("complex.default")
def complex_(real: Array, imag: Array) -> Array:
    return lax.complex(*jnp.broadcast_arrays(real, imag))


@op("polar.default")
def polar(abs: Array, angle: Array) -> Array:
    return lax.complex(*jnp.broadcast_arrays(abs * jnp.cos(angle), abs * jnp.sin(angle)))
