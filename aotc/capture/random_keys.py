"""Typed random keys: arrays of keys to the user's function, plain uint32 arrays to the module.

The last axis of such an array holds the words of a key. jax can lower typed keys too, but puts a
sharding constraint on each that enters or leaves the module, which no portable artifact may have.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from aotc_runtime.schema.bundle_manifest import KeyImpl
from aotc_runtime.schema.tensor_text import key_words


@cache
def dtype_of(impl: KeyImpl) -> Any:
    """Return jax's dtype of keys of this implementation, such as `key<fry>`."""
    return jax.eval_shape(lambda: jax.random.key(0, impl=impl.value)).dtype


def impl_of(leaf: Any) -> KeyImpl | None:
    """Return the implementation of a concrete or abstract array of keys.

    None for anything else, and for implementations that the bundle format does not know.
    """
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return None
    return next((impl for impl in KeyImpl if dtype_of(impl) == dtype), None)


def data_aval(aval: Any) -> Any:
    """Return the shape and dtype of an array of keys as data; anything else unchanged."""
    impl = impl_of(aval)
    if impl is None:
        return aval
    return jax.ShapeDtypeStruct((*aval.shape, key_words(impl)), jnp.uint32)


def key_avals(data: Any, impls: Sequence[KeyImpl | None]) -> Any:
    """Invert `data_aval` for a pytree; `impls` has one for each leaf, None for what is not keys."""
    leaves, structure = jax.tree.flatten(data)
    avals = (
        leaf if impl is None else jax.ShapeDtypeStruct(leaf.shape[:-1], dtype_of(impl))
        for leaf, impl in zip(leaves, impls, strict=True)
    )
    return jax.tree.unflatten(structure, avals)


def as_keys(data: Any, aval: Any) -> Any:
    """Data as an array of keys where `aval` is one; anything else unchanged."""
    impl = impl_of(aval)
    return data if impl is None else jax.random.wrap_key_data(data, impl=impl.value)


def data_of(leaf: Any) -> Any:
    """Return the data of an array of keys; anything else unchanged."""
    return leaf if impl_of(leaf) is None else jax.random.key_data(leaf)
