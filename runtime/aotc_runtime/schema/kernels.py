"""Which custom calls of CUDA executables are served, and by what. Seen with jaxlib 0.11.2 and
0.12.0.1."""

from __future__ import annotations

import re

CUDA_BUILT_IN = ("__cublas$", "__cudnn$", "__cub$", "__gpu$TopK", "TopK")
"""Beginnings of the names that XLA serves itself, in `xla/service/gpu`."""

_MODULES = (
    (re.compile(r"\Acusolver_[a-z0-9]+_ffi\Z"), "_solver"),
    (re.compile(r"\Acu_(lu_pivots_to_permutation|cholesky_update_ffi)\Z"), "_linalg"),
    (re.compile(r"\Acu_tridiagonal_solve_perturbed\Z"), "_linalg"),
    (re.compile(r"\Acu_threefry2x32_ffi\Z"), "_prng"),
    (re.compile(r"\Acusparse_gtsv2_ffi\Z"), "_sparse"),
)


def cuda_module(target: str) -> str | None:
    """The module of jax-cuda13-plugin that has the kernel of a custom call, "_solver"."""
    return next((module for pattern, module in _MODULES if pattern.match(target)), None)
