"""Custom calls of CUDA and TPU executables that this runtime can serve.

They were observed with jaxlib 0.11.2 and 0.12.0.1.
"""

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
    """Return the module of jax-cuda13-plugin that has the kernel of a custom call, "_solver"."""
    return next((module for pattern, module in _MODULES if pattern.match(target)), None)


TPU_BUILT_IN = (
    "AllocateBuffer",
    "AssumeGatherIndicesInBound",
    "Cholesky",
    "CompactWyHelper",
    "EighTpu",
    "GatherScatterIndicesBitpacked",
    "InvertDiagBlocksLowerTriangular",
    "InvertDiagBlocksUpperTriangular",
    "LuRealDecompositionBlock",
    "PartialReduce",
    "QrDecompositionBlock",
    "TopK",
    "X64Combine",
    "X64SplitHigh",
    "X64SplitLow",
    "tpu_custom_call",
)
"""Custom calls that libtpu 0.0.50 makes code of when it compiles; nothing is called at run time.
`tpu_custom_call` is a Pallas kernel, whose code is in the module."""


def is_tpu_call(target: str) -> bool:
    """Return whether a TPU executable may contain this custom call."""
    return target in TPU_BUILT_IN


LAPACK = "lapack_"
"""Prefixes of jaxlib's calls into LAPACK, on processors."""

SERVED = {
    "cpu": "TopK, lapack_*",
    "cuda": "cuBLAS, cuDNN, CUB, TopK and jax's own kernels",
    "tpu": "those that libtpu makes code of",
}
"""The custom calls that are served, by platform, in words."""


def is_served(platform: str, target: str) -> bool:
    """Return whether this runtime serves a custom call of an executable for a platform."""
    match platform:
        case "cpu":
            return target == "TopK" or target.startswith(LAPACK)
        case "cuda":
            return target.startswith(CUDA_BUILT_IN) or cuda_module(target) is not None
        case "tpu":
            return is_tpu_call(target)
    return False
