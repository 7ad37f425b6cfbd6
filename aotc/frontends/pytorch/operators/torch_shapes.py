"""Views, copies and joins: where elements stand, never what they are."""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import jax.numpy as jnp
from jax import Array, core, lax

from aotc.frontends.pytorch.operators.torch_operator_table import Arguments, Family, Memory
from aotc.frontends.pytorch.operators.torch_reductions import axes_of
from aotc.frontends.pytorch.torch_dtypes import as_dtype, category, join
from aotc.frontends.pytorch.torch_refusals import Unsupported, few
from aotc.frontends.pytorch.torch_schema import TensorMeta
from aotc.frontends.pytorch.torch_symbols import contiguous as contiguous_in_memory

FAMILY = Family()
op = FAMILY

VIEW, PERHAPS, OVERLAP = Memory.VIEW, Memory.PERHAPS, Memory.OVERLAP

type Size = Any
"""A number, or a size that varies."""


def axis_of(x: Array, dim: int, more: int = 0) -> int:
    return dim % (x.ndim + more) if x.ndim + more else 0


# The same elements in the same order.


@op(
    *("to.dtype", "to.dtype_layout", "to.device", "to.prim_dtype"),
    *("to.other", "to.prim_Device", "to.prim_other"),
    memory=PERHAPS,
)
def to(self: Array, dtype: Any = None, copy: bool = False, other: Any = None) -> Array:
    if other is not None:
        dtype = other.dtype
    return self if dtype is None else as_dtype(self, dtype)


def reshaped(x: Array, sizes: Sequence[Size]) -> Array:
    """Reshape an array; one size may be -1. Torch has proved that varying sizes divide exactly."""
    sizes = list(sizes)
    if any(isinstance(size, int) and size == -1 for size in sizes):
        at = next(i for i, size in enumerate(sizes) if isinstance(size, int) and size == -1)
        rest = math.prod(size for i, size in enumerate(sizes) if i != at)
        sizes[at] = math.prod(x.shape) // rest if not (isinstance(rest, int) and rest == 0) else 0
    return jnp.reshape(x, sizes)


@op("view.dtype", memory=OVERLAP)
def view_dtype(self: Array, dtype: Any) -> Array:
    if dtype.itemsize != self.dtype.itemsize or category(dtype) == 0:
        raise Unsupported("a view as a dtype of another size")
    return lax.bitcast_convert_type(self, dtype)


