"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from aotc.frontends.pytorch.operators.reductions import axes_of
from aotc.frontends.pytorch.operators.table import Family
from aotc.frontends.pytorch.refusals import Unsupported

FAMILY = Family()
op = FAMILY


def _single() -> None:
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        function = getattr(jnp.fft, name)

        def run(
            self: Array,
            n: Any = None,
            dim: int = -1,
            norm: str | None = None,
            *,
            _function: Any = function,
        ) -> Array:
            made: Array = _function(self, n, dim, norm)
            return made

        op(f"fft_{name}.default")(run)


def _several() -> None:
    for name in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"):
        function = getattr(jnp.fft, name.replace("2", "n"))
        axes = (-2, -1) if name.endswith("2") else None

        def run(
            self: Array,
            s: Any = None,
            dim: Any = axes,
            norm: str | None = None,
            *,
            _function: Any = function,
        ) -> Array:
            made: Array = _function(self, s, None if dim is None else tuple(dim), norm)
            return made

        op(f"fft_{name}.default")(run)


_single()
_several()


@op("fft_fftshift.default")
def fftshift(self: Array, dim: Any = None) -> Array:
    return jnp.fft.fftshift(self, None if dim is None else axes_of(self, dim))


@op("fft_ifftshift.default")
def ifftshift(self: Array, dim: Any = None) -> Array:
    return jnp.fft.ifftshift(self, None if dim is None else axes_of(self, dim))


NORMS = {0: "backward", 1: "ortho", 2: "forward"}
"""Numbers of core ATen for what a transform is divided by: nothing, the root of n, n."""


@op("_fft_r2c.default")
def fft_r2c(self: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Array:
    made = jnp.fft.rfftn if onesided else jnp.fft.fftn
    return made(self, axes=tuple(dim), norm=NORMS[normalization])


@op("_fft_c2c.default")
def fft_c2c(self: Array, dim: Sequence[int], normalization: int, forward: bool) -> Array:
    if forward:
        return jnp.fft.fftn(self, axes=tuple(dim), norm=NORMS[normalization])
    return jnp.fft.ifftn(self, axes=tuple(dim), norm=NORMS[2 - normalization])


@op("_fft_c2r.default")
def fft_c2r(self: Array, dim: Sequence[int], normalization: int, last_dim_size: Any) -> Array:
    if not isinstance(last_dim_size, int):
        raise Unsupported("a transform to real numbers of a size that varies")
    sizes = [self.shape[axis] for axis in dim[:-1]] + [last_dim_size]
    return jnp.fft.irfftn(self, sizes, tuple(dim), norm=NORMS[2 - normalization])
