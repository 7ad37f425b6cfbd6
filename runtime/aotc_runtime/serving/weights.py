"""Verified safetensors blobs as arrays over their bytes, and weights sets that lie in several."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from aotc_runtime.errors import AotcError, refusal
from aotc_runtime.formats.tensors import TensorInfo, read_tensors
from aotc_runtime.schema.manifest import DType, WeightSet
from aotc_runtime.schema.proof import VerifiedBlob, VerifiedBundle
from aotc_runtime.serving.dtypes import numpy_dtype

Array = np.ndarray[Any, Any]
Tensor = tuple[str, DType, tuple[int, ...]]
"""Name, element type and shape."""


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
        raise _differs(where, declared, found)
    return arrays


def _differs(where: str, declared: Sequence[Tensor], found: Sequence[Tensor]) -> AotcError:
    pairs = enumerate(zip_longest(declared, found))
    place, (wanted, given) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
    return refusal(
        "AOTC-E117", f"{where}, tensor {place + 1}", _text(given), expected=_text(wanted)
    )


def _text(tensor: Tensor | None) -> str:
    if tensor is None:
        return "no more tensors"
    name, dtype, shape = tensor
    return f"{name}: {dtype.value}{list(shape)}"
