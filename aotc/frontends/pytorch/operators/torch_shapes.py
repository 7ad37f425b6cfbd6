"""Views, copies and joins: where elements stand, never what they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, core, lax

from aotc.frontends.pytorch.operators.torch_operator_table import Arguments, Family, Memory
from aotc.frontends.pytorch.operators.torch_reductions import axes_of
from aotc.frontends.pytorch.torch_dtypes import as_dtype, category, join
from aotc.frontends.pytorch.torch_refusals import Unsupported, few
from aotc.frontends.pytorch.torch_schema import TensorMeta
from aotc.frontends.pytorch.torch_strides import contiguous as contiguous_in_memory

FAMILY = Family()
op = FAMILY

VIEW, PERHAPS, OVERLAP = Memory.VIEW, Memory.PERHAPS, Memory.OVERLAP

type Size = Any
"""A number, or a size that varies."""


def axis_of(x: Array, dim: int, more: int = 0) -> int:
    return dim % (x.ndim + more) if x.ndim + more else 0


# The same elements in the same order.


@op("alias.default", "detach.default", "lift.default", "positive.default", memory=VIEW)
def alias(self: Array) -> Array:
    return self


@op("clone.default", "lift_fresh_copy.default", "alias_copy.default", "detach_copy.default")
def clone(self: Array) -> Array:
    return self


@op(
    "contiguous.default",
    "resolve_conj.default",
    "resolve_neg.default",
    "lift_fresh.default",
    memory=PERHAPS,
)
def contiguous(self: Array) -> Array:
    return self


@op("copy.default")
def copy(self: Array, src: Array) -> Array:
    return jnp.broadcast_to(as_dtype(src, self.dtype), self.shape)


@op(
    "to.dtype",
    "to.dtype_layout",
    "to.device",
    "to.prim_dtype",
    "to.other",
    "to.prim_Device",
    "to.prim_other",
    memory=PERHAPS,
)
def to(self: Array, dtype: Any = None, copy: bool = False, other: Any = None) -> Array:
    if other is not None:
        dtype = other.dtype
    return self if dtype is None else as_dtype(self, dtype)


@op("_to_copy.default")
def to_copy(self: Array, dtype: Any = None) -> Array:
    return to(self, dtype)


@op("type_as.default", memory=PERHAPS)
def type_as(self: Array, other: Array) -> Array:
    return as_dtype(self, other.dtype)


@op(
    "view.default", "_unsafe_view.default", "reshape.default", "view_copy.default",
    memory=PERHAPS,
)  # fmt: skip
def view(self: Array, size: Sequence[Size] = (), shape: Sequence[Size] = ()) -> Array:
    return reshaped(self, size or shape)


def reshaped(x: Array, sizes: Sequence[Size]) -> Array:
    """One size may be -1. Sizes that vary divide exactly, as torch has proved."""
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


@op("view_as.default", "reshape_as.default", memory=PERHAPS)
def view_as(self: Array, other: Array) -> Array:
    return jnp.reshape(self, other.shape)


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


@op("ravel.default", memory=PERHAPS)
def ravel(self: Array) -> Array:
    return self.reshape(-1)


@op(
    *("squeeze.default", "squeeze.dim", "squeeze.dims"),
    *("squeeze_copy.default", "squeeze_copy.dim", "squeeze_copy.dims"),
    memory=VIEW,
)
def squeeze(self: Array, dim: Any = None) -> Array:
    if dim is None:
        axes = tuple(range(self.ndim))
    else:
        axes = () if not isinstance(dim, int) and not len(dim) else axes_of(self, dim)
    return jnp.squeeze(self, tuple(axis for axis in axes if _is_one(self.shape[axis])))


def _is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


@op("unsqueeze.default", "unsqueeze_copy.default", memory=VIEW)
def unsqueeze(self: Array, dim: int) -> Array:
    return jnp.expand_dims(self, axis_of(self, dim, 1))


# Elements in another order.


@op("permute.default", "permute_copy.default", memory=VIEW)
def permute(self: Array, dims: Sequence[int]) -> Array:
    return jnp.transpose(self, axes_of(self, dims) if dims else ())


@op(
    *("transpose.int", "transpose_copy.int", "swapaxes.default", "swapdims.default"),
    memory=VIEW,
)
def transpose(
    self: Array, dim0: int = 0, dim1: int = 0, axis0: int | None = None, axis1: int | None = None
) -> Array:
    dim0, dim1 = dim0 if axis0 is None else axis0, dim1 if axis1 is None else axis1
    return jnp.swapaxes(self, dim0, dim1) if self.ndim else self


@op("t.default", "t_copy.default", "numpy_T.default", memory=VIEW)
def t(self: Array) -> Array:
    return jnp.transpose(self)


@op("mT.default", "adjoint.default", memory=VIEW)
def matrix_transpose(self: Array) -> Array:
    return jnp.swapaxes(self, -1, -2)


@op("movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist", memory=VIEW)
def movedim(self: Array, source: Any, destination: Any) -> Array:
    return jnp.moveaxis(self, source, destination)


@op("flip.default")
def flip(self: Array, dims: Sequence[int]) -> Array:
    return jnp.flip(self, axes_of(self, dims)) if len(dims) else self


@op("fliplr.default")
def fliplr(self: Array) -> Array:
    return jnp.fliplr(self)


@op("flipud.default")
def flipud(self: Array) -> Array:
    return jnp.flipud(self)


@op("roll.default")
def roll(self: Array, shifts: Sequence[int], dims: Sequence[int] = ()) -> Array:
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    if not dims:
        return jnp.roll(self.reshape(-1), shifts[0]).reshape(self.shape)
    return jnp.roll(self, shifts, list(dims))


@op("rot90.default")
def rot90(self: Array, k: int = 1, dims: Sequence[int] = (0, 1)) -> Array:
    return jnp.rot90(self, k, (dims[0], dims[1]))


@op("pixel_shuffle.default")
def pixel_shuffle(self: Array, upscale_factor: int) -> Array:
    *batch, c, h, w = self.shape
    r = upscale_factor
    x = self.reshape(*batch, c // (r * r), r, r, h, w)
    n = len(batch)
    x = x.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return x.reshape(*batch, c // (r * r), h * r, w * r)


@op("pixel_unshuffle.default")
def pixel_unshuffle(self: Array, downscale_factor: int) -> Array:
    *batch, c, h, w = self.shape
    r, n = downscale_factor, len(batch)
    x = self.reshape(*batch, c, h // r, r, w // r, r)
    x = x.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return x.reshape(*batch, c * r * r, h // r, w // r)


@op("channel_shuffle.default")
def channel_shuffle(self: Array, groups: int) -> Array:
    n, c, *rest = self.shape
    return self.reshape(n, groups, c // groups, *rest).swapaxes(1, 2).reshape(self.shape)


# Some of the elements.


def _bounded(value: Size | None, size: Size, otherwise: Size) -> Size:
    """An end of a slice as a number from 0, cut off at the size."""
    if value is None:
        return otherwise
    if isinstance(value, int) and isinstance(size, int):
        return min(max(value + size if value < 0 else value, 0), size)
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


@op("narrow.default", "narrow_copy.default", memory=VIEW)
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


@op("unsafe_split.Tensor")
def unsafe_split(self: Array, split_size: Any, dim: int = 0) -> list[Array]:
    return split(self, split_size, dim)


@op("split.Tensor", "split.sizes", memory=VIEW)
def split(self: Array, split_size: Any, dim: int = 0) -> list[Array]:
    if not isinstance(split_size, int) and isinstance(split_size, Sequence):
        return split_with_sizes(self, split_size, dim)
    size = self.shape[axis_of(self, dim)]
    count = (
        max(-(-size // split_size), 1)
        if not (isinstance(split_size, int) and split_size == 0)
        else 1
    )
    return [
        slice_(self, dim, i * split_size, (i + 1) * split_size)
        for i in range(few(int(count), "parts"))
    ]


@op("split_with_sizes.default", "split_with_sizes_copy.default", memory=VIEW)
def split_with_sizes(self: Array, split_sizes: Sequence[Size], dim: int = 0) -> list[Array]:
    parts, at = [], 0
    for size in split_sizes:
        parts.append(narrow(self, dim, at, size))
        at = at + size
    return parts


@op("unsafe_chunk.default")
def unsafe_chunk(self: Array, chunks: int, dim: int = 0) -> list[Array]:
    return chunk(self, chunks, dim)


@op("chunk.default", memory=VIEW)
def chunk(self: Array, chunks: int, dim: int = 0) -> list[Array]:
    size = self.shape[axis_of(self, dim)]
    each = -(-size // chunks)
    if isinstance(each, int) and each == 0:
        return [self for _ in range(few(chunks, "parts"))]
    return [
        slice_(self, dim, i * each, (i + 1) * each)
        for i in range(few(int(-(-size // each)), "parts"))
    ]


@op("tensor_split.sections", memory=VIEW)
def tensor_split(self: Array, sections: int, dim: int = 0) -> list[Array]:
    return list(jnp.array_split(self, few(sections, "parts"), axis_of(self, dim)))


@op("tensor_split.indices", memory=VIEW)
def tensor_split_at(self: Array, indices: Sequence[Size], dim: int = 0) -> list[Array]:
    few(len(indices), "parts")
    edges = [None, *indices, None]
    return [slice_(self, dim, *edges[i : i + 2]) for i in range(len(indices) + 1)]


def _axis_splits() -> None:
    for name, at in (("hsplit", 1), ("vsplit", 0), ("dsplit", 2)):

        def cut(
            self: Array,
            sections: int | None = None,
            indices: Sequence[int] = (),
            *,
            _axis: int = at,
        ) -> list[Array]:
            axis = min(_axis, self.ndim - 1)
            if sections is None:
                return tensor_split_at(self, indices, axis)
            return tensor_split(self, sections, axis)

        op(f"{name}.int", f"{name}.array", memory=VIEW)(cut)


_axis_splits()


@op("unbind.int", "unbind_copy.int", memory=VIEW)
def unbind(self: Array, dim: int = 0) -> list[Array]:
    count = few(int(self.shape[axis_of(self, dim)]), "parts")
    return [select(self, dim, i) for i in range(count)]


@op("linalg_diagonal.default", memory=VIEW)
def linalg_diagonal(A: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    return diagonal(A, offset, dim1, dim2)


@op("diagflat.default")
def diagflat(self: Array, offset: int = 0) -> Array:
    return jnp.diagflat(self, offset)


@op("diagonal.default", "diagonal_copy.default", memory=VIEW)
def diagonal(self: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    return jnp.diagonal(self, offset, dim1, dim2)


@op("diag.default")
def diag(self: Array, diagonal: int = 0) -> Array:
    return jnp.diag(self, diagonal)


@op("diag_embed.default")
def diag_embed(self: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    size = self.shape[-1] + abs(offset)
    rows = jnp.arange(self.shape[-1]) + max(-offset, 0)
    columns = jnp.arange(self.shape[-1]) + max(offset, 0)
    made = jnp.zeros((*self.shape[:-1], size, size), self.dtype).at[..., rows, columns].set(self)
    return jnp.moveaxis(made, (-2, -1), (dim1, dim2))


@op("tril.default")
def tril(self: Array, diagonal: int = 0) -> Array:
    return jnp.tril(self, diagonal)


@op("triu.default")
def triu(self: Array, diagonal: int = 0) -> Array:
    return jnp.triu(self, diagonal)


@op("unfold.default", "unfold_copy.default", memory=OVERLAP)
def unfold(self: Array, dimension: int, size: int, step: int) -> Array:
    if self.ndim == 0:
        return self.reshape(1)
    at = axis_of(self, dimension)
    starts = jnp.arange((self.shape[at] - size) // step + 1) * step
    windows = jnp.take(self, starts[:, None] + jnp.arange(size), axis=at)
    return jnp.moveaxis(windows, at + 1, -1)


# Elements several times.


@op("expand.default", "expand_copy.default", "broadcast_to.default", memory=OVERLAP)
def expand(self: Array, size: Sequence[Size], implicit: bool = False) -> Array:
    new = len(size) - self.ndim
    shape = [
        self.shape[i - new] if isinstance(wanted, int) and wanted == -1 else wanted
        for i, wanted in enumerate(size)
    ]
    return jnp.broadcast_to(self, shape)


@op("expand_as.default", memory=OVERLAP)
def expand_as(self: Array, other: Array) -> Array:
    return jnp.broadcast_to(self, other.shape)


@op("broadcast_tensors.default", memory=OVERLAP)
def broadcast_tensors(tensors: Sequence[Array]) -> list[Array]:
    return list(jnp.broadcast_arrays(*tensors))


@op("meshgrid.default", "meshgrid.indexing", memory=OVERLAP)
def meshgrid(tensors: Sequence[Array], indexing: str = "ij") -> list[Array]:
    return list(jnp.meshgrid(*(jnp.atleast_1d(tensor) for tensor in tensors), indexing=indexing))


@op("repeat.default")
def repeat(self: Array, repeats: Sequence[Size]) -> Array:
    return (
        jnp.tile(self, tuple(repeats))
        if all(isinstance(r, int) for r in repeats)
        else _tiled(self, repeats)
    )


@op("tile.default")
def tile(self: Array, dims: Sequence[Size]) -> Array:
    return repeat(self, [*(1,) * (self.ndim - len(dims)), *dims])


def _tiled(x: Array, repeats: Sequence[Size]) -> Array:
    shape = (*(1,) * (len(repeats) - x.ndim), *x.shape)
    pairs = [part for r, size in zip(repeats, shape, strict=True) for part in (r, size)]
    spread = x.reshape([part for size in shape for part in (1, size)])
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


@op("as_strided.default", memory=OVERLAP, refuse=_strided)
def as_strided(
    self: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Array:
    at = jnp.asarray(storage_offset or 0)
    for count, step in zip(size, stride, strict=True):
        at = at[..., None] + jnp.arange(count) * step
    return jnp.take(self.reshape(-1), at, mode="clip")


# Joins.


@op("cat.default", "concat.default", "concatenate.default")
def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Torch skips vectors without elements whatever the other tensors' shapes are."""
    rank = max(tensor.ndim for tensor in tensors)
    kept = [
        tensor
        for tensor in tensors
        if not (
            tensor.ndim == 1
            and rank > 1
            and isinstance(tensor.shape[0], int)
            and tensor.shape[0] == 0
        )
    ]
    dtype = _joined(tensors)
    return jnp.concatenate([as_dtype(tensor, dtype) for tensor in kept], axis=dim)


