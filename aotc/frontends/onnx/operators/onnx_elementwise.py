"""Operators that compute each element by itself."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.scipy import special

from aotc.capture.model_files.framework_arithmetic import convert, integer_power
from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_operator_table import Value, add_expanded, operator
from aotc.frontends.onnx.onnx_values import is_known, is_symbolic, sizes

_SAME_NAME = {
    **{
        name: name.lower()
        for name in (
            *("Abs", "Add", "Ceil", "Cos", "Cosh", "Equal", "Exp", "Floor", "Greater", "IsNaN"),
            *("Less", "Log", "Sign", "Sin", "Sinh", "Sqrt", "Tan", "Tanh"),
        )
    },
    **{f"A{name}": f"arc{name}" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    **{name: f"logical_{name.lower()}" for name in ("And", "Not", "Or", "Xor")},
    "BitwiseNot": "invert",
    "Neg": "negative",
    "Round": "rint",
    "Sub": "subtract",
    "Mul": "multiply",
    "LessOrEqual": "less_equal",
    "GreaterOrEqual": "greater_equal",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}
"""Operators that numpy and jax.numpy have as functions, which differ in nothing."""


def _same(name: str) -> Callable[..., Value]:
    def apply(call: Call, *values: Value) -> Value:
        xp, arrays = call.operands(*values)
        return getattr(xp, name)(*arrays)

    return apply


for _operator, _name in _SAME_NAME.items():
    operator(_operator)(_same(_name))

operator("Identity")(lambda call, x: x)


@operator("Reciprocal")
def reciprocal(call: Call, x: Value) -> Value:
    x = call.to_jax(x)
    return jnp.asarray(1, x.dtype) / x


@operator("Div")
def div(call: Call, a: Value, b: Value) -> Value:
    """Divide; quotients of whole numbers are truncated towards zero."""
    if is_symbolic(a) or is_symbolic(b):
        return np.floor_divide(a, b)
    xp, (a, b) = call.operands(a, b)
    if a.dtype.kind not in "iu" and not jnp.issubdtype(a.dtype, jnp.integer):
        return xp.divide(a, b).astype(a.dtype)
    if xp is np:
        if not np.all(b):
            call.refuse("a division by 0")
        quotient = np.floor_divide(a, b)
        exact = quotient * b == a
        return np.where((quotient < 0) & ~exact, quotient + 1, quotient).astype(a.dtype)
    a, b = jnp.broadcast_arrays(a, b)
    return lax.div(a, b)


@operator("Mod")
def mod(call: Call, a: Value, b: Value) -> Value:
    """Return the remainder, with the divisor's sign, or with fmod the dividend's."""
    xp, (a, b) = call.operands(a, b)
    if call.attribute("fmod"):
        return xp.fmod(a, b)
    return xp.mod(a, b)


@operator("Pow")
def power(call: Call, a: Value, b: Value) -> Value:
    """Return a power of the base's type; the exponent may have another type."""
    dtype = call.jax_dtype(a.dtype)
    if is_known(b) and b.size == 1 and b.dtype != object and not is_known(a):
        exponent = float(b.reshape(()))
        if (
            exponent == int(exponent)
            and abs(exponent) <= 16
            and (exponent >= 0 or dtype.kind != "i")
        ):
            x = call.to_jax(a)
            result, more = lax.integer_pow(x, int(exponent)), b.ndim - x.ndim
            return result.reshape((1,) * more + x.shape) if more > 0 else result
    x, y = call.to_jax(a), call.to_jax(b)
    whole = jnp.issubdtype(x.dtype, jnp.integer)
    if whole and not jnp.issubdtype(y.dtype, jnp.integer):
        return jnp.power(x.astype(y.dtype), y).astype(dtype)
    if not whole and jnp.issubdtype(y.dtype, jnp.integer):
        return jnp.power(x, y.astype(x.dtype))
    return integer_power(x, y) if whole else jnp.power(x, y).astype(dtype)


@operator("BitShift")
def bit_shift(call: Call, a: Value, b: Value) -> Value:
    """Bits beyond the end are lost, however many; to the right a signed number keeps its sign."""
    a, b = jnp.broadcast_arrays(call.to_jax(a), call.to_jax(b))
    if call.attribute("direction") == "LEFT":
        return lax.shift_left(a, b)
    if jnp.issubdtype(a.dtype, jnp.signedinteger):
        return lax.shift_right_arithmetic(a, b)
    return lax.shift_right_logical(a, b)


