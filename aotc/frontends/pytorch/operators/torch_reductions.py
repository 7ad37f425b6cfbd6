"""Functions of all elements along axes: sums, extremes, norms; running ones; sorting."""

import math
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from aotc.frontends.pytorch.operators.torch_elementwise import between
from aotc.frontends.pytorch.operators.torch_operator_table import Family, first
from aotc.frontends.pytorch.torch_dtypes import (
    INT,
    as_dtype,
    as_float,
    canonical,
    category,
    is_float,
    promote_all,
    wide,
)

FAMILY = Family()
op = FAMILY

type Axes = int | Sequence[int] | None
type Reduction = Callable[..., Any]


def axes_of(x: Array, dim: Axes) -> tuple[int, ...]:
    """Return axes as torch writes them, none meaning all, as numbers from 0."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(x.ndim))
    given = (dim,) if isinstance(dim, int) else dim
    return tuple(axis % x.ndim for axis in given) if x.ndim else ()


def _summed(x: Array, dtype: Any) -> Array:
    """Return the operand of a sum, with integers as int64."""
    if dtype is not None:
        return as_dtype(x, dtype)
    return as_dtype(x, INT) if category(x.dtype) < 2 else x


def wide_reduction(function: Callable[..., Array], x: Array, **options: Any) -> Array:
    return function(x.astype(wide(x.dtype)), **options).astype(x.dtype)


def _given(x: Array, dtype: Any) -> Array:
    return x if dtype is None else as_dtype(x, dtype)


def _wide(function: Callable[..., Array], of: Callable[[Array, Any], Array]) -> Reduction:
    """Return a reduction. of: what it is computed over, by the dtype that is asked for."""

    def run(self: Array, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
        return wide_reduction(function, of(self, dtype), axis=axes_of(self, dim), keepdims=keepdim)

    return run


def _narrow(function: Callable[..., Array]) -> Reduction:
    """Return a reduction that is computed in the dtype that its argument has."""

    def run(self: Array, dim: Axes = None, keepdim: bool = False) -> Array:
        return function(self, axis=axes_of(self, dim), keepdims=keepdim)

    return run


def _truth(function: Callable[..., Array]) -> Reduction:
    """Return a reduction to bool; of uint8, torch's first bool, the result is one, too."""

    def run(self: Array, dim: Axes = None, keepdim: bool = False) -> Array:
        made = _narrow(function)(self, dim, keepdim)
        return made.astype(jnp.uint8) if self.dtype == jnp.uint8 else made

    return run