def _joined(tensors: Sequence[Array]) -> Any:
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = join(dtype, tensor.dtype)
    return dtype


@op("stack.default")
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    dtype = _joined(tensors)
    return jnp.stack([as_dtype(tensor, dtype) for tensor in tensors], axis=dim)


@op("hstack.default")
def hstack(tensors: Sequence[Array]) -> Array:
    return jnp.hstack(list(tensors))


@op("dstack.default")
def dstack(tensors: Sequence[Array]) -> Array:
    return jnp.dstack(list(tensors))


@op("column_stack.default")
def column_stack(tensors: Sequence[Array]) -> Array:
    return jnp.column_stack(list(tensors))


@op("block_diag.default")
def block_diag(tensors: Sequence[Array]) -> Array:
    dtype = _joined(tensors)
    return jax.scipy.linalg.block_diag(*(as_dtype(tensor, dtype) for tensor in tensors))


@op("cartesian_prod.default")
def cartesian_prod(tensors: Sequence[Array]) -> Array:
    grids = jnp.meshgrid(*tensors, indexing="ij")
    flat = [grid.reshape(-1) for grid in grids]
    return flat[0] if len(flat) == 1 else jnp.stack(flat, 1)


def _at_least() -> None:
    for name, function in (
        ("atleast_1d", jnp.atleast_1d),
        ("atleast_2d", jnp.atleast_2d),
        ("atleast_3d", jnp.atleast_3d),
    ):

        def apply(
            self: Array | None = None, tensors: Sequence[Array] = (), *, _function: Any = function
        ) -> Any:
            return [_function(x) for x in tensors] if self is None else _function(self)

        op(f"{name}.default", f"{name}.Sequence", memory=PERHAPS)(apply)


