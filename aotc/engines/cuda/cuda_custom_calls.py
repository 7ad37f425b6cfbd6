"""The custom calls a shipped CUDA executable may contain: those the runtime can serve.

XLA itself serves what starts with two underscores, through cuBLAS, cuDNN and CUB; jax's own kernels
are in the plugin's wheel, which the runtime registers before it loads such an executable.
"""

from __future__ import annotations

from aotc_runtime.schema.served_kernels import CUDA_BUILT_IN, cuda_module

SERVED = "cuBLAS, cuDNN, cuSOLVER, TopK, and jax's kernels for random numbers and linear algebra"


def is_allowed(target: str) -> bool:
    """Whether the runtime can serve this target on a CUDA device."""
    return target.startswith(CUDA_BUILT_IN) or cuda_module(target) is not None