@op("flatten.using_ints", memory=PERHAPS)
def flatten(self: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    if self.ndim == 0:
        return self.reshape(1)
    first, last = axis_of(self, start_dim), axis_of(self, end_dim)
    shape = self.shape
    return jnp.reshape(
        self, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
    )


@op("unflatten.int", memory=VIEW)
def unflatten(self: Array, dim: int, sizes: Sequence[Size]) -> Array:
    at = axis_of(self, dim)
    sizes = list(sizes)
    for i, size in enumerate(sizes):
        if isinstance(size, int) and size == -1:
            sizes[i] = self.shape[at] // math.prod(s for j, s in enumerate(sizes) if j != i)
    return jnp.reshape(self, (*self.shape[:at], *sizes, *self.shape[at + 1 :]))


@op(
    *("squeeze", "squeeze.dim", "squeeze.dims"),
    *("squeeze_copy", "squeeze_copy.dim", "squeeze_copy.dims"),
    memory=VIEW,
)
def squeeze(self: Array, dim: Any = None) -> Array:
    if dim is None:
        axes = tuple(range(self.ndim))
    else:
        axes = () if not isinstance(dim, int) and not len(dim) else axes_of(self, dim)
    single = {axis for axis, size in enumerate(self.shape) if isinstance(size, int) and size == 1}
    return jnp.squeeze(self, tuple(axis for axis in axes if axis in single))


op.table(
    {
        "alias detach lift positive": lambda self: self,
        "unsqueeze unsqueeze_copy": lambda self, dim: jnp.expand_dims(self, axis_of(self, dim, 1)),
    },
    memory=VIEW,
)
op.table(
    {
        "clone lift_fresh_copy alias_copy detach_copy": lambda self: self,
        "copy": lambda self, src: jnp.broadcast_to(as_dtype(src, self.dtype), self.shape),
        "_to_copy": lambda self, dtype=None: to(self, dtype),
    }
)
op.table(
    {
        "contiguous resolve_conj resolve_neg lift_fresh": lambda self: self,
        "type_as": lambda self, other: as_dtype(self, other.dtype),
        "view _unsafe_view reshape view_copy": lambda self, size=(), shape=(): reshaped(
            self, size or shape
        ),
        "view_as reshape_as": lambda self, other: jnp.reshape(self, other.shape),
        "ravel": lambda self: self.reshape(-1),
    },
    memory=PERHAPS,
)


# Elements in another order.


@op("transpose.int", "transpose_copy.int", "swapaxes", "swapdims", memory=VIEW)
def transpose(
    self: Array, dim0: int = 0, dim1: int = 0, axis0: int | None = None, axis1: int | None = None
) -> Array:
    dim0, dim1 = dim0 if axis0 is None else axis0, dim1 if axis1 is None else axis1
    return jnp.swapaxes(self, dim0, dim1) if self.ndim else self


@op("roll")
def roll(self: Array, shifts: Sequence[int], dims: Sequence[int] = ()) -> Array:
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    if not dims:
        return jnp.roll(self.reshape(-1), shifts[0]).reshape(self.shape)
    return jnp.roll(self, shifts, list(dims))


@op("pixel_shuffle")
def pixel_shuffle(self: Array, upscale_factor: int) -> Array:
    *batch, c, h, w = self.shape
    r = upscale_factor
    x = self.reshape(*batch, c // (r * r), r, r, h, w)
    n = len(batch)
    x = x.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return x.reshape(*batch, c // (r * r), h * r, w * r)


@op("pixel_unshuffle")
def pixel_unshuffle(self: Array, downscale_factor: int) -> Array:
    *batch, c, h, w = self.shape
    r, n = downscale_factor, len(batch)
    x = self.reshape(*batch, c, h // r, r, w // r, r)
    x = x.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return x.reshape(*batch, c * r * r, h // r, w // r)


@op("channel_shuffle")
def channel_shuffle(self: Array, groups: int) -> Array:
    n, c, *rest = self.shape
    return self.reshape(n, groups, c // groups, *rest).swapaxes(1, 2).reshape(self.shape)


op.table(
    {
        "permute permute_copy": lambda self, dims: jnp.transpose(
            self, axes_of(self, dims) if dims else ()
        ),
        "t t_copy numpy_T": lambda self: jnp.transpose(self),
        "mT adjoint": lambda self: jnp.swapaxes(self, -1, -2),
        "movedim.int movedim.intlist moveaxis.int moveaxis.intlist": (
            lambda self, source, destination: jnp.moveaxis(self, source, destination)
        ),
    },
    memory=VIEW,
)
op.table(
    {
        "flip": lambda self, dims: jnp.flip(self, axes_of(self, dims)) if len(dims) else self,
        "fliplr": lambda self: jnp.fliplr(self),
        "flipud": lambda self: jnp.flipud(self),
        "rot90": lambda self, k=1, dims=(0, 1): jnp.rot90(self, k, (dims[0], dims[1])),
    }
)


# Some of the elements.


def _bounded(value: Size | None, size: Size, otherwise: Size) -> Size:
    """Return an end of a slice as a number from 0, cut off at the size."""
    if value is None:
        return otherwise
    if isinstance(value, int) and value >= 2**62:
        return size
    if isinstance(value, int) and value < 0:
        value = value + size
        return core.max_dim(value, 0)
    return core.min_dim(value, size) if not (isinstance(value, int) and value == 0) else 0


@op("slice.Tensor", "slice_copy.Tensor", memory=VIEW)
def slice_(
    self: Array, dim: int = 0, start: Size | None = None, end: Size | None = None, step: int = 1
) -> Array:
    at = axis_of(self, dim)
    size = self.shape[at]
    first, last = _bounded(start, size, 0), _bounded(end, size, size)
    if isinstance(first, int) and isinstance(last, int):
        last = max(first, last)
    return lax.slice_in_dim(self, first, last, step, axis=at)


@op("narrow", "narrow_copy", memory=VIEW)
def narrow(self: Array, dim: int, start: Size, length: Size) -> Array:
    at = axis_of(self, dim)
    if isinstance(start, int) and start < 0:
        start = start + self.shape[at]
    return lax.slice_in_dim(self, start, start + length, axis=at)


@op("select.int", "select_copy.int", memory=VIEW)
def select(self: Array, dim: int, index: Size) -> Array:
    at = axis_of(self, dim)
    first = index + self.shape[at] if isinstance(index, int) and index < 0 else index
    return jnp.squeeze(lax.slice_in_dim(self, first, first + 1, axis=at), at)


@op("split.Tensor", "split.sizes", memory=VIEW)
def split(self: Array, split_size: Any, dim: int = 0) -> list[Array]:
    if not isinstance(split_size, int) and isinstance(split_size, Sequence):
        return split_with_sizes(self, split_size, dim)
    size = self.shape[axis_of(self, dim)]
    is_empty = isinstance(split_size, int) and split_size == 0
    count = 1 if is_empty else max(-(-size // split_size), 1)
    return [
        slice_(self, dim, i * split_size, (i + 1) * split_size)
        for i in range(few(int(count), "parts"))
    ]


@op("split_with_sizes", "split_with_sizes_copy", memory=VIEW)
def split_with_sizes(self: Array, split_sizes: Sequence[Size], dim: int = 0) -> list[Array]:
    parts, at = [], 0
    for size in split_sizes:
        parts.append(narrow(self, dim, at, size))
        at = at + size
    return parts


@op("chunk", memory=VIEW)
def chunk(self: Array, chunks: int, dim: int = 0) -> list[Array]:
    each = -(-self.shape[axis_of(self, dim)] // chunks)
    if isinstance(each, int) and each == 0:
        return [self for _ in range(few(chunks, "parts"))]
    return split(self, each, dim)


@op("tensor_split.sections", memory=VIEW)
def tensor_split(self: Array, sections: int, dim: int = 0) -> list[Array]:
    return list(jnp.array_split(self, few(sections, "parts"), axis_of(self, dim)))


@op("tensor_split.indices", memory=VIEW)
def tensor_split_at(self: Array, indices: Sequence[Size], dim: int = 0) -> list[Array]:
    few(len(indices), "parts")
    edges = [None, *indices, None]
    return [slice_(self, dim, *edges[i : i + 2]) for i in range(len(indices) + 1)]


@op("unbind.int", "unbind_copy.int", memory=VIEW)
def unbind(self: Array, dim: int = 0) -> list[Array]:
    count = few(int(self.shape[axis_of(self, dim)]), "parts")
    return [select(self, dim, i) for i in range(count)]


@op("diag_embed")
def diag_embed(self: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    size = self.shape[-1] + abs(offset)
    rows = jnp.arange(self.shape[-1]) + max(-offset, 0)
    columns = jnp.arange(self.shape[-1]) + max(offset, 0)
    made = jnp.zeros((*self.shape[:-1], size, size), self.dtype).at[..., rows, columns].set(self)
    return jnp.moveaxis(made, (-2, -1), (dim1, dim2))


@op("unfold", "unfold_copy", memory=OVERLAP)
def unfold(self: Array, dimension: int, size: int, step: int) -> Array:
    if self.ndim == 0:
        return self.reshape(1)
    at = axis_of(self, dimension)
    starts = jnp.arange((self.shape[at] - size) // step + 1) * step
    windows = jnp.take(self, starts[:, None] + jnp.arange(size), axis=at)
    return jnp.moveaxis(windows, at + 1, -1)


op.table(
    {
        "unsafe_split.Tensor": lambda self, split_size, dim=0: split(self, split_size, dim),
        "unsafe_chunk": lambda self, chunks, dim=0: chunk(self, chunks, dim),
        "diagflat": lambda self, offset=0: jnp.diagflat(self, offset),
        "diag": lambda self, diagonal=0: jnp.diag(self, diagonal),
        "tril": lambda self, diagonal=0: jnp.tril(self, diagonal),
        "triu": lambda self, diagonal=0: jnp.triu(self, diagonal),
    }
)
op.table(
    {
        "diagonal diagonal_copy": lambda self, offset=0, dim1=0, dim2=1: jnp.diagonal(
            self, offset, dim1, dim2
        ),
        "linalg_diagonal": lambda A, offset=0, dim1=-2, dim2=-1: jnp.diagonal(
            A, offset, dim1, dim2
        ),
    },
    memory=VIEW,
)


# Elements several times.


@op("expand", "expand_copy", "broadcast_to", memory=OVERLAP)
def expand(self: Array, size: Sequence[Size]) -> Array:
    new = len(size) - self.ndim
    shape = [
        self.shape[i - new] if isinstance(wanted, int) and wanted == -1 else wanted
        for i, wanted in enumerate(size)
    ]
    return jnp.broadcast_to(self, shape)


@op("repeat")
def repeat(self: Array, repeats: Sequence[Size]) -> Array:
    if all(isinstance(times, int) for times in repeats):
        return jnp.tile(self, tuple(repeats))
    shape = (*(1,) * (len(repeats) - self.ndim), *self.shape)
    pairs = [part for r, size in zip(repeats, shape, strict=True) for part in (r, size)]
    spread = self.reshape([part for size in shape for part in (1, size)])
    return jnp.broadcast_to(spread, pairs).reshape(
        [r * s for r, s in zip(repeats, shape, strict=True)]
    )


def _uncounted(given: Arguments) -> str | None:
    return None if given.get("output_size") is not None else "a size that depends on values"


@op("repeat_interleave.self_int")
def repeat_interleave(
    self: Array, repeats: int, dim: int | None = None, output_size: Any = None
) -> Array:
    x = self.reshape(-1) if dim is None else self
    at = axis_of(x, 0 if dim is None else dim)
    wide = jnp.broadcast_to(
        jnp.expand_dims(x, at + 1), (*x.shape[: at + 1], repeats, *x.shape[at + 1 :])
    )
    return wide.reshape(*x.shape[:at], x.shape[at] * repeats, *x.shape[at + 1 :])


@op("repeat_interleave.Tensor", "repeat_interleave.self_Tensor", refuse=_uncounted)
def repeat_each(
    repeats: Array, self: Array | None = None, dim: int | None = None, output_size: Any = None
) -> Array:
    if self is None:
        self = jnp.arange(repeats.shape[0], dtype=repeats.dtype)
    x = self.reshape(-1) if dim is None else self
    repeats = jnp.broadcast_to(repeats, (x.shape[axis_of(x, dim or 0)],))
    return jnp.repeat(x, repeats, axis_of(x, dim or 0), total_repeat_length=output_size)


def _strided(given: Arguments) -> str | None:
    """Elements of a tensor that lies in memory as jax counts its elements, and of it alone."""
    meta, numbers = given.get("self"), [given.get("size"), given.get("stride")]
    fixed = [each for number in numbers for each in (number or ())]
    if not all(isinstance(each, int) for each in fixed) or not isinstance(meta, TensorMeta):
        return "a view by strides of memory, of sizes that vary"
    offset = given.get("storage_offset") or 0
    sizes, strides = numbers
    last = offset + sum(
        (n - 1) * stride for n, stride in zip(sizes or (), strides or (), strict=True)
    )
    count = math.prod(n.as_int for n in meta.sizes if isinstance(n.as_int, int))
    own = meta.storage_offset.as_int == 0 and contiguous_in_memory(meta)
    if not own or min(fixed, default=0) < 0 or last >= max(count, 1):
        return "a view by strides of memory that is not the tensor's own"
    return None


@op("as_strided", memory=OVERLAP, refuse=_strided)
def as_strided(
    self: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Array:
    at = jnp.asarray(storage_offset or 0)
    for count, step in zip(size, stride, strict=True):
        at = at[..., None] + jnp.arange(count) * step
    return jnp.take(self.reshape(-1), at, mode="clip")


op.table(
    {
        "expand_as": lambda self, other: jnp.broadcast_to(self, other.shape),
        "broadcast_tensors": lambda tensors: list(jnp.broadcast_arrays(*tensors)),
        "meshgrid meshgrid.indexing": lambda tensors, indexing="ij": list(
            jnp.meshgrid(*(jnp.atleast_1d(tensor) for tensor in tensors), indexing=indexing)
        ),
    },
    memory=OVERLAP,
)
op.table({"tile": lambda self, dims: repeat(self, [*(1,) * (self.ndim - len(dims)), *dims])})


# Joins.


@op("cat", "concat", "concatenate")
def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Torch skips vectors without elements whatever the other tensors' shapes are."""
    rank = max(tensor.ndim for tensor in tensors)
    dtype = _joined(tensors)
    kept = [
        as_dtype(x, dtype)
        for x in tensors
        if not (x.ndim == 1 < rank and isinstance(x.shape[0], int) and not x.size)
    ]
    return jnp.concatenate(kept, axis=dim)


def _joined(tensors: Sequence[Array]) -> Any:
    return reduce(join, (tensor.dtype for tensor in tensors))


@op("stack")
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    dtype = _joined(tensors)
    return jnp.stack([as_dtype(tensor, dtype) for tensor in tensors], axis=dim)


def _at_least(function: Callable[..., Array]) -> Callable[..., Any]:
    def apply(self: Array | None = None, tensors: Sequence[Array] = ()) -> Any:
        return [function(x) for x in tensors] if self is None else function(self)

    return apply


op.table(
    {
        "atleast_1d atleast_1d.Sequence": _at_least(jnp.atleast_1d),
        "atleast_2d atleast_2d.Sequence": _at_least(jnp.atleast_2d),
        "atleast_3d atleast_3d.Sequence": _at_least(jnp.atleast_3d),
    },
    memory=PERHAPS,
)
op.table(
    {
        "hstack": lambda tensors: jnp.hstack(list(tensors)),
        "dstack": lambda tensors: jnp.dstack(list(tensors)),
        "column_stack": lambda tensors: jnp.column_stack(list(tensors)),
        "vstack": lambda tensors: jnp.vstack(list(tensors)),
    }
)


# Padding.


@op("constant_pad_nd")
def constant_pad(self: Array, pad: Sequence[Size], value: Any = 0) -> Array:
    widths = _widths(self, pad)
    if all(isinstance(width, int) for low_high in widths for width in low_high):
        return lax.pad(self, as_dtype(value, self.dtype), [(low, high, 0) for low, high in widths])
    return jnp.pad(self, widths, constant_values=value)


def _widths(x: Array, pad: Sequence[Size]) -> list[tuple[Size, Size]]:
    """Torch counts from the last axis."""
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]


@op("pad")
def pad(self: Array, pad: Sequence[Size], mode: str = "constant", value: Any = None) -> Array:
    if mode == "constant":
        return constant_pad(self, pad, 0 if value is None else value)
    widths = _widths(self, pad)
    cut = self
    if mode == "replicate":
        # Beyond an edge stands what is nearest, also where all between was cut off.
        for axis, (low, high) in enumerate(widths):
            size = self.shape[axis]
            places = jnp.clip(jnp.arange(size + low + high) - low, 0, size - 1)
            cut = cut if low == high == 0 else jnp.take(cut, places, axis=axis)
        return cut
    names = {"reflect": "reflect", "circular": "wrap"}
    if mode not in names:
        raise Unsupported(f"padding mode {mode!r}")
    for axis, (low, high) in enumerate(widths):
        if low < 0 or high < 0:
            size = cut.shape[axis]
            cut = lax.slice_in_dim(cut, max(-low, 0), size - max(-high, 0), axis=axis)
    return jnp.pad(cut, [(max(low, 0), max(high, 0)) for low, high in widths], mode=names[mode])


op.table(
    {
        "reflection_pad1d reflection_pad2d reflection_pad3d": lambda self, padding: pad(
            self, padding, "reflect"
        ),
        "replication_pad1d replication_pad2d replication_pad3d": lambda self, padding: pad(
            self, padding, "replicate"
        ),
    }
)


# Complex numbers as pairs.


op.table(
    {
        "view_as_complex": lambda self: lax.complex(self[..., 0], self[..., 1]),
        "view_as_real": lambda self: jnp.stack([jnp.real(self), jnp.imag(self)], -1),
        "conj _conj": lambda self: jnp.conj(self),
    },
    memory=OVERLAP,
)


# Sizes as numbers.


op.table(
    {
        "sym_size.int size.int": lambda self, dim: self.shape[axis_of(self, dim)],
        "sym_numel numel": lambda self: math.prod(self.shape),
    }
)
