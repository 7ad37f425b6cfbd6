"""Functions of all elements along axes: sums, extremes, norms; running ones; sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from aotc.frontends.pytorch.operators.torch_elementwise import add, div, mul, sub
from aotc.frontends.pytorch.operators.torch_operator_table import Family
from aotc.frontends.pytorch.torch_dtypes import (
    INT,
    as_dtype,
    as_float,
    canonical,
    category,
    is_float,
    promoted,
    wide,
)
from aotc.frontends.pytorch.torch_refusals import Unsupported

FAMILY = Family()
op = FAMILY

type Axes = int | Sequence[int] | None


def axes_of(x: Array, dim: Axes) -> tuple[int, ...]:
    """Axes as torch writes them, none meaning all, as numbers from 0."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(x.ndim))
    given = (dim,) if isinstance(dim, int) else dim
    return tuple(axis % x.ndim for axis in given) if x.ndim else ()


def _summed(x: Array, dtype: Any) -> Array:
    """What a sum is computed over: integers become int64."""
    if dtype is not None:
        return as_dtype(x, dtype)
    return as_dtype(x, INT) if category(x.dtype) < 2 else x


def wide_reduction(function: Callable[..., Array], x: Array, **options: Any) -> Array:
    return function(x.astype(wide(x.dtype)), **options).astype(x.dtype)


