"""Tensors as numpy arrays: the dtypes of a manifest, verified safetensors blobs as views over their
bytes, and weights sets that lie in several blobs. ml_dtypes is imported only for types that numpy
lacks.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from aotc_runtime.formats.tensors import TensorInfo, read_tensors
from aotc_runtime.schema.manifest import DType, WeightSet
from aotc_runtime.verification.verify import VerifiedBlob, VerifiedBundle

Array = np.ndarray[Any, Any]
Tensor = tuple[str, DType, tuple[int, ...]]
"""Name, element type and shape."""

_EXTENDED = frozenset(
    dtype
    for dtype in DType
    if dtype in (DType.BFLOAT16, DType.INT4, DType.UINT4) or dtype.value.startswith("float8_")
)


@cache
def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy dtype of a manifest's dtype."""
    if dtype in _EXTENDED:
        import ml_dtypes

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype.value))
        return extended
    return np.dtype(dtype.value)


def tensor_views(blob: VerifiedBlob, where: str) -> dict[str, tuple[Array, TensorInfo]]:
    """The tensors of a verified safetensors blob, as views over its bytes.

    Raises BundleFormatError (AOTC-E131 to E133).
    """
    views = {}
    for name, info in read_tensors(blob.data, where=where).items():
        flat = np.frombuffer(blob.data[info.start : info.end], numpy_dtype(info.dtype))
        views[name] = (flat.reshape(info.shape), info)
    return views


def weight_arrays(bundle: VerifiedBundle, name: str, weights: WeightSet) -> dict[str, Array]:
    """The tensors of a weights set, which are exactly those that the manifest lists.

    Raises BundleFormatError: AOTC-E117 others, E131 to E133 no safetensors.
    """
    where = f"weights {name}"
    arrays: dict[str, Array] = {}
    found: list[Tensor] = []
    for ref in weights.blobs:
        for tensor, (array, info) in tensor_views(bundle.blob(ref), where).items():
            arrays[tensor] = array
            found.append((tensor, info.dtype, info.shape))
    declared = [(tensor.name, tensor.dtype, tensor.shape) for tensor in weights.tensors]
    if found != declared:
        from aotc_runtime.serving.refusals import other_tensors

        raise other_tensors(where, declared, found)
    return arrays
