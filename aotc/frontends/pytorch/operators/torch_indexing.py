"""Elements at places that are values, and writes to them.

A place outside of a tensor is an error in torch. Here it reads NaN (of integers the smallest), and
a write to it is dropped.
"""

from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

import jax.numpy as jnp
from jax import Array

from aotc.frontends.pytorch.operators.torch_operator_table import Arguments, Family
from aotc.frontends.pytorch.operators.torch_shapes import axis_of
from aotc.frontends.pytorch.torch_dtypes import BOOL, INT, as_dtype, canonical, is_tensor, wide
from aotc.frontends.pytorch.torch_refusals import Unsupported
from aotc.frontends.pytorch.torch_schema import TensorMeta

FAMILY = Family()
op = FAMILY

MASKS = (1, 12)
"""`ScalarType`s of masks: uint8 and bool."""


def _masks(given: Arguments) -> str | None:
    indices = given.get("indices") or ()
    if any(isinstance(index, TensorMeta) and index.dtype in MASKS for index in indices):
        return "a mask as index, which makes a size that depends on values"
    return None


OUTSIDE: Mapping[str, Any] = {"wrap_negative_indices": False}
"""Negative places are outside, where PyTorch raises an error: not those from the end."""


def _places(indices: Sequence[Array | None]) -> tuple[Any, ...]:
    return tuple(slice(None) if index is None else index for index in indices)


@op("index.Tensor", "_unsafe_index.Tensor", refuse=_masks)
def index(self: Array, indices: Sequence[Array | None]) -> Array:
    return self.at[_places(indices)].get(mode="fill")


@op("_unsafe_masked_index", refuse=_masks)
def masked_index(self: Array, mask: Array, indices: Sequence[Array | None], fill: Any) -> Array:
    found = self.at[_places(indices)].get(mode="clip")
    return jnp.where(mask, found, as_dtype(fill, self.dtype))


@op("index_select")
def index_select(self: Array, dim: int, index: Array) -> Array:
    if self.ndim == 0:
        return self
    return self.at[_along(self, dim, index)].get(mode="fill", **OUTSIDE)


def _grid(x: Array, dim: int, index: Array) -> tuple[Array, ...]:
    """Return the indices of `gather` and `scatter`: the index's own except along `dim`."""
    at = axis_of(x, dim)
    return tuple(
        index
        if axis == at
        else jnp.arange(size).reshape([-1 if other == axis else 1 for other in range(index.ndim)])
        for axis, size in enumerate(index.shape)
    )


@op("gather")
def gather(self: Array, dim: int, index: Array) -> Array:
    if self.ndim == 0:
        return jnp.broadcast_to(self, index.shape)
    if index.size == 0:
        # Then it may have another number of axes.
        return jnp.zeros(index.shape, self.dtype)
    if index.ndim == 0:
        index = index.reshape(1)
        return self.at[_grid(self, dim, index)].get(mode="fill", **OUTSIDE).reshape(())
    return self.at[_grid(self, dim, index)].get(mode="fill", **OUTSIDE)


@op("take_along_dim")
def take_along_dim(self: Array, indices: Array, dim: int | None = None) -> Array:
    if dim is None:
        return self.reshape(-1).at[indices.reshape(-1)].get(mode="fill")
    return jnp.take_along_axis(self, indices, dim, mode="fill")


def _sources(src: Any, index: Array, x: Array) -> Array:
    if not is_tensor(src) or src.ndim == 0:
        return as_dtype(src, x.dtype)
    part = src[tuple(slice(0, size) for size in index.shape)]
    return as_dtype(part, x.dtype)


def _added(places: Any, updates: Array, **mode: Any) -> Array:
    """Return the sums there; of truth values, as torch has it, whether one of them is true."""
    made = places.max if updates.dtype == BOOL else places.add
    added: Array = made(updates, **mode)
    return added


