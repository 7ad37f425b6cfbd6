"""Tensors of types that safetensors has no name for: stored as another type."""

from aotc_runtime.base.errors import refusal
from aotc_runtime.schema.bundle_manifest import DType

NAMED = (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2)
"""The types of 8 bits that safetensors has a name for."""

STORED_AS: dict[DType, str] = {
    DType.INT4: "I8",
    DType.UINT4: "U8",
    DType.COMPLEX128: "F64",
    **{dtype: "U8" for dtype in DType if dtype.value.startswith("float8_") and dtype not in NAMED},
}
"""Types that the format has no name for, and as what they are stored: a number of 4 bits in a byte
of its own, a complex128 as a last axis of two, the rest bit by bit. The file's metadata names the
tensors that are of such a type, under DTYPES_KEY, as a JSON object of tensor name to dtype."""

PARTS = 2
"""The parts of a complex number: real and imaginary."""


def extended_tensor(
    dtype: DType, spelled: str, shape: tuple[int, ...], where: str
) -> tuple[DType, tuple[int, ...]]:
    """Return the dtype and shape of a tensor that the file's metadata gives this dtype.

    `spelled` and `shape` are those of its header entry. Raises BundleFormatError (AOTC-E132).
    """
    stored = STORED_AS.get(dtype)
    if stored != spelled:
        expected = f"{dtype.value} stored as {stored or 'itself'}"
        raise refusal("AOTC-E132", where, spelled, expected=expected)
    if dtype is not DType.COMPLEX128:
        return dtype, shape
    if shape[-1:] != (PARTS,):
        expected = f"a last axis of {PARTS} for {dtype.value}"
        raise refusal("AOTC-E132", where, f"shape {list(shape)}", expected=expected)
    return dtype, shape[:-1]
