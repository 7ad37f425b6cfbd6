"""Fourier transforms."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array

from aotc.frontends.pytorch.operators.torch_operator_table import Family
from aotc.frontends.pytorch.operators.torch_reductions import axes_of
from aotc.frontends.pytorch.operators.torch_shapes import pad
from aotc.frontends.pytorch.torch_refusals import Unsupported

FAMILY = Family()
op = FAMILY


def _of_one_axis(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(self: Array, n: Any = None, dim: int = -1, norm: str | None = None) -> Array:
        return function(self, n, dim, norm)

    return run


def _of_axes(
    function: Callable[..., Array], axes: Sequence[int] | None = None
) -> Callable[..., Array]:
    """axes: those of the transform where a call names none."""

    def run(self: Array, s: Any = None, dim: Any = axes, norm: str | None = None) -> Array:
        return function(self, s, None if dim is None else tuple(dim), norm)

    return run


def _shifted(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(self: Array, dim: Any = None) -> Array:
        return function(self, None if dim is None else axes_of(self, dim))

    return run


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    op(f"fft_{_name}")(_of_one_axis(getattr(jnp.fft, _name)))
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    op(f"fft_{_name}")(_of_axes(getattr(jnp.fft, _name)))
    op(f"fft_{_name[:-1]}2")(_of_axes(getattr(jnp.fft, _name), (-2, -1)))
op.table({"fft_fftshift": _shifted(jnp.fft.fftshift), "fft_ifftshift": _shifted(jnp.fft.ifftshift)})

NORMS = {0: "backward", 1: "ortho", 2: "forward"}
"""Numbers of core ATen for what a transform is divided by: nothing, the root of n, n."""


@op("_fft_r2c")
def fft_r2c(self: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Array:
    made = jnp.fft.rfftn if onesided else jnp.fft.fftn
    return made(self, axes=tuple(dim), norm=NORMS[normalization])


@op("_fft_c2c")
def fft_c2c(self: Array, dim: Sequence[int], normalization: int, forward: bool) -> Array:
    if forward:
        return jnp.fft.fftn(self, axes=tuple(dim), norm=NORMS[normalization])
    return jnp.fft.ifftn(self, axes=tuple(dim), norm=NORMS[2 - normalization])


@op("_fft_c2r")
def fft_c2r(self: Array, dim: Sequence[int], normalization: int, last_dim_size: Any) -> Array:
    if not isinstance(last_dim_size, int):
        raise Unsupported("a transform to real numbers of a size that varies")
    sizes = [self.shape[axis] for axis in dim[:-1]] + [last_dim_size]
    return jnp.fft.irfftn(self, sizes, tuple(dim), norm=NORMS[2 - normalization])


# Of pieces of a signal that overlap.


def _window(window: Array | None, width: int | None, n_fft: int, dtype: Any) -> Array:
    """As long as a piece: 0 on both sides of a window that is shorter."""
    width = n_fft if width is None else width
    made = jnp.ones(width, dtype) if window is None else window
    before = (n_fft - width) // 2
    return jnp.pad(made, (before, n_fft - width - before))


def _places(count: int, n_fft: int, hop: int) -> Array:
    """Return the position in the signal of each element of each frame."""
    return jnp.arange(count)[:, None] * hop + jnp.arange(n_fft)[None, :]


def _stft(
    self: Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Array | None = None,
    center: bool = False,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Array:
    if align_to_window:
        raise Unsupported("pieces that are aligned to their windows")
    signal = pad(self, (n_fft // 2, n_fft // 2), pad_mode) if center else self
    hop = n_fft // 4 if hop_length is None else hop_length
    weights = _window(window, win_length, n_fft, signal.dtype)
    count = 1 + (signal.shape[-1] - n_fft) // hop
    pieces = signal[..., _places(count, n_fft, hop)] * weights
    is_complex = jnp.iscomplexobj(pieces)
    half = not is_complex if onesided is None else onesided
    made = (jnp.fft.rfft if half else jnp.fft.fft)(pieces, norm="ortho" if normalized else None)
    made = jnp.swapaxes(made, -1, -2)
    if is_complex if return_complex is None else return_complex:
        return made
    return jnp.stack([made.real, made.imag], -1)


op("stft")(_stft)
op("stft.center")(partial(_stft, center=True))


@op("istft")
def istft(
    self: Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Array | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Array:
    """Pieces are added where they overlap, and divided by the squares of their windows there."""
    hop = n_fft // 4 if hop_length is None else hop_length
    weights = _window(window, win_length, n_fft, self.real.dtype)
    norm = "ortho" if normalized else None
    spectra = jnp.swapaxes(self, -1, -2)
    if return_complex:
        pieces = jnp.fft.ifft(spectra, norm=norm)
    else:
        pieces = jnp.fft.irfft(spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)
    count = pieces.shape[-2]
    places = _places(count, n_fft, hop)

    def joined(each: Array) -> Array:
        whole = jnp.zeros((*each.shape[:-2], n_fft + hop * (count - 1)), each.dtype)
        return whole.at[..., places].add(each)

    squares = jnp.broadcast_to(weights * weights, pieces.shape[-2:])
    start = n_fft // 2 if center else 0
    whole, all_squares = joined(pieces * weights), joined(squares)
    stop = whole.shape[-1] - start if length is None else start + length
    found = whole[..., start:stop] / all_squares[start:stop]
    missing = stop - start - found.shape[-1]
    return jnp.pad(found, [(0, 0)] * (found.ndim - 1) + [(0, missing)])