@op("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce")
def scatter(
    self: Array,
    dim: int,
    index: Array,
    src: Any = None,
    value: Any = None,
    reduce: str | None = None,
) -> Array:
    if self.ndim == 0:
        self, index = self.reshape(1), index.reshape(1)
        src = src if src is None else jnp.reshape(src, 1)
        return scatter(self, 0, index, src, value, reduce).reshape(())
    updates = _sources(value if src is None else src, index, self)
    at = self.at[_grid(self, dim, index)]
    if reduce is None:
        return at.set(updates, mode="drop", **OUTSIDE)
    if reduce not in ("add", "multiply"):
        raise Unsupported(f"scatter with reduce={reduce!r}")
    if reduce == "add":
        return _added(at, updates, mode="drop", **OUTSIDE)
    return at.mul(updates, mode="drop", **OUTSIDE)


def _reduced(x: Array, places: Any, updates: Array, reduce: str, include_self: bool) -> Array:
    """Return `x` with the updates of each place reduced, with the old element if included."""
    kinds = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}
    if reduce not in kinds:
        raise Unsupported(f"the reduction {reduce!a}")
    start = x
    if not include_self:
        start = x.at[places].set(_neutral(reduce, x.dtype), mode="drop", **OUTSIDE)
    if x.dtype == BOOL:
        # Of truth values a sum or the largest is "or", a product or the smallest is "and".
        kinds = {"sum": "max", "prod": "min", "amax": "max", "amin": "min"}
        if reduce not in kinds:
            raise Unsupported("a mean of truth values")
    made: Array = getattr(start.at[places], kinds[reduce])(updates, mode="drop", **OUTSIDE)
    if reduce != "mean":
        return made
    counts = jnp.ones_like(x) if include_self else jnp.zeros_like(x)
    counts = counts.at[places].add(jnp.ones((), x.dtype), mode="drop", **OUTSIDE)
    counts = jnp.maximum(counts, 1)
    if jnp.issubdtype(x.dtype, jnp.integer):
        return jnp.floor_divide(made, counts)
    return made / counts


def _neutral(reduce: str, dtype: Any) -> Array:
    """Return the neutral element of a reduction."""
    if reduce in ("sum", "mean"):
        return jnp.zeros((), dtype)
    if reduce == "prod":
        return jnp.ones((), dtype)
    if dtype == BOOL:
        return jnp.asarray(reduce == "amin")
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        return jnp.asarray(info.min if reduce == "amax" else info.max, dtype)
    return jnp.asarray(-jnp.inf if reduce == "amax" else jnp.inf, dtype)


@op("scatter_reduce.two")
def scatter_reduce(
    self: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool = True
) -> Array:
    if index.size == 0:
        return self
    x, index, src = (each.reshape(1) if each.ndim == 0 else each for each in (self, index, src))
    updates = _sources(src, index, x)
    made = _reduced(x, _grid(x, dim, index), updates, reduce, include_self)
    return made.reshape(self.shape)


SUM, MEAN, MAX = 0, 1, 2
"""Modes of `embedding_bag`."""