def _folded(name: str) -> Callable[..., Value]:
    def apply(call: Call, *values: Value) -> Value:
        xp, arrays = call.operands(*values)
        result = arrays[0]
        for other in arrays[1:]:
            result = getattr(xp, name)(result, other)
        return result

    return apply


operator("Max")(_folded("maximum"))
operator("Min")(_folded("minimum"))
operator("Sum")(_folded("add"))


@operator("Mean")
def mean(call: Call, *values: Value) -> Value:
    total = call.to_jax(values[0])
    for other in values[1:]:
        total = total + call.to_jax(other)
    return total / jnp.asarray(len(values), total.dtype)


@operator("Where")
def where(call: Call, condition: Value, a: Value, b: Value) -> Value:
    if is_known(condition) and condition.size == 1:
        chosen = a if condition.all() else b
        if condition.ndim <= chosen.ndim and np.shape(a) == np.shape(b):
            return chosen
    xp, (condition, a, b) = call.operands(condition, a, b)
    return xp.where(condition, a, b)


@operator("Clip")
def clip(call: Call, x: Value, low: Value = None, high: Value = None) -> Value:
    if call.version < 11:
        low = np.asarray(call.attribute("min"), x.dtype) if "min" in call.attributes else None
        high = np.asarray(call.attribute("max"), x.dtype) if "max" in call.attributes else None
    xp, (x, low, high) = call.operands(x, low, high)
    if low is not None:
        x = xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)


def _ieee(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


FLOAT8 = {
    np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e4m3fnuz),
    np.dtype(ml_dtypes.float8_e5m2),
    np.dtype(ml_dtypes.float8_e5m2fnuz),
}


