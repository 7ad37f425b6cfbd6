"""Small programs drawn by number.

They are compositions of two to four operations of kinds that JAX users write, with inputs, weights,
constants, loops and reductions.

`generated(seed, number)` gives the same program in every process. A program is Python text, so that
a finding can be read, and pasted into a test. Every fifth one has types of 64 bits. For any
engine: nothing here knows one.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from aotc.check.trial_inputs import KINDS, TrialLeaf, trial_inputs

type Array = Any
type Step = Callable[["Draft"], str]

SCOPE = {"jax": jax, "jnp": jnp, "lax": lax, "np": np}
"""What the text of a program may name."""

FLOATS = ("float32", "float16", "bfloat16", "float64")
NARROW = ("int8", "int16", "uint8", "uint32")
WIDE = ("int64", "uint64")
ELEMENTS_MAX = 20_000
LONG = 60_000
"""Elements of an axis whose sum shows how it is added; few programs have one."""


class Leaf(NamedTuple):
    """An array that a program takes."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def is_float(self) -> bool:
        """Return whether it holds floats."""
        return self.dtype in FLOATS

    @property
    def is_integer(self) -> bool:
        """Return whether it holds integers."""
        return "int" in self.dtype


class Generated(NamedTuple):
    """A program.

    x64: whether it has types of 64 bits.  text: of a function `program` of its weights, then its
    inputs.  weights: the values of the former, which never change.  known: these and the arrays
    that it holds.
    """

    x64: bool
    text: str
    weights: tuple[Array, ...]
    inputs: tuple[Leaf, ...]
    known: tuple[Array, ...]

    def function(self) -> Callable[..., Any]:
        """The program, as a function."""
        scope: dict[str, Any] = dict(SCOPE)
        exec(self.text, scope)
        made: Callable[..., Any] = scope["program"]
        return made


def dtype_of(name: str) -> np.dtype[Any]:
    """Numpy's dtype of a name."""
    return np.dtype(getattr(ml_dtypes, name, name))


class ImpossibleError(Exception):
    """No value of the draft suits a step."""