@op("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Array | None, ...]:
    """Return only the first of torch's results; the others are for gradients. -1: no padding."""
    bags = offsets.shape[0] - 1 if include_last_offset else offsets.shape[0]
    places = jnp.arange(indices.shape[0], dtype=offsets.dtype)
    bag = jnp.searchsorted(offsets, places, side="right", method="compare_all") - 1
    rows = weight.at[indices].get(mode="fill", **OUTSIDE).astype(wide(weight.dtype))
    kept = jnp.ones(indices.shape, bool)
    if padding_idx >= 0:
        kept = indices != padding_idx
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.astype(rows.dtype)[:, None]
    counts = jnp.zeros(bags, rows.dtype).at[bag].add(kept.astype(rows.dtype), mode="drop")
    empty = jnp.full((), -jnp.inf if mode == MAX else 0, rows.dtype)
    rows = jnp.where(kept[:, None], rows, empty)
    at = jnp.full((bags, weight.shape[1]), empty).at[bag]
    made = at.max(rows, mode="drop") if mode == MAX else at.add(rows, mode="drop")
    if mode == MEAN:
        made = made / jnp.maximum(counts, 1)[:, None]
    if mode == MAX:
        made = jnp.where(counts[:, None] > 0, made, 0)
    return made.astype(weight.dtype), None, None, None


@op("embedding_bag.padding_idx")
@wraps(embedding_bag)
def embedding_bag_padded(
    weight: Array, indices: Array, offsets: Array, padding_idx: int | None = None, **named: Any
) -> tuple[Array | None, ...]:
    """Negative places of padding count from the last row, -1 too."""
    place = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return embedding_bag(weight, indices, offsets, padding_idx=place, **named)


def _mask_writes(given: Arguments) -> str | None:
    """Writing one value where a mask is set keeps all sizes."""
    indices, values = given.get("indices") or (), given.get("values")
    masks = [i for i in indices if isinstance(i, TensorMeta) and i.dtype in MASKS]
    if not masks:
        return None
    one = isinstance(values, TensorMeta) and all(size.as_int == 1 for size in values.sizes)
    if one and len(indices) == 1 and not given.get("accumulate"):
        return None
    return "a mask as index, which makes a size that depends on values"


@op("index_put", "_unsafe_index_put", refuse=_mask_writes)
def index_put(
    self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False
) -> Array:
    values = as_dtype(values, self.dtype)
    first = indices[0]
    if first is not None and first.dtype == BOOL:
        mask = first.reshape(first.shape + (1,) * (self.ndim - first.ndim))
        return jnp.where(mask, values.reshape(()), self)
    at = self.at[_places(indices)]
    return _added(at, values, mode="drop") if accumulate else at.set(values, mode="drop")


def _along(x: Array, dim: int, index: Array) -> tuple[Any, ...]:
    if x.ndim == 0:
        raise Unsupported("a tensor without axes")
    return (slice(None),) * axis_of(x, dim) + (index.reshape(-1),)


@op("masked_scatter")
def masked_scatter(self: Array, mask: Array, source: Array) -> Array:
    mask = jnp.broadcast_to(mask, self.shape)
    order = jnp.cumsum(mask.reshape(-1).astype(canonical(INT))) - 1
    taken = source.reshape(-1).at[jnp.maximum(order, 0)].get(mode="fill").reshape(self.shape)
    return jnp.where(mask, taken, self)


@op("select_scatter")
def select_scatter(self: Array, src: Array, dim: int, index: Any) -> Array:
    return self.at[(slice(None),) * axis_of(self, dim) + (index,)].set(as_dtype(src, self.dtype))


@op("slice_scatter")
def slice_scatter(
    self: Array, src: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Array:
    at = axis_of(self, dim)
    if isinstance(end, int) and end >= 2**62:
        end = None
    src = as_dtype(src, self.dtype)
    return self.at[(slice(None),) * at + (slice(start, end, step),)].set(src)


@op("diagonal_scatter")
def diagonal_scatter(
    self: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Array:
    moved = jnp.moveaxis(self, (dim1, dim2), (-2, -1))
    rows, columns = (
        jnp.arange(src.shape[-1]) + max(-offset, 0),
        jnp.arange(src.shape[-1]) + max(offset, 0),
    )
    return jnp.moveaxis(moved.at[..., rows, columns].set(src), (-2, -1), (dim1, dim2))


@op(
    "one_hot",
    refuse=lambda given: (
        "classes that depend on values" if given.get("num_classes", -1) == -1 else None
    ),
)
def one_hot(self: Array, num_classes: int = -1) -> Array:
    return (self[..., None] == jnp.arange(num_classes)).astype(canonical(INT))


op.table(
    {
        "embedding": lambda weight, indices, padding_idx=-1, sparse=False: weight.at[indices].get(
            mode="fill", **OUTSIDE
        ),
        "take": lambda self, index: self.reshape(-1).at[index].get(mode="fill"),
        "scatter_add": lambda self, dim, index, src: scatter(self, dim, index, src, reduce="add"),
        "index_add": lambda self, dim, index, source, alpha=1: self.at[
            _along(self, dim, index)
        ].add(as_dtype(source * alpha, self.dtype), mode="drop", **OUTSIDE),
        "index_copy": lambda self, dim, index, source: self.at[_along(self, dim, index)].set(
            source, mode="drop", **OUTSIDE
        ),
        "index_fill.int_Scalar index_fill.int_Tensor": lambda self, dim, index, value: self.at[
            _along(self, dim, index)
        ].set(as_dtype(value, self.dtype), mode="drop"),
    }
)