@op("sum.default", "sum.dim_IntList")
def sum_(self: Array, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    x = _summed(self, dtype)
    return wide_reduction(jnp.sum, x, axis=axes_of(self, dim), keepdims=keepdim)


@op("nansum.default")
def nansum(self: Array, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    return wide_reduction(
        jnp.nansum, _summed(self, dtype), axis=axes_of(self, dim), keepdims=keepdim
    )


@op("prod.default", "prod.dim_int")
def prod(self: Array, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    return wide_reduction(jnp.prod, _summed(self, dtype), axis=axes_of(self, dim), keepdims=keepdim)


@op("mean.default", "mean.dim")
def mean(self: Array, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    x = as_dtype(self, dtype) if dtype is not None else self
    return wide_reduction(jnp.mean, x, axis=axes_of(self, dim), keepdims=keepdim)


@op("nanmean.default")
def nanmean(self: Array, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    x = as_dtype(self, dtype) if dtype is not None else self
    return wide_reduction(jnp.nanmean, x, axis=axes_of(self, dim), keepdims=keepdim)


@op("var_mean.correction", "var_mean.dim", "var_mean.default")
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


@op("var.correction", "var.dim", "var.default")
def var(
    self: Array,
    dim: Axes = None,
    unbiased: bool = True,
    correction: Any = None,
    keepdim: bool = False,
) -> Array:
    return var_mean(self, dim, unbiased, correction, keepdim)[0]


@op("std.correction", "std.dim", "std.default")
def std(
    self: Array,
    dim: Axes = None,
    unbiased: bool = True,
    correction: Any = None,
    keepdim: bool = False,
) -> Array:
    x = self.astype(wide(self.dtype))
    return jnp.sqrt(var(x, dim, unbiased, correction, keepdim)).astype(self.dtype)


@op("std_mean.correction", "std_mean.dim", "std_mean.default")
def std_mean(
    self: Array,
    dim: Axes = None,
    unbiased: bool = True,
    correction: Any = None,
    keepdim: bool = False,
) -> tuple[Array, Array]:
    variance, middle = var_mean(self.astype(wide(self.dtype)), dim, unbiased, correction, keepdim)
    return jnp.sqrt(variance).astype(self.dtype), middle.astype(self.dtype)


@op("amax.default")
def amax(self: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    return jnp.max(self, axis=axes_of(self, dim), keepdims=keepdim)


@op("amin.default")
def amin(self: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    return jnp.min(self, axis=axes_of(self, dim), keepdims=keepdim)


@op("aminmax.default")
def aminmax(self: Array, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    return amin(self, dim, keepdim), amax(self, dim, keepdim)


@op("max.default")
def max_all(self: Array) -> Array:
    return jnp.max(self)


@op("min.default")
def min_all(self: Array) -> Array:
    return jnp.min(self)


def _place(function: Callable[..., Array], x: Array, dim: int | None, keepdim: bool) -> Array:
    axis = dim if x.ndim else None
    return function(x, axis=axis, keepdims=keepdim).astype(canonical(INT))


@op("argmax.default")
def argmax(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return _place(jnp.argmax, self, dim, keepdim)


@op("argmin.default")
def argmin(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return _place(jnp.argmin, self, dim, keepdim)


@op("max.dim")
def max_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return amax(self, dim, keepdim), argmax(self, dim, keepdim)


@op("min.dim")
def min_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return amin(self, dim, keepdim), argmin(self, dim, keepdim)


@op("all.default", "all.dim", "all.dims")
def all_(self: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    return _truth(self, jnp.all(self, axis=axes_of(self, dim), keepdims=keepdim))


@op("any.default", "any.dim", "any.dims")
def any_(self: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    return _truth(self, jnp.any(self, axis=axes_of(self, dim), keepdims=keepdim))


def _truth(x: Array, made: Array) -> Array:
    """For uint8, torch's first bool, the result is one, too."""
    return made.astype(jnp.uint8) if x.dtype == jnp.uint8 else made


@op("count_nonzero.default", "count_nonzero.dim_IntList")
def count_nonzero(self: Array, dim: Axes = None) -> Array:
    return jnp.sum(self != 0, axis=axes_of(self, dim), dtype=canonical(INT))


@op("logsumexp.default")
def logsumexp(self: Array, dim: Axes, keepdim: bool = False) -> Array:
    (x,) = as_float(self)
    return wide_reduction(jax.nn.logsumexp, x, axis=axes_of(self, dim), keepdims=keepdim)


@op("softmax.int", "_softmax.default")
def softmax(self: Array, dim: int, dtype: Any = None, half_to_float: bool = False) -> Array:
    x = as_dtype(self, dtype) if dtype is not None else as_float(self)[0]
    made = x.astype(wide(x.dtype))
    if x.ndim == 0:
        return jnp.ones_like(x)
    made = jax.nn.softmax(made, axis=dim)
    return made if half_to_float else made.astype(x.dtype)


@op("log_softmax.int", "_log_softmax.default")
def log_softmax(self: Array, dim: int, dtype: Any = None, half_to_float: bool = False) -> Array:
    x = as_dtype(self, dtype) if dtype is not None else as_float(self)[0]
    if x.ndim == 0:
        return jnp.zeros_like(x)
    made = jax.nn.log_softmax(x.astype(wide(x.dtype)), axis=dim)
    return made if half_to_float else made.astype(x.dtype)


@op("_safe_softmax.default")
def safe_softmax(self: Array, dim: int, dtype: Any = None) -> Array:
    """Softmax that is 0, not NaN, where all elements are -inf."""
    masked = jnp.all(self == -jnp.inf, axis=dim, keepdims=True)
    return jnp.where(masked, 0, softmax(self, dim, dtype))


@op("linalg_vector_norm.default")
def vector_norm(
    self: Array, ord: Any = 2, dim: Axes = None, keepdim: bool = False, dtype: Any = None
) -> Array:
    x = as_dtype(self, dtype) if dtype is not None else self
    axes = axes_of(x, dim)

    def norm(x: Array) -> Array:
        x = jnp.abs(x)
        if ord == math.inf:
            return jnp.max(x, axis=axes, keepdims=keepdim)
        if ord == -math.inf:
            return jnp.min(x, axis=axes, keepdims=keepdim)
        if ord == 0:
            return jnp.sum((x != 0).astype(x.dtype), axis=axes, keepdims=keepdim)
        if ord == 1:
            return jnp.sum(x, axis=axes, keepdims=keepdim)
        if ord == 2:
            return jnp.sqrt(jnp.sum(jnp.square(x), axis=axes, keepdims=keepdim))
        return jnp.power(jnp.sum(jnp.power(x, ord), axis=axes, keepdims=keepdim), 1 / ord)

    return wide_reduction(norm, x)


@op("norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dtype")
def norm(
    self: Array, p: Any = 2, dim: Axes = None, keepdim: bool = False, dtype: Any = None
) -> Array:
    return vector_norm(self, 2 if p is None else p, dim, keepdim, dtype)


@op("frobenius_norm.dim")
def frobenius_norm(self: Array, dim: Axes, keepdim: bool = False) -> Array:
    return vector_norm(self, 2, dim, keepdim)


# Running ones.


def _running(function: Callable[..., Array], x: Array, dim: int) -> Array:
    if x.ndim == 0:
        return x
    return function(x.astype(wide(x.dtype)), axis=dim % x.ndim).astype(x.dtype)


@op("cumsum.default")
def cumsum(self: Array, dim: int, dtype: Any = None) -> Array:
    return _running(lax.cumsum, _summed(self, dtype), dim)


@op("cumprod.default")
def cumprod(self: Array, dim: int, dtype: Any = None) -> Array:
    return _running(lax.cumprod, _summed(self, dtype), dim)


@op("diff.default")
def diff(self: Array, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Array:
    return jnp.diff(self, n, dim, prepend, append)


@op("logcumsumexp.default")
def logcumsumexp(self: Array, dim: int) -> Array:
    return _running(lax.cumlogsumexp, self, dim)


def _running_extreme(
    x: Array, dim: int, later: Callable[[Array, Array], Array]
) -> tuple[Array, Array]:
    """Values and where they stand; of equal ones the last, and the last NaN."""
    if x.ndim == 0:
        return x, jnp.zeros_like(x, canonical(INT))
    places = lax.broadcasted_iota(canonical(INT), x.shape, dim % x.ndim)

    def pick(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        take = later(b[0], a[0]) | (b[0] != b[0]) if is_float(x) else later(b[0], a[0])
        return jnp.where(take, b[0], a[0]), jnp.where(take, b[1], a[1])

    made: tuple[Array, Array] = lax.associative_scan(pick, (x, places), axis=dim % x.ndim)
    return made


@op("cummax.default")
def cummax(self: Array, dim: int) -> tuple[Array, Array]:
    return _running_extreme(self, dim, jnp.greater_equal)


@op("cummin.default")
def cummin(self: Array, dim: int) -> tuple[Array, Array]:
    return _running_extreme(self, dim, jnp.less_equal)


# Sorting.


@op("argsort.default", "argsort.stable")
def argsort(self: Array, dim: int = -1, descending: bool = False, stable: bool = True) -> Array:
    return sort(self, dim, descending)[1]


@op("sort.default", "sort.stable")
def sort(
    self: Array, dim: int = -1, descending: bool = False, stable: bool | None = True
) -> tuple[Array, Array]:
    """Always stable; NaN counts as the largest."""
    if self.ndim == 0:
        return self, jnp.zeros_like(self, canonical(INT))
    order = jnp.argsort(self, axis=dim, descending=descending, stable=True)
    return jnp.take_along_axis(self, order, axis=dim), order.astype(canonical(INT))


@op("msort.default")
def msort(self: Array) -> Array:
    return sort(self, 0)[0]


@op("topk.default")
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


@op("kthvalue.default")
def kthvalue(self: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    values, places = sort(self, dim)
    if self.ndim:
        values = lax.slice_in_dim(values, k - 1, k, axis=dim % self.ndim)
        places = lax.slice_in_dim(places, k - 1, k, axis=dim % self.ndim)
    if keepdim or not self.ndim:
        return values, places
    return jnp.squeeze(values, dim), jnp.squeeze(places, dim)


def _middle(x: Array, dim: int, keepdim: bool, skip_nan: bool) -> tuple[Array, Array]:
    """The lower of the two in the middle. skip_nan: of numbers alone; otherwise NaN if there is
    any, and the first of them.
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


@op("median.default")
def median(self: Array) -> Array:
    return _middle_of_all(self, False)


@op("nanmedian.default")
def nanmedian(self: Array) -> Array:
    return _middle_of_all(self, True)


@op("median.dim")
def median_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _middle(self, dim, keepdim, False)


@op("nanmedian.dim")
def nanmedian_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _middle(self, dim, keepdim, True)


def _lerp(a: Array, b: Array, weight: Any) -> Array:
    """Torch's order of operations, which is exact at both ends."""
    near = a + weight * (b - a)
    return jnp.where(jnp.abs(weight) < 0.5, near, b - (b - a) * (1 - weight))


def _quantile(
    x: Array, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip_nan: bool
) -> Array:
    share = as_dtype(q, x.dtype)
    rank = x.ndim
    x = (
        x.reshape(-1)
        if dim is None
        else jnp.moveaxis(x, dim if rank else 0, -1)
        if rank
        else x[None]
    )
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
        made = _lerp(made, above, 0.5 if interpolation == "midpoint" else at - below)
    made = jnp.moveaxis(made, -1, 0)
    if keepdim:
        where = tuple(range(rank)) if dim is None else ((dim % rank,) if rank else ())
        made = jnp.expand_dims(made, tuple(1 + axis for axis in where))
    return made if jnp.ndim(share) else jnp.squeeze(made, 0)


@op("quantile.default", "quantile.scalar")
def quantile(
    self: Array,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    interpolation: str = "linear",
) -> Array:
    return _quantile(self, q, dim, keepdim, interpolation, False)


@op("nanquantile.default", "nanquantile.scalar")
def nanquantile(
    self: Array,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    interpolation: str = "linear",
) -> Array:
    return _quantile(self, q, dim, keepdim, interpolation, True)


@op("trace.default")
def trace(self: Array) -> Array:
    return jnp.trace(_summed(self, None))


@op("dist.default")
def dist(self: Array, other: Array, p: Any = 2) -> Array:
    return vector_norm((self - other).reshape(-1), p)


@op("trapezoid.dx", "trapz.dx")
def trapezoid(y: Array, dx: Any = 1, dim: int = -1) -> Array:
    at = axes_of(y, dim)[0]
    if y.shape[at] == 0:
        return jnp.zeros([*y.shape[:at], *y.shape[at + 1 :]], y.dtype)
    first, last = (lax.index_in_dim(y, place, at, keepdims=False) for place in (0, -1))
    return mul(sub(sum_(y, at), mul(add(first, last), 0.5)), dx)


@op("trapezoid.x", "trapz.x")
def trapezoid_of(y: Array, x: Array, dim: int = -1) -> Array:
    at = axes_of(y, dim)[0]
    if y.shape[at] == 0:
        return jnp.zeros([*y.shape[:at], *y.shape[at + 1 :]], y.dtype)
    left, right = _neighbours(y, at)
    return div(sum_(mul(add(left, right), _steps(x, y, at)), at), 2.0)


@op("cumulative_trapezoid.dx")
def cumulative_trapezoid(y: Array, dx: Any = 1, dim: int = -1) -> Array:
    return cumsum(mul(add(*_neighbours(y, axes_of(y, dim)[0])), dx / 2.0), dim)


@op("cumulative_trapezoid.x")
def cumulative_trapezoid_of(y: Array, x: Array, dim: int = -1) -> Array:
    at = axes_of(y, dim)[0]
    return div(cumsum(mul(add(*_neighbours(y, at)), _steps(x, y, at)), dim), 2.0)


def _neighbours(x: Array, axis: int) -> tuple[Array, Array]:
    """Return all elements along an axis but the last, and all but the first."""
    size = x.shape[axis]
    return (
        lax.slice_in_dim(x, 0, max(size - 1, 0), axis=axis),
        lax.slice_in_dim(x, min(1, size), size, axis=axis),
    )


def _steps(x: Array, y: Array, axis: int) -> Array:
    """Return the differences of neighbours of `x` along an axis of `y`."""
    shape = [1] * max(y.ndim - x.ndim, 0) + [*x.shape]
    if x.ndim == 1:
        shape = [x.shape[0] if each == axis else 1 for each in range(y.ndim)]
    left, right = _neighbours(x.reshape(shape), axis)
    return sub(right, left)


@op("cov.default")
def cov(
    self: Array, correction: int = 1, fweights: Array | None = None, aweights: Array | None = None
) -> Array:
    if fweights is not None or aweights is not None:
        raise Unsupported("cov with weights")
    x = as_float(self)[0]
    x = x.reshape(1, -1) if x.ndim < 2 else x
    centred = x - jnp.mean(x, 1, keepdims=True)
    made = centred @ centred.conj().T / max(x.shape[1] - correction, 0)
    return jnp.squeeze(made)  # one row makes a number


@op("corrcoef.default")
def corrcoef(self: Array) -> Array:
    made = cov(self)
    if made.ndim == 0:
        return made / made
    spread = jnp.sqrt(jnp.diagonal(made).real)
    made = made / spread[:, None] / spread[None, :]
    return jnp.clip(made, -1, 1) if is_float(made) else made


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
    sequence, asked = promoted(sorted_sequence, self)
    if sequence.ndim == 1:
        found = _searched(sequence, asked.reshape(-1), right or side == "right")
    else:
        found = _searched(sequence, asked, right or side == "right")
    return found.reshape(asked.shape).astype(jnp.int32 if out_int32 else canonical(INT))


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


@op("bucketize.Tensor", "bucketize.Scalar")
def bucketize(
    self: Array, boundaries: Array, out_int32: bool = False, right: bool = False
) -> Array:
    return searchsorted(boundaries, self, out_int32, right)


@op("isin.Tensor_Tensor")
def isin(
    elements: Array, test_elements: Array, assume_unique: bool = False, invert: bool = False
) -> Array:
    return jnp.isin(elements, test_elements, invert=invert)


@op("isin.Tensor_Scalar")
def isin_scalar(
    elements: Array, test_element: Any, assume_unique: bool = False, invert: bool = False
) -> Array:
    return (elements != test_element) if invert else (elements == test_element)


@op("isin.Scalar_Tensor")
def scalar_isin(
    element: Any, test_elements: Array, assume_unique: bool = False, invert: bool = False
) -> Array:
    return jnp.isin(element, test_elements, invert=invert)