_at_least()


@op("vstack.default")
def vstack(tensors: Sequence[Array]) -> Array:
    return jnp.vstack(list(tensors))


# Padding.


@op("constant_pad_nd.default")
def constant_pad(self: Array, pad: Sequence[Size], value: Any = 0) -> Array:
    widths = _widths(self, pad)
    if all(isinstance(width, int) for low_high in widths for width in low_high):
        return lax.pad(self, as_dtype(value, self.dtype), [(low, high, 0) for low, high in widths])
    return jnp.pad(self, widths, constant_values=value)


def _widths(x: Array, pad: Sequence[Size]) -> list[tuple[Size, Size]]:
    """Torch counts from the last axis."""
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]


@op("pad.default")
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


@op("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(self: Array, padding: Sequence[int]) -> Array:
    return pad(self, padding, "reflect")


@op("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(self: Array, padding: Sequence[int]) -> Array:
    return pad(self, padding, "replicate")


# Complex numbers as pairs.


@op("view_as_complex.default", memory=OVERLAP)
def view_as_complex(self: Array) -> Array:
    return lax.complex(self[..., 0], self[..., 1])


@op("view_as_real.default", memory=OVERLAP)
def view_as_real(self: Array) -> Array:
    return jnp.stack([jnp.real(self), jnp.imag(self)], -1)


@op("conj.default", "_conj.default", memory=OVERLAP)
def conj(self: Array) -> Array:
    return jnp.conj(self)


# Sizes as numbers.


@op("sym_size.int", "size.int")
def size(self: Array, dim: int) -> Size:
    return self.shape[axis_of(self, dim)]


@op("sym_numel.default", "numel.default")
def numel(self: Array) -> Size:
    return math.prod(self.shape)
