"""Types of arrays in IREE's words."""

from __future__ import annotations

import numpy as np

from aotc_runtime.engines.iree import iree_device


def test_types_are_told_in_the_words_of_a_modules_declaration() -> None:
    assert iree_device.tensor_word((4, 8), np.dtype("float32")) == "4x8xf32"
    assert iree_device.tensor_word((), np.dtype("uint8")) == "i8"
    assert iree_device.tensor_word((2,), np.dtype("complex128")) == "2xcomplex128"