def _place(function: Callable[..., Array]) -> Reduction:
    def run(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        axis = dim if self.ndim else None
        return function(self, axis=axis, keepdims=keepdim).astype(canonical(INT))

    return run


def _both(one: Reduction, other: Reduction) -> Reduction:
    """Return a function with the results of two."""

    def run(self: Array, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
        return one(self, dim, keepdim), other(self, dim, keepdim)

    return run


sum_ = _wide(jnp.sum, _summed)
amax, amin = _narrow(jnp.max), _narrow(jnp.min)
argmax, argmin = _place(jnp.argmax), _place(jnp.argmin)

op.table(
    {
        "sum sum.dim_IntList": sum_,
        "nansum": _wide(jnp.nansum, _summed),
        "prod prod.dim_int": _wide(jnp.prod, _summed),
        "mean mean.dim": _wide(jnp.mean, _given),
        "nanmean": _wide(jnp.nanmean, _given),
        "amax": amax,
        "amin": amin,
        "aminmax": _both(amin, amax),
        "max": lambda self: jnp.max(self),
        "min": lambda self: jnp.min(self),
        "argmax": argmax,
        "argmin": argmin,
        "max.dim": _both(amax, argmax),
        "min.dim": _both(amin, argmin),
        "all all.dim all.dims": _truth(jnp.all),
        "any any.dim any.dims": _truth(jnp.any),
    }
)


@op("var_mean.correction", "var_mean.dim", "var_mean")
def var_mean(
    self: Array,
    dim: Axes = None,
    unbiased: bool = True,
    correction: Any = None,
    keepdim: bool = False,
) -> tuple[Array, Array]:
    axes = axes_of(self, dim)
    less = (1 if unbiased else 0) if correction is None else correction
    x = self.astype(wide(self.dtype))
    middle = jnp.mean(x, axis=axes, keepdims=True)
    count = math.prod(self.shape[axis] for axis in axes)
    squares = jnp.sum(jnp.square(jnp.abs(x - middle)), axis=axes, keepdims=keepdim)
    divisor = jnp.maximum(jnp.asarray(count, squares.dtype) - less, 0)
    if not keepdim:
        middle = jnp.squeeze(middle, axes)
    return (squares / divisor).astype(self.dtype), middle.astype(self.dtype)


op("var.correction", "var.dim", "var")(first(var_mean))


@op("std_mean.correction", "std_mean.dim", "std_mean")
@wraps(var_mean)
def std_mean(self: Array, *given: Any, **named: Any) -> tuple[Array, Array]:
    variance, middle = var_mean(self.astype(wide(self.dtype)), *given, **named)
    return jnp.sqrt(variance).astype(self.dtype), middle.astype(self.dtype)


op("std.correction", "std.dim", "std")(first(std_mean))


@op("logsumexp")
def logsumexp(self: Array, dim: Axes, keepdim: bool = False) -> Array:
    (x,) = as_float(self)
    return wide_reduction(jax.nn.logsumexp, x, axis=axes_of(self, dim), keepdims=keepdim)


def _soft(
    function: Callable[..., Array], of_one: float, self: Array, dim: int, dtype: Any, kept: bool
) -> Array:
    """Return a softmax; `of_one` is that of a scalar, `kept` keeps the dtype of computation."""
    x = as_dtype(self, dtype) if dtype is not None else as_float(self)[0]
    if x.ndim == 0:
        return jnp.full_like(x, of_one)
    made = function(x.astype(wide(x.dtype)), axis=dim)
    return made if kept else made.astype(x.dtype)


@op("softmax.int", "_softmax")
def softmax(self: Array, dim: int, dtype: Any = None, half_to_float: bool = False) -> Array:
    return _soft(jax.nn.softmax, 1, self, dim, dtype, half_to_float)


@op("log_softmax.int", "_log_softmax")
def log_softmax(self: Array, dim: int, dtype: Any = None, half_to_float: bool = False) -> Array:
    return _soft(jax.nn.log_softmax, 0, self, dim, dtype, half_to_float)


@op("_safe_softmax")
def safe_softmax(self: Array, dim: int, dtype: Any = None) -> Array:
    """Softmax that is 0, not NaN, where all elements are -inf."""
    masked = jnp.all(self == -jnp.inf, axis=dim, keepdims=True)
    return jnp.where(masked, 0, softmax(self, dim, dtype))


@op("linalg_vector_norm")
def vector_norm(
    self: Array, ord: Any = 2, dim: Axes = None, keepdim: bool = False, dtype: Any = None
) -> Array:
    x = _given(self, dtype)
    norm = partial(jnp.linalg.vector_norm, axis=axes_of(x, dim), keepdims=keepdim, ord=ord)
    return wide_reduction(norm, x)


@op("norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dtype")
def norm(
    self: Array, p: Any = 2, dim: Axes = None, keepdim: bool = False, dtype: Any = None
) -> Array:
    return vector_norm(self, 2 if p is None else p, dim, keepdim, dtype)


op.table(
    {
        "count_nonzero count_nonzero.dim_IntList": lambda self, dim=None: jnp.sum(
            self != 0, axis=axes_of(self, dim), dtype=canonical(INT)
        ),
        "frobenius_norm.dim": lambda self, dim, keepdim=False: vector_norm(self, 2, dim, keepdim),
    }
)


# Running ones.


def _running(function: Callable[..., Array], x: Array, dim: int) -> Array:
    if x.ndim == 0:
        return x
    return function(x.astype(wide(x.dtype)), axis=dim % x.ndim).astype(x.dtype)


@op("cumsum")
def cumsum(self: Array, dim: int, dtype: Any = None) -> Array:
    return _running(lax.cumsum, _summed(self, dtype), dim)


op.table(
    {
        "cumprod": lambda self, dim, dtype=None: _running(lax.cumprod, _summed(self, dtype), dim),
        "diff": lambda self, n=1, dim=-1, prepend=None, append=None: jnp.diff(
            self, n, dim, prepend, append
        ),
        "logcumsumexp": lambda self, dim: _running(lax.cumlogsumexp, self, dim),
    }
)


# Sorting.


@op("sort", "sort.stable")
def sort(self: Array, dim: int = -1, descending: bool = False) -> tuple[Array, Array]:
    """Always stable; NaN counts as the largest."""
    if self.ndim == 0:
        return self, jnp.zeros_like(self, canonical(INT))
    order = jnp.argsort(self, axis=dim, descending=descending, stable=True)
    return jnp.take_along_axis(self, order, axis=dim), order.astype(canonical(INT))


@op("topk")
def topk(
    self: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Array, Array]:
    if self.ndim == 0:
        return self, jnp.zeros_like(self, canonical(INT))
    if not largest:
        values, places = sort(self, dim)
        return lax.slice_in_dim(values, 0, k, axis=dim), lax.slice_in_dim(places, 0, k, axis=dim)
    x = jnp.moveaxis(self, dim, -1)
    if is_float(x):
        x = jnp.where(jnp.isnan(x), jnp.asarray(jnp.nan, x.dtype), x)
    values, places = lax.top_k(x, k)
    return jnp.moveaxis(values, -1, dim), jnp.moveaxis(places, -1, dim).astype(canonical(INT))


def _middle(x: Array, dim: int, keepdim: bool, skip_nan: bool) -> tuple[Array, Array]:
    """Return the lower of the two middle elements and its place.

    With `skip_nan` only numbers count; otherwise the result is the first NaN, if any.
    """
    if x.ndim == 0:
        return x, jnp.zeros_like(x, canonical(INT))
    axis = dim % x.ndim
    values, places = sort(x, axis)
    count: Any = jnp.full((), x.shape[axis], canonical(INT))
    if is_float(x):
        missing = jnp.sum(jnp.isnan(x), axis=axis, keepdims=True, dtype=canonical(INT))
        last = jnp.maximum((count - missing - 1) // 2, 0)
        first_nan = jnp.where(missing > 0, count - missing, last)
        at = last if skip_nan else first_nan
    else:
        shape = tuple(1 if each == axis else size for each, size in enumerate(x.shape))
        at = jnp.broadcast_to((count - 1) // 2, shape)
    value, place = (jnp.take_along_axis(each, at, axis=axis) for each in (values, places))
    return (value, place) if keepdim else (jnp.squeeze(value, axis), jnp.squeeze(place, axis))


def _middle_of_all(x: Array, skip_nan: bool) -> Array:
    if x.size == 0:
        return jnp.asarray(jnp.nan if is_float(x) else jnp.iinfo(x.dtype).min, x.dtype)
    return _middle(x.reshape(-1), 0, False, skip_nan)[0]


def _quantile(
    self: Array,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    interpolation: str = "linear",
    *,
    skip_nan: bool,
) -> Array:
    share, rank = as_dtype(q, self.dtype), self.ndim
    x = self.reshape(-1) if dim is None or not rank else jnp.moveaxis(self, dim, -1)
    values = jnp.sort(x, -1)
    missing = jnp.isnan(values)
    count = x.shape[-1]
    if skip_nan:
        known = jnp.sum(~missing, -1, keepdims=True).astype(x.dtype)
        at = jnp.maximum(jnp.reshape(share, -1) * (known - 1), 0)
    else:
        at = jnp.reshape(share, -1) * (count - 1)
        at = jnp.where(jnp.any(missing, -1, keepdims=True), count - 1, at)
    rounding = {"lower": jnp.floor, "higher": jnp.ceil, "nearest": jnp.round}
    at = rounding.get(interpolation, lambda value: value)(at)
    at = jnp.broadcast_to(at, (*values.shape[:-1], at.shape[-1]))
    below = jnp.floor(at)
    made = jnp.take_along_axis(values, below.astype(jnp.int32), -1, mode="clip")
    if interpolation in ("linear", "midpoint"):
        above = jnp.take_along_axis(values, jnp.ceil(at).astype(jnp.int32), -1, mode="clip")
        made = between(made, above, 0.5 if interpolation == "midpoint" else at - below)
    made = jnp.moveaxis(made, -1, 0)
    if keepdim:
        where = tuple(range(rank)) if dim is None else ((dim % rank,) if rank else ())
        made = jnp.expand_dims(made, tuple(1 + axis for axis in where))
    return made if jnp.ndim(share) else jnp.squeeze(made, 0)


@op("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    sorted_sequence: Array,
    self: Array,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    if sorter is not None:
        sorted_sequence = jnp.take_along_axis(sorted_sequence, sorter, -1)
    sequence, asked = promote_all(sorted_sequence, self)
    flat = asked.reshape(-1) if sequence.ndim == 1 else asked
    found = _searched(sequence, flat, right or side == "right")
    return found.reshape(asked.shape).astype(jnp.int32 if out_int32 else canonical(INT))


@op("bucketize.Tensor", "bucketize.Scalar")
def bucketize(
    self: Array, boundaries: Array, out_int32: bool = False, right: bool = False
) -> Array:
    return searchsorted(boundaries, self, out_int32, right)


def _searched(sequence: Array, asked: Array, right: bool) -> Array:
    """Halve each range as torch does, whose comparisons put all numbers behind NaN."""
    count = int(sequence.shape[-1])
    start = jnp.zeros(asked.shape, jnp.int32)
    end = jnp.full(asked.shape, count, jnp.int32)
    for _ in range(count.bit_length()):
        middle = (start + end) // 2
        value = jnp.take_along_axis(sequence, middle, -1, mode="clip")
        before = ~(value > asked) if right else ~(value >= asked)
        going = start < end
        start = jnp.where(going & before, middle + 1, start)
        end = jnp.where(going & ~before, middle, end)
    return start


op.table(
    {
        "argsort argsort.stable": lambda self, dim=-1, descending=False: sort(
            self, dim, descending
        )[1],
        "msort": lambda self: sort(self, 0)[0],
        "median": lambda self: _middle_of_all(self, False),
        "nanmedian": lambda self: _middle_of_all(self, True),
        "median.dim": lambda self, dim, keepdim=False: _middle(self, dim, keepdim, False),
        "nanmedian.dim": lambda self, dim, keepdim=False: _middle(self, dim, keepdim, True),
        "quantile quantile.scalar": partial(_quantile, skip_nan=False),
        "nanquantile nanquantile.scalar": partial(_quantile, skip_nan=True),
        "trace": lambda self: jnp.trace(_summed(self, None)),
        "dist": lambda self, other, p=2: vector_norm((self - other).reshape(-1), p),
        "isin.Tensor_Tensor": lambda elements, test_elements, invert=False: jnp.isin(
            elements, test_elements, invert=invert
        ),
        "isin.Tensor_Scalar": lambda elements, test_element, invert=False: (
            (elements != test_element) if invert else (elements == test_element)
        ),
        "isin.Scalar_Tensor": lambda element, test_elements, invert=False: jnp.isin(
            element, test_elements, invert=invert
        ),
    }
)