class Draft:
    """A program that is being made.

    values: what later steps may take.  has_odd_types: whether it has types that some engines
    refuse.
    """

    def __init__(self, random: np.random.Generator, x64: bool) -> None:
        self.random = random
        self.x64 = x64
        self.has_odd_types = x64 or self.chance(0.25)
        self.inputs: list[Leaf] = []
        self.weights: list[Leaf] = []
        self.weight_values: list[Array] = []
        self.constants: list[Array] = []
        self.values: list[Leaf] = []
        self.lines: list[str] = []
        self.names = -1

    # What steps ask for

    def one[T](self, options: Sequence[T]) -> T:
        """One of them."""
        return options[int(self.random.integers(len(options)))]

    def chance(self, share: float) -> bool:
        """True in this share of cases."""
        return bool(self.random.random() < share)

    def number(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def take(self, suits: Callable[[Leaf], bool]) -> Leaf:
        """A value that suits, the latest in most cases."""
        suited = [each for each in self.values if suits(each)]
        if not suited:
            raise ImpossibleError
        return suited[-1] if self.chance(0.8) else self.one(suited)

    def floats(self, rank: int = 0, most: int = 4) -> Leaf:
        """A value of floats with at least so many axes."""
        return self.take(lambda v: v.is_float and rank <= len(v.shape) <= most)

    def any(self, rank: int = 0) -> Leaf:
        """Any value with at least so many axes."""
        return self.take(lambda v: len(v.shape) >= rank)

    def axis(self, value: Leaf) -> int:
        """One of its axes."""
        return self.number(0, len(value.shape) - 1)

    def name(self, letter: str) -> str:
        """A name that nothing has."""
        self.names += 1
        return f"{letter}{self.names}"

    def weight(self, shape: Sequence[int], dtype: str) -> str:
        """Return the name of a new weight."""
        return self.kept(drawn(self.random, shape, dtype))

    def kept(self, array: Array) -> str:
        """Return the name of a new weight with these numbers."""
        name = self.name("w")
        self.weights.append(Leaf(name, array.shape, array.dtype.name))
        self.weight_values.append(array)
        return name

    def constant(self, shape: Sequence[int], dtype: str) -> str:
        """The text of a small array of numbers."""
        if np.prod(shape, dtype=int) > 48:
            raise ImpossibleError
        self.constants.append(drawn(self.random, shape, dtype))
        values = _shortest(self.constants[-1])
        if dtype == "bfloat16":
            return f"jnp.asarray({values}, jnp.bfloat16)"
        return f"np.asarray({values}, {dtype!r})"

    def beside(self, value: Leaf) -> str:
        """A weight, a constant or a value that an operator takes beside a value."""
        others = [
            each
            for each in self.values
            if each.dtype == value.dtype and each.shape == value.shape and each is not value
        ]
        if others and self.chance(0.35):
            return self.one(others).name
        shape = list(value.shape)
        way = self.number(0, 5)
        if way == 0:
            shape = []
        elif way == 1 and shape:
            shape = shape[-1:]
        elif way == 2 and shape:
            shape = [shape[0], *[1] * (len(shape) - 1)]
        elif way == 3:
            shape = [self.one((1, each)) for each in shape]
        if np.prod(shape, dtype=int) > ELEMENTS_MAX:
            raise ImpossibleError
        if self.chance(0.5):
            try:
                return self.constant(shape, value.dtype)
            except ImpossibleError:
                pass
        return self.weight(shape, value.dtype)


def _shortest(array: Array) -> Any:
    """The numbers of an array with as few digits as their type needs."""
    if array.dtype.kind not in "fV":
        return array.tolist()
    if array.ndim:
        return [_shortest(each) for each in array]
    return float(str(array))


def drawn(random: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    """Ordinary numbers of a dtype, with two digits behind the point."""
    if dtype == "bool":
        return np.asarray(random.integers(0, 2, shape) > 0)
    if "int" in dtype:
        return np.asarray(random.integers(0 if dtype[0] == "u" else -5, 10, shape), dtype)
    return np.asarray(np.round(random.standard_normal(shape), 2), dtype_of(dtype))


# Steps, by kind

STEPS: list[tuple[float, Step]] = []


def _step(weight: float) -> Callable[[Step], Step]:
    def added(step: Step) -> Step:
        STEPS.append((weight, step))
        return step

    return added


UNARY = (
    *("jnp.abs({x})", "-{x}", "jnp.sign({x})", "jnp.floor({x})", "jnp.ceil({x})"),
    *("jnp.round({x})", "jnp.exp({x})", "jnp.exp2({x})", "jnp.expm1({x})", "jnp.log({x})"),
    *("jnp.log1p({x})", "jnp.sin({x})", "jnp.cos({x})", "jnp.tan({x})", "jnp.arctan({x})"),
    *("jnp.tanh({x})", "jnp.sinh({x})", "jnp.sqrt({x})", "lax.rsqrt({x})", "jnp.cbrt({x})"),
    *("jax.nn.sigmoid({x})", "lax.erf({x})", "1 / {x}", "{x} * {x}", "jnp.sqrt({x} * {x})"),
    *("jnp.log(jnp.exp({x}))", "jnp.isnan({x})", "jnp.isfinite({x})", "jnp.nan_to_num({x})"),
    *("jax.nn.relu({x})", "jax.nn.relu6({x})", "jax.nn.gelu({x})"),
    *("jax.nn.gelu({x}, approximate=False)", "jax.nn.silu({x})", "jax.nn.softplus({x})"),
    *("jax.nn.elu({x})", "jax.nn.leaky_relu({x})", "jax.nn.hard_swish({x})"),
    *("jnp.square({x}) - {x}", "{x} - {x}", "{x} * 0", "{x} != {x}", "jnp.clip({x}, -1, 1)"),
    "jnp.clip({x}, 0)",
)
POWERS = (0.5, -0.5, 2, 3, -1, 1.5, 0, 1, -2, 0.25, 4)
NUMBERS = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.25, 1e-5, 1e-8, 100.0, 1e8, 0.1)
BINARY = (
    *("{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / {y}", "{y} - {x}", "{y} / {x}"),
    *("jnp.maximum({x}, {y})", "jnp.minimum({x}, {y})", "{x} < {y}", "{x} >= {y}"),
    *("{x} == {y}", "jnp.where({x} > {y}, {x}, {y})", "({x} + {y}) * {z}", "({x} * {y}) + {z}"),
    *("({x} * {y}) * {z}", "({x} + {y}) + {z}", "({x} + {y}) - {y}", "({x} - {y}) / {z}"),
    *("{x} - {x} * {y}", "({x} * {y}) / {y}", "{x} * {y} + {x} * {z}"),
)
FLOAT_BINARY = (
    *("jnp.arctan2({x}, {y})", "jnp.power({x}, {y})", "jnp.mod({x}, {y})"),
    *("jnp.logaddexp({x}, {y})", "jnp.fmax({x}, {y})", "jnp.hypot({x}, {y})"),
    *("jnp.copysign({x}, {y})", "lax.rem({x}, {y})"),
)
INTEGER_BINARY = (
    *("{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} // {y}", "{x} % {y}", "lax.div({x}, {y})"),
    *("{x} & {y}", "{x} | {y}", "{x} ^ {y}", "{x} << ({y} & 7)", "{x} >> ({y} & 7)"),
    *("jnp.maximum({x}, {y})", "jnp.minimum({x}, {y})", "jnp.clip({x}, 0, {y})", "{x} < {y}"),
    *("{x} == {y}", "jnp.where({x} > {y}, {x}, {y})", "({x} + {y}) * {z}", "({x} * {y}) + {z}"),
)
INTEGER_UNARY = (
    *("-{x}", "jnp.abs({x})", "jnp.sign({x})", "~{x}", "lax.population_count({x})"),
    *("lax.clz({x})", "{x} // 3", "{x} % 5", "{x} >> 1", "{x} * {x}", "jnp.clip({x}, 0, 7)"),
)
BOOLEAN = (
    "{x} & {y}",
    "{x} | {y}",
    "{x} ^ {y}",
    "{y} & {x}",
    "jnp.logical_and({x}, ~{y})",
    "jnp.where({x}, {y}, ~{y})",
)


@_step(5)
def unary(draft: Draft) -> str:
    """A function of each number."""
    return draft.one(UNARY).format(x=draft.floats().name)


@_step(1.5)
def power(draft: Draft) -> str:
    """A power with a known exponent, or of a known base."""
    x = draft.floats().name
    exponent = draft.one(POWERS)
    return draft.one((f"{x} ** {exponent}", f"jnp.power({x}, {exponent})", f"{exponent} ** {x}"))


@_step(2.5)
def with_number(draft: Draft) -> str:
    """An operation with a number that is known."""
    x = draft.floats()
    number = draft.one(NUMBERS)
    text = draft.one(BINARY[:-9])
    return text.format(x=x.name, y=f"np.{x.dtype}({number})" if x.dtype in ("float64",) else number)


@_step(6)
def binary(draft: Draft) -> str:
    """Two or three operands, one of them a weight, a constant or another value."""
    x = draft.floats()
    text = draft.one(FLOAT_BINARY) if draft.chance(0.15) else draft.one(BINARY)
    return text.format(x=x.name, y=draft.beside(x), z=draft.beside(x) if "{z}" in text else "")


@_step(1.2)
def integers(draft: Draft) -> str:
    """Arithmetic of integers."""
    x = draft.take(lambda v: v.is_integer)
    if draft.chance(0.35):
        return draft.one(INTEGER_UNARY).format(x=x.name)
    text = draft.one(INTEGER_BINARY)
    return text.format(x=x.name, y=draft.beside(x), z=draft.beside(x) if "{z}" in text else "")


@_step(1.2)
def booleans(draft: Draft) -> str:
    """Logic of booleans."""
    x = draft.take(lambda v: v.dtype == "bool")
    return draft.one(BOOLEAN).format(x=x.name, y=draft.beside(x))


@_step(1.2)
def choice(draft: Draft) -> str:
    """A choice by a mask that a value, a weight or a constant says."""
    x = draft.any()
    try:
        mask = draft.take(lambda v: v.dtype == "bool" and v.shape == x.shape).name
    except ImpossibleError:
        mask = draft.beside(Leaf("", x.shape, "bool"))
    other = draft.one(("0", "1", f"{draft.beside(x)}"))
    if x.is_float and draft.chance(0.4):
        other = draft.one(("-jnp.inf", "jnp.nan", "-1e9", "0.0"))
    if x.dtype == "bool" and other in ("0", "1"):
        other = "True"
    return draft.one(
        (f"jnp.where({mask}, {x.name}, {other})", f"jnp.where({mask}, {other}, {x.name})")
    )


@_step(2.5)
def conversion(draft: Draft) -> str:
    """A conversion to another type, there and back in some cases."""
    x = draft.any()
    types = ["float32", "float32", "float32", "int32", "int32", "bool", "int8", "uint8"]
    if draft.has_odd_types:
        types += [*NARROW, "float16", "bfloat16"]
    if draft.x64:
        types += [*WIDE, "float64", "float64"]
    to = draft.one(types)
    if draft.chance(0.25):
        return f"{x.name}.astype(jnp.{_jax(to)}).astype(jnp.{_jax(x.dtype)})"
    return f"{x.name}.astype(jnp.{_jax(to)})"


def _jax(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


@_step(4)
def reduction(draft: Draft) -> str:
    """A reduction along some axes."""
    x = draft.any(1)
    axes = sorted(draft.random.permutation(len(x.shape))[: draft.number(1, len(x.shape))].tolist())
    axis: Any = axes[0] if len(axes) == 1 else tuple(axes)
    kept = draft.one(("", ", keepdims=True"))
    if x.dtype == "bool":
        return f"jnp.{draft.one(('any', 'all', 'sum'))}({x.name}, {axis}{kept})"
    if x.is_integer:
        return f"jnp.{draft.one(('max', 'min', 'sum', 'prod'))}({x.name}, {axis}{kept})"
    kinds = (
        *("sum", "mean", "max", "min", "prod", "var", "std", "ptp", "linalg.norm", "nansum"),
        "nanmax",
    )
    kind = draft.one(("sum", "mean", *kinds))
    if kind == "linalg.norm":
        axis = axes[0]
    text = f"jnp.{kind}({x.name}, axis={axis}{kept})"
    if draft.chance(0.25):
        text = f"jax.nn.logsumexp({x.name}, axis={axis}{kept})"
    if kept and draft.chance(0.4):
        text = draft.one(("{x} - {r}", "{x} / {r}", "{r} * {x}", "{x} >= {r}")).format(
            x=x.name, r=text
        )
    return text


@_step(0.8)
def place_of_largest(draft: Draft) -> str:
    """Return where the largest or smallest number is."""
    x = draft.any(1)
    return f"jnp.{draft.one(('argmax', 'argmin'))}({x.name}, {draft.axis(x)})"


@_step(1.2)
def running(draft: Draft) -> str:
    """A running sum, product or maximum."""
    x = draft.floats(1)
    axis = draft.axis(x)
    kind = draft.one(("cumsum", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"))
    return f"lax.{kind}({x.name}, axis={axis}, reverse={draft.chance(0.3)})"


@_step(2)
def normalization(draft: Draft) -> str:
    """Softmax and norms, as libraries write them."""
    x = draft.floats(1)
    axis = draft.axis(x) if draft.chance(0.3) else -1
    name, epsilon = x.name, draft.one((1e-5, 1e-6, 1e-12, 1e-3))
    last = x.shape[-1]
    way = draft.number(0, 7)
    if way == 0:
        return f"jax.nn.softmax({name}, axis={axis})"
    if way == 1:
        return f"jax.nn.log_softmax({name}, axis={axis})"
    if way == 2:
        mask = draft.beside(Leaf("", x.shape, "bool"))
        return f"jax.nn.softmax(jnp.where({mask}, {name}, -jnp.inf), axis=-1)"
    if way == 3:
        return f"jax.nn.standardize({name}, axis={axis}, epsilon={epsilon})"
    centred = f"({name} - {name}.mean({axis}, keepdims=True))"
    if way == 4:
        text = f"{centred} * lax.rsqrt({name}.var({axis}, keepdims=True) + {epsilon})"
    elif way == 5:
        text = f"{centred} / ({name}.std({axis}, keepdims=True) + {epsilon})"
    elif way == 6:
        text = (
            f"{name} * lax.rsqrt(jnp.mean(jnp.square({name}), {axis}, keepdims=True) + {epsilon})"
        )
    else:
        text = f"{name} / jnp.sqrt(jnp.sum({name} * {name}, {axis}, keepdims=True) + {epsilon})"
    if draft.chance(0.5):
        text = f"({text}) * {draft.weight((last,), x.dtype)} + {draft.weight((last,), x.dtype)}"
    return text


@_step(2)
def product(draft: Draft) -> str:
    """A product of matrices or vectors."""
    x = draft.floats(1)
    inner, name = x.shape[-1], x.name
    way = draft.number(0, 5)
    columns = draft.one((1, 2, 3, 5, 8))
    if inner > 600:
        raise ImpossibleError
    if way == 0 and len(x.shape) > 1:
        return f"jnp.einsum('...i,...j->...ij', {name}, {name}).sum(-1)"
    if way == 1 and len(x.shape) > 1:
        return f"{name} @ jnp.swapaxes({name}, -1, -2)"
    if way == 2:
        return f"{name} @ {draft.weight((inner,), x.dtype)}"
    if way == 3 and len(x.shape) == 2:
        return f"{draft.weight((columns, x.shape[0]), x.dtype)} @ {name}"
    if way == 4:
        quantized = draft.weight((inner, columns), "int8")
        scale = draft.weight((columns,), x.dtype)
        return f"{name} @ ({quantized}.astype({name}.dtype) * {scale})"
    bias = f" + {draft.weight((columns,), x.dtype)}" if draft.chance(0.6) else ""
    return f"{name} @ {draft.weight((inner, columns), x.dtype)}{bias}"


@_step(0.5)
def attention(draft: Draft) -> str:
    """Attention within a value, masked in some cases."""
    x = draft.floats(2, 3)
    length, width = x.shape[-2:]
    if length > 40 or width > 40:
        raise ImpossibleError
    key = draft.weight((width, width), x.dtype)
    scores = f"(({x.name} @ {key}) @ jnp.swapaxes({x.name}, -1, -2)) / {max(width, 1) ** 0.5:.3f}"
    if draft.chance(0.5):
        scores = (
            f"jnp.where(np.tri({length}, dtype=bool), {scores}, {draft.one(('-jnp.inf', '-1e9'))})"
        )
    return f"jax.nn.softmax({scores}, axis=-1) @ {x.name}"


@_step(1)
def convolution(draft: Draft) -> str:
    """A convolution along one or two axes, with channels last or first."""
    x = draft.floats(2, 4)
    name, shape = x.name, x.shape
    if len(shape) == 2:
        name, shape = f"{name}[None]", (1, *shape)
    elif len(shape) == 3 and draft.chance(0.5):
        name, shape = f"{name}[..., None]", (*shape, 1)
    spatial = len(shape) - 2
    channels = shape[-1]
    out = draft.one((1, 2, 4))
    size = [draft.number(1, 3) for _ in range(spatial)]
    letters = "HW"[:spatial]
    lhs, rhs = f"N{letters}C", f"{letters}IO"
    strides = tuple(draft.one((1, 1, 2)) for _ in range(spatial))
    groups = channels if channels in (2, 3, 4) and draft.chance(0.25) else 1
    kernel = draft.weight((*size, channels // groups, out * groups), x.dtype)
    padding = draft.one(("'SAME'", "'VALID'", str([(1, draft.number(0, 2))] * spatial)))
    more = ""
    if draft.chance(0.2):
        more += f", rhs_dilation={(2,) * spatial}"
    elif draft.chance(0.15):
        more += f", lhs_dilation={(2,) * spatial}"
        padding = str([(1, 1)] * spatial)
    if groups > 1:
        more += f", feature_group_count={groups}"
    return (
        f"lax.conv_general_dilated({name}, {kernel}, {strides}, {padding}, "
        f"dimension_numbers=({lhs!r}, {rhs!r}, {lhs!r}){more})"
    )


@_step(0.9)
def pool(draft: Draft) -> str:
    """A maximum, minimum, sum or mean within windows."""
    x = draft.floats(1, 4)
    size = tuple(draft.one((1, 2, 3)) for _ in x.shape)
    strides = tuple(draft.one((1, 2)) for _ in x.shape)
    padding = draft.one(("'SAME'", "'VALID'"))
    one = f"jnp.ones((), {x.name}.dtype)"
    start, function = draft.one(
        (("-jnp.inf", "lax.max"), ("jnp.inf", "lax.min"), ("0", "lax.add"), ("0", "lax.add"))
    )
    text = f"lax.reduce_window({x.name}, {start} * {one}, {function}, {size}, {strides}, {padding})"
    if function == "lax.add" and draft.chance(0.5):
        text = f"{text} / {float(np.prod(size))}"
    return text


@_step(2)
def gather(draft: Draft) -> str:
    """Elements at places that a value, a weight or a constant says."""
    x = draft.any(1)
    axis, way = draft.axis(x), draft.number(0, 6)
    size, name = x.shape[axis], x.name
    index = _index(draft, (draft.one((1, 3, 6)),), size)
    mode = draft.one(("", ", mode='clip'", ", mode='fill'", ", mode='wrap'"))
    if way == 0:
        return f"jnp.take({name}, {index}, axis={axis}{mode})"
    if way == 1:
        return f"{name}[{index}]"
    if way == 2 and len(x.shape) > 1:
        other = _index(draft, (1,), x.shape[1])
        return f"{name}[{index}, {other}]"
    if way == 3 and len(x.shape) > 1:
        rows = _index(draft, (*x.shape[:-1], 2), x.shape[-1])
        return f"jnp.take_along_axis({name}, {rows}, axis=-1)"
    if way == 4:
        length = draft.number(1, size)
        start = _index(draft, (), size)
        return f"lax.dynamic_slice_in_dim({name}, {start}, {length}, axis={axis})"
    if way == 5 and size > 1:
        table = draft.weight(
            (8, draft.one((2, 4))), draft.one(("float32", "float32", "int32", "bool"))
        )
        return f"{table}[{_index(draft, (draft.number(1, 5),), 8)}]"
    return f"jnp.take({name}, {index}, axis={axis}, mode='clip')"


def _index(draft: Draft, shape: Sequence[int], size: int) -> str:
    """Places along an axis of a size: a value as it is, or a weight or constant within bounds."""
    suited = [v for v in draft.values if v.dtype == "int32" and v.shape == tuple(shape)]
    if suited and draft.chance(0.6):
        return draft.one(suited).name
    if draft.chance(0.4):
        name = draft.name("x")
        leaf = Leaf(name, tuple(shape), "int32")
        draft.inputs.append(leaf)
        return name
    values = draft.random.integers(-1 if draft.chance(0.3) else 0, max(size, 1), shape)
    if draft.chance(0.5):
        return draft.kept(np.asarray(values, np.int32))
    return f"np.asarray({values.tolist()}, 'int32')"


@_step(1.5)
def scatter(draft: Draft) -> str:
    """An update at some places."""
    x = draft.any(1)
    size, name = x.shape[0], x.name
    kinds = ("set", "add", "max", "min", "mul") if x.dtype != "bool" else ("set",)
    kind, way = draft.one(kinds), draft.number(0, 4)
    mode = draft.one(("", ", mode='drop'", ", mode='clip'"))
    count = draft.one((1, 3, 4))
    if way == 0:
        update = draft.beside(Leaf("", (count, *x.shape[1:]), x.dtype))
        return f"{name}.at[{_index(draft, (count,), size)}].{kind}({update}{mode})"
    if way == 1 and len(x.shape) > 1:
        return f"{name}.at[:, {_index(draft, (), x.shape[1])}].{kind}({draft.one((1, 0, 2))}{mode})"
    if way == 2:
        length = draft.number(1, size)
        update = draft.beside(Leaf("", (length, *x.shape[1:]), x.dtype))
        update = f"jnp.broadcast_to({update}, {(length, *x.shape[1:])})"
        start = _index(draft, (), size)
        return f"lax.dynamic_update_slice_in_dim({name}, {update}, {start}, axis=0)"
    if way == 3 and x.dtype != "bool":
        ids = _index(draft, (size,), 4)
        return f"jax.ops.segment_{draft.one(('sum', 'max', 'min', 'prod'))}({name}, {ids}, 4)"
    start = draft.one(("zeros", "ones", "zeros"))
    index = _index(draft, (size,), size)
    return f"jnp.{start}({x.shape}, {name}.dtype).at[{index}].{kind}({name}{mode})"


@_step(4)
def shape(draft: Draft) -> str:
    """The same elements in another order or shape, or some of them."""
    x = draft.any(1)
    axis, way, name = draft.axis(x), draft.number(0, 13), x.name
    size = x.shape[axis]
    before = ":, " * axis
    if way == 0:
        return f"jnp.transpose({name}, {tuple(draft.random.permutation(len(x.shape)).tolist())})"
    if way == 1:
        return f"{name}.reshape({draft.one((-1, (1, -1), (-1, 1)))})"
    if way == 2:
        return f"jnp.flip({name}, {axis})"
    if way == 3:
        return f"{name}[{before}::{draft.one((2, 3, -1, -2))}]"
    if way == 4:
        return f"{name}[{before}{draft.number(0, size // 2)}:{draft.number(size // 2 + 1, size)}]"
    if way == 5:
        edges = [(0, 0, 0)] * len(x.shape)
        edges[axis] = (draft.number(-1, 2), draft.number(-1, 2), draft.one((0, 0, 1)))
        value = draft.one((0, 0, 1)) if x.dtype != "bool" else draft.one(("False", "True"))
        return f"lax.pad({name}, jnp.asarray({value}, {name}.dtype), {edges})"
    if way == 6:
        return (
            f"jnp.concatenate([{name}, {draft.one((name, f'jnp.flip({name}, {axis})'))}], {axis})"
        )
    if way == 7:
        return f"jnp.stack([{name}, {draft.beside(x)} + jnp.zeros_like({name})], {axis})"
    if way == 8:
        return f"jnp.tile({name}, {draft.one((2, (2, 1)))})"
    if way == 9:
        return f"jnp.repeat({name}, 2, axis={axis})"
    if way == 10:
        return f"jnp.roll({name}, {draft.number(-2, 2)}, {axis})"
    if way == 11 and len(x.shape) > 1:
        return f"jnp.{draft.one(('tril', 'triu'))}({name}, {draft.number(-1, 1)})"
    if way == 12:
        return f"{name}[{before}{draft.number(0, size - 1)}]"
    mode = draft.one(("edge", "reflect", "wrap", "constant"))
    widths = [(0, 0)] * len(x.shape)
    widths[axis] = (draft.number(0, max(size - 1, 0)) % 3, draft.number(0, max(size - 1, 0)) % 3)
    return f"jnp.pad({name}, {widths}, mode={mode!r})"


@_step(1)
def order(draft: Draft) -> str:
    """Sorts, and what is made of them."""
    x = draft.any(1)
    axis, name = draft.axis(x), x.name
    way = draft.number(0, 6)
    if way == 0:
        return f"jnp.sort({name}, axis={axis}, descending={draft.chance(0.3)})"
    if way == 1:
        return f"jnp.argsort({name}, axis={axis})"
    if way == 2:
        count = draft.number(1, x.shape[-1])
        return f"lax.top_k({name}, {count})[{draft.number(0, 1)}]"
    if way == 3 and x.is_float:
        return f"jnp.median({name}, axis={axis})"
    if way == 4 and x.is_float:
        return f"jnp.quantile({name}, {draft.one((0.1, 0.5, 0.9))}, axis={axis})"
    if way == 5:
        values = draft.beside(Leaf("", x.shape, "float32"))
        both = f"({name}, jnp.broadcast_to({values}, {name}.shape))"
        return f"lax.sort({both}, dimension={axis}, num_keys=1)[1]"
    return f"jnp.searchsorted(jnp.sort({name}.reshape(-1)), {name}.reshape(-1)[:3])"


BODIES = (
    *("c * {k} + {y}", "jnp.tanh(c + {y})", "jnp.maximum(c, {y})", "c + {y} * {y}"),
    *("jnp.where({y} > c, {y}, c * {k})", "c + jnp.sin({y})", "jax.nn.sigmoid({y}) * c + {y}"),
    "(c - {y}) * {k}",
)


@_step(3)
def loop(draft: Draft) -> str:
    """A loop over an axis, or a number of turns that is known, or that a value says."""
    x = draft.floats(1, 3)
    if x.shape[0] > 64 or np.prod(x.shape) > 2000:
        raise ImpossibleError
    name, way = x.name, draft.number(0, 8)
    k = draft.one(("0.5", "2.0", "-1.0", "0.9"))
    reverse = f", reverse={draft.chance(0.4)}"
    start = draft.one((f"{name}[0]", f"jnp.zeros_like({name}[0])", f"{name}[-1]"))
    if draft.chance(0.3):
        start = f"({draft.beside(Leaf('', x.shape[1:], x.dtype))} + jnp.zeros_like({name}[0]))"
    body = draft.one(BODIES)
    if way <= 2:
        moved = draft.one(("", "[::-1]", "[::2]", "[1:]", ".sum(0)", "[:-1]", "[-1]"))
        kept = draft.one(("c", "y", "c * y"))
        made = body.format(k=k, y="y")
        scan = f"lax.scan(lambda c, y: ({made}, {kept}), {start}, {name}{reverse})"
        return f"{scan}[{draft.one((0, 1, 1))}]" + (moved if draft.chance(0.7) else "")
    if way == 3:
        weight = draft.beside(x)
        made = body.format(k=k, y=weight)
        turn = f"lambda i, c: {made} + jnp.zeros_like(c)"
        return f"lax.fori_loop(0, {draft.number(0, 4)}, {turn}, {name})"
    if way == 4:
        count = _index(draft, (), 5)
        made = body.format(k=k, y=name)
        return (
            f"lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, (lambda c: {made})(s[1])), "
            f"(jnp.clip({count}, 0, 5), {name} * {k}))[1]"
        )
    if way == 5:
        inner = draft.one(
            (
                "jnp.sort(y)",
                "jax.nn.softmax(y)",
                "y[::-1]",
                "y - y.mean()",
                "jnp.cumsum(y)",
                "y * 2",
            )
        )
        if len(x.shape) == 1:
            inner = draft.one(("jnp.exp(y)", "y * y", "jnp.where(y > 0, y, 1 - y)"))
        return f"lax.map(lambda y: {inner}, {name})" + draft.one(("", "[::-1]", "[::2]"))
    if way == 6:
        condition = draft.one(
            (f"{name}.sum() > 0", f"{name}.reshape(-1)[0] < 0.5", f"jnp.any({name} > 1)")
        )
        return (
            f"lax.cond({condition}, lambda c: {body.format(k=k, y='c')}, "
            f"lambda c: {draft.one(('c * 2', '-c', 'c + 1', 'jnp.flip(c, 0)'))}, {name})"
        )
    if way == 7:
        return (
            f"lax.fori_loop(0, {draft.number(1, x.shape[0])}, lambda i, c: "
            f"c.at[i].{draft.one(('set', 'add'))}({name}[{x.shape[0] - 1} - i] * {k}), {name})"
        )
    which = _index(draft, (), 3)
    return (
        f"lax.switch({which}, [lambda c: c + 1, lambda c: {body.format(k=k, y='c')}, "
        f"lambda c: jnp.flip(c, 0)], {name})"
    )


@_step(1.5)
def known_part(draft: Draft) -> str:
    """Return what constants and weights alone make, then an operation with a value."""
    x = draft.any(1)
    size, name = x.shape[-1], x.name
    if size > 64:
        raise ImpossibleError
    ids = draft.weight((size,), "int32") if draft.chance(0.5) else f"jnp.arange({size})"
    mask = draft.one(
        (
            f"(({ids} >= {draft.number(0, 3)}) & ({ids} < {draft.number(2, 9)}))",
            f"({draft.weight((size,), 'bool')} | ({ids} > 2))",
            f"~jnp.isnan({draft.weight((size,), 'float32')})",
            f"{draft.weight((8,), 'bool')}[{ids} % 8]",
        )
    )
    if x.dtype == "bool":
        return draft.one(
            (f"{mask} & {name}", f"{name} | {mask}", f"jnp.where({mask}, {name}, False)")
        )
    if not x.is_float:
        other = draft.one((f"({ids} & 7)", f"({ids} ^ 3)", f"jnp.cumsum({ids})"))
        return f"{other}.astype({name}.dtype) {draft.one(('*', '+', '-'))} {name}"
    w = draft.weight((size,), x.dtype)
    square = draft.weight((size, size), x.dtype)
    part = draft.one(
        (
            f"jnp.where({mask}, 0.0, -1e9).astype({name}.dtype)",
            f"jnp.zeros({size}, {name}.dtype).at[{ids} % {size}].set({w})",
            f"({w} @ {square})",
            f"jax.nn.softmax({w})",
            f"jnp.take({w}, {ids} % {size})",
            f"jnp.convolve({w}, jnp.ones(3, {name}.dtype), mode='same')[:{size}]",
            f"jnp.mod({w}, 2)",
            f"lax.reduce_window({w}, 0.0 * {w}[0], lax.add, (2,), (1,), 'SAME')",
            f"({w} / jnp.linalg.norm({w}))",
            f"jnp.abs({w})",
            f"jnp.cumsum({w})",
            f"lax.fori_loop(0, 3, lambda i, c: c * 2 + 1, {w})",
            f"jnp.flip({w})",
        )
    )
    return draft.one(
        (
            f"{part} * {name}",
            f"{part} + {name}",
            f"{name} - {part}",
            f"jnp.where({mask}, {part}, {name})",
        )
    )


# Programs


def generated(seed: int, number: int) -> Generated:
    """The program of a number."""
    random = np.random.default_rng([seed, number])
    x64 = number % 5 == 4
    for _ in range(100):
        made = _attempt(random, x64)
        if made is not None:
            return made
    raise AssertionError("most attempts give a program")


def _attempt(random: np.random.Generator, x64: bool) -> Generated | None:
    draft = Draft(random, x64)
    for _ in range(draft.one((1, 1, 2, 2, 3))):
        leaf = Leaf(draft.name("x"), _shape(draft), _dtype(draft))
        if draft.inputs and draft.chance(0.5):
            leaf = Leaf(leaf.name, draft.inputs[0].shape, leaf.dtype)
        draft.inputs.append(leaf)
        draft.values.append(leaf)
    return composed(draft, STEPS)


def composed(draft: Draft, steps: Sequence[tuple[float, Step]]) -> Generated | None:
    """Return the program of a draft with its inputs and two to four steps; None without."""
    weights, used = np.array([weight for weight, _ in steps]), 0
    for _ in range(draft.number(2, 4)):
        for _ in range(8):
            step = steps[int(draft.random.choice(len(steps), p=weights / weights.sum()))][1]
            if _added(draft, step):
                used += 1
                break
    if used < 2:
        return None
    made = [each for each in draft.values if each.name.startswith("v")]
    text = "\n".join(draft.lines)
    ends = [each for each in made if len(re.findall(rf"\b{each.name}\b", text)) == 1]
    if draft.chance(0.15):
        ends.append(draft.one(draft.values))
    return _finished(draft, ends)


def _shape(draft: Draft) -> tuple[int, ...]:
    if draft.chance(0.015):
        return draft.one(((LONG,), (2, LONG), (LONG, 2)))
    rank = draft.one((0, 1, 1, 2, 2, 2, 3, 3, 4))
    largest = (2, 3, 4, 5, 7, 8, 12) if rank < 4 else (1, 2, 3, 4, 5)
    shape = tuple(
        draft.one((*largest, 16, 17, 33, 64) if rank == 1 else largest) for _ in range(rank)
    )
    return tuple(1 if draft.chance(0.06) else each for each in shape)


def _dtype(draft: Draft) -> str:
    options = ["float32"] * 14 + ["int32"] * 3 + ["bool"] * 2
    if draft.has_odd_types:
        options += ["float16", "float16", "bfloat16", "bfloat16", *NARROW[:3]]
    if draft.x64:
        options += ["float64"] * 12 + ["int64", "int64", "uint64"]
    return draft.one(options)


def _added(draft: Draft, step: Step) -> bool:
    """Return whether a step gave one more value; nothing is changed if not."""
    kept = len(draft.inputs), len(draft.weights)
    known = [*draft.inputs, *draft.weights, *draft.values]
    try:
        text = step(draft)
        names = {each.name: each for each in [*known, *draft.inputs, *draft.weights]}
        scope = {**SCOPE}
        function = eval(f"lambda {', '.join(names)}: {text}", scope)
        with jax.enable_x64(draft.x64):
            out = jax.eval_shape(
                function,
                *(jax.ShapeDtypeStruct(v.shape, dtype_of(v.dtype)) for v in names.values()),
            )
        if not 0 < out.size <= max(ELEMENTS_MAX, 2 * LONG) or out.ndim > 5:
            raise ImpossibleError
        if "complex" in str(out.dtype):
            raise ImpossibleError
    except (ImpossibleError, TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError):
        del draft.inputs[kept[0] :], draft.weights[kept[1] :], draft.weight_values[kept[1] :]
        return False
    _drop_unused(draft, kept, text)
    name = f"v{len(draft.lines)}"
    draft.lines.append(f"    {name} = {text}")
    draft.values.extend(draft.inputs[kept[0] :])
    draft.values.append(Leaf(name, tuple(out.shape), str(out.dtype)))
    return True


def _drop_unused(draft: Draft, kept: tuple[int, int], text: str) -> None:
    """Forget the leaves that a step asked for and then did without."""
    used = set(re.findall(r"\b[wx][0-9]+\b", text))
    for place in range(len(draft.weights) - 1, kept[1] - 1, -1):
        if draft.weights[place].name not in used:
            del draft.weights[place], draft.weight_values[place]
    draft.inputs[kept[0] :] = [each for each in draft.inputs[kept[0] :] if each.name in used]


def _finished(draft: Draft, results: Sequence[Leaf]) -> Generated | None:
    taken = [*draft.weights, *draft.inputs]
    shown = ", ".join(f"{each.name}: '{each.dtype}{list(each.shape)}'" for each in taken)
    given = ", ".join(each.name for each in results)
    lines = [f"def program({shown}):", *draft.lines, f"    return {given},"]
    return Generated(
        draft.x64,
        "\n".join([*lines, ""]),
        tuple(draft.weight_values),
        tuple(draft.inputs),
        (*draft.weight_values, *draft.constants),
    )


def trials(program: Generated, number: int) -> dict[str, tuple[Array, ...]]:
    """Return the inputs of each call of a program, by their kind.

    The first are `ordinary`, then follow those of the value trials of a build. Integers of every
    second program reach to the ends of their types.
    """
    random = np.random.default_rng([number])
    samples = [np.asarray(drawn(random, leaf.shape, leaf.dtype)) for leaf in program.inputs]
    leaves = [
        TrialLeaf(leaf.name, sample, _bounds(leaf, number))
        for leaf, sample in zip(program.inputs, samples, strict=True)
    ]
    made = {"ordinary": tuple(samples)}
    for kind in KINDS:
        arrays = trial_inputs(kind, leaves, program.known, number)
        made[kind] = tuple(np.asarray(each) for each in arrays)
    return made


def _bounds(leaf: Leaf, number: int) -> tuple[float, float] | None:
    if not leaf.is_integer or number % 2:
        return None
    limits = np.iinfo(leaf.dtype)
    return int(limits.min), int(limits.max)