def saturated(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return numbers as a float of 8 bits or less, those beyond its range as its largest."""
    largest = np.asarray(ml_dtypes.finfo(dtype).max, np.float32)
    wide = x.astype(jnp.float32) if x.dtype != jnp.float64 else x
    bounded = jnp.clip(wide, -largest, largest)
    return jnp.where(jnp.isnan(wide), wide, bounded).astype(dtype)


def cast(call: Call, x: Value, dtype: np.dtype[Any]) -> Value:
    """Return a value with another type of the file, as Cast does."""
    if is_symbolic(x):
        if dtype.kind == "i" and dtype.itemsize >= 4:
            return x
        x = call.to_jax(x)
    if is_known(x) and dtype not in FLOAT8 and dtype.itemsize > 1:
        with np.errstate(all="ignore"):
            return x.astype(dtype)
    if is_known(x) and dtype == np.bool_:
        return x != 0
    target = call.jax_dtype(dtype)
    x = call.to_jax(x)
    if target in FLOAT8 and call.attribute("saturate", 1) and _ieee(x.dtype):
        return saturated(x, target)
    if target.name == "float8_e8m0fnu":
        call.lacks("a conversion to float8e8m0")
    if target.name.startswith("float4"):
        return saturated(x, target)
    if target == np.bool_:
        return x != 0
    if target.name in ("int4", "uint4", "int2", "uint2"):
        if _ieee(x.dtype):
            x = jnp.trunc(x).astype(jnp.int32)
        return x.astype(jnp.int32).astype(target)
    if jnp.issubdtype(target, jnp.integer) and _ieee(x.dtype) and target.itemsize < 4:
        return x.astype(jnp.int32).astype(target)
    return convert(x, target)


operator("Cast")(lambda call, x: cast(call, x, call.dtype(call.attribute("to"))))

add_expanded("CastLike")


@operator("BitCast")
def bit_cast(call: Call, x: Value) -> Value:
    dtype = call.dtype(call.attribute("to"))
    if is_known(x) and dtype.itemsize > 1 and dtype.itemsize == x.dtype.itemsize:
        return x.view(dtype)
    x, target = call.to_jax(x), call.jax_dtype(dtype)
    if target == np.bool_:
        return x != 0
    if x.dtype == np.bool_:
        x = x.astype(jnp.uint8)
    return lax.bitcast_convert_type(x, target)


@operator("IsInf")
def is_inf(call: Call, x: Value) -> Value:
    x = call.to_jax(x)
    if x.dtype.name.startswith("float8"):
        x = x.astype(jnp.float32)
    found = jnp.isinf(x)
    if not call.attribute("detect_positive"):
        found &= x < 0
    if not call.attribute("detect_negative"):
        found &= x > 0
    return found


operator("Erf")(lambda call, x: special.erf(call.to_jax(x)))


@operator("Relu")
def relu(call: Call, x: Value) -> Value:
    x = call.to_jax(x)
    return jnp.maximum(x, jnp.zeros((), x.dtype))


def _selu(x: Any, alpha: float, gamma: float) -> Any:
    return gamma * jnp.where(x > 0, x, alpha * jnp.expm1(jnp.minimum(x, 0)))


def _celu(x: Any, alpha: float) -> Any:
    return jnp.maximum(x, 0) + jnp.minimum(0, alpha * jnp.expm1(jnp.minimum(x, 0) / alpha))


def _shrink(x: Any, bias: float, bound: float) -> Any:
    return jnp.where(x < -bound, x + bias, jnp.where(x > bound, x - bias, 0))


def _gelu(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + special.erf(x * math.sqrt(0.5)))


ACTIVATIONS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "LeakyRelu": (lambda x, alpha: jnp.where(x < 0, x * alpha, x), ("alpha",)),
    "Elu": (lambda x, a: jnp.where(x < 0, a * jnp.expm1(jnp.minimum(x, 0)), x), ("alpha",)),
    "Selu": (_selu, ("alpha", "gamma")),
    "Celu": (_celu, ("alpha",)),
    "Softplus": (lambda x: jnp.logaddexp(x, 0), ()),
    "Softsign": (lambda x: x / (1 + jnp.abs(x)), ()),
    "Sigmoid": (jax.nn.sigmoid, ()),
    "HardSigmoid": (lambda x, a, b: jnp.clip(a * x + b, 0, 1), ("alpha", "beta")),
    "HardSwish": (lambda x: x * jnp.clip(x / 6 + 0.5, 0, 1), ()),
    "ThresholdedRelu": (lambda x, alpha: jnp.where(x > alpha, x, 0), ("alpha",)),
    "Shrink": (_shrink, ("bias", "lambd")),
    "Gelu": (_gelu, ("approximate",)),
    "Mish": (lambda x: x * jnp.tanh(jnp.logaddexp(x, 0)), ()),
    "Swish": (lambda x, alpha: x * jax.nn.sigmoid(alpha * x), ("alpha",)),
}
"""Functions of an array of jax and of these attributes, whose result has the array's type."""


def _activation(function: Callable[..., Any], attributes: tuple[str, ...]) -> Callable[..., Value]:
    def apply(call: Call, x: Value) -> Value:
        x = call.to_jax(x)
        return function(x, *map(call.attribute, attributes)).astype(x.dtype)

    return apply


for _operator, (_function, _attributes) in ACTIVATIONS.items():
    operator(_operator)(_activation(_function, _attributes))


@operator("PRelu")
def prelu(call: Call, x: Value, slope: Value) -> Value:
    x = call.to_jax(x)
    return jnp.where(x < 0, x * call.to_jax(slope), x)


@operator("Dropout", deciding=(1, 2))
def dropout(
    call: Call, x: Value, ratio: Value = None, training: Value = None
) -> tuple[Value, Value]:
    """Return the input, as dropout does outside of training."""
    if training is not None and bool(call.concrete(training, "training_mode").reshape(())):
        zero = ratio is not None and float(call.concrete(ratio, "a ratio").reshape(())) == 0
        if not zero:
            call.lacks("Dropout in training", hint="export it for inference")
    x = call.to_jax(x)
    return x, jnp.ones(x.shape, jnp.bool_ if call.version >= 10 else x.dtype)


@operator("Shape")
def shape(call: Call, x: Value) -> Value:
    start, end = call.attribute("start", 0), call.attribute("end")
    return sizes(x.shape[slice(start, end)])


@operator("Size")
def size(call: Call, x: Value) -> Value:
    return sizes([math.prod(x.shape)]).reshape(())
