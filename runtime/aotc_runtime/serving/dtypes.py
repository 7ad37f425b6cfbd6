"""numpy dtypes by the names in a manifest; ml_dtypes is imported only for types numpy lacks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from aotc_runtime.schema.manifest import DType

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
