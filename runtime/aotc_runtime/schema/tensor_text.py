"""Tensors of an entry point as text, for errors and reports."""

from collections.abc import Sequence

from aotc_runtime.schema.bundle_manifest import KeyImpl, TensorSpec

KEY_DTYPES = {
    KeyImpl.THREEFRY2X32: "key<fry>",
    KeyImpl.RBG: "key<rbg>",
    KeyImpl.UNSAFE_RBG: "key<urbg>",
}
"""Dtypes of typed random keys by implementation, as jax writes them."""


def key_words(impl: KeyImpl) -> int:
    """Return how many 32-bit numbers a random key has."""
    return 2 if impl is KeyImpl.THREEFRY2X32 else 4


def tensor_text(spec: TensorSpec) -> str:
    """float32[batch, 64]; key<fry>[batch] for random keys."""
    if spec.key_impl is not None:
        return _text(KEY_DTYPES[spec.key_impl], spec.shape[:-1])
    return _text(spec.dtype.value, spec.shape)


def data_text(spec: TensorSpec) -> str:
    """Return the array of a call: for key<fry>[batch] its data, uint32[batch, 2]."""
    text = _text(spec.dtype.value, spec.shape)
    return text if spec.key_impl is None else f"{text}, data of {tensor_text(spec)}"


def _text(dtype: str, shape: Sequence[int | str]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"
