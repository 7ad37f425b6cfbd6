"""Types of elements: numpy's, MLIR's words for them where a module is called, IREE's numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Element(NamedTuple):
    """word: MLIR's, without signs.  number: IREE's (`iree_hal_element_types_t`).  stored: a numpy
    dtype of the same bytes whose arrays can be handed to IREE.
    """

    word: str
    number: int
    stored: np.dtype[Any]


def _element(word: str, number: int, stored: str) -> Element:
    return Element(word, number, np.dtype(stored))


ELEMENTS = {
    "bool": _element("i1", 0x13000008, "bool"),
    **{
        f"{sign}int{bits}": _element(f"i{bits}", 0x10000000 + bits, f"{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "float16": _element("f16", 0x21000010, "float16"),
    "bfloat16": _element("bf16", 0x22000010, "uint16"),
    "float32": _element("f32", 0x21000020, "float32"),
    "float64": _element("f64", 0x21000040, "float64"),
    "complex64": _element("complex<f32>", 0x23000040, "complex64"),
}
"""By the name of the numpy dtype. IREE compares bits, so integers of both signs are the same."""


def element(dtype: np.dtype[Any]) -> Element | None:
    """The element of a numpy dtype; None for one that this engine does not run."""
    return ELEMENTS.get(dtype.name)


def tensor_word(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """An array's type as a module's declaration has it, "4x8xf32"."""
    known = element(dtype)
    word = dtype.name if known is None else known.word
    return "x".join([*map(str, shape), word])
