"""Arrays of a jax that the server itself imported; nothing here imports it."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc_runtime.base.errors import refusal
from aotc_runtime.schema.bundle_manifest import TensorSpec
from aotc_runtime.schema.tensor_text import KEY_DTYPES


def is_jax(value: Any) -> bool:
    """Return whether a value is a jax array."""
    array = getattr(sys.modules.get("jax"), "Array", None)
    return array is not None and isinstance(value, array)


def without_key_type(value: Any, spec: TensorSpec, where: str) -> Any:
    """Return the data of a jax array of typed random keys; any other jax array as it is.

    Raises ShapeError (AOTC-E606) for keys where the input takes none, or those of another
    implementation, which would read other words into the same data.
    """
    jax = sys.modules["jax"]
    if not jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return value
    if spec.key_impl is not None and jax.random.key_impl(value) == spec.key_impl.value:
        return jax.random.key_data(value)
    expected = spec.dtype.value
    hint = "pass `jax.random.key_data(key)`, an array of uint32"
    if spec.key_impl is not None:
        expected = KEY_DTYPES[spec.key_impl]
        hint = f"make the key with `jax.random.key(seed, impl='{spec.key_impl.value}')`"
    raise refusal("AOTC-E606", where, str(value.dtype), expected=expected, hint=hint)


def to_jax(arrays: Sequence[np.ndarray[Any, Any]], specs: Sequence[TensorSpec]) -> list[Any]:
    """Return numpy arrays as jax arrays, and key data as typed keys.

    Arrays that jax's settings would narrow stay numpy arrays.
    """
    return [_to_jax(array, spec) for array, spec in zip(arrays, specs, strict=True)]


def _to_jax(array: np.ndarray[Any, Any], spec: TensorSpec) -> Any:
    jax = sys.modules["jax"]
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        return array
    if spec.key_impl is not None:
        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=spec.key_impl.value)
    return jax.numpy.asarray(array)
