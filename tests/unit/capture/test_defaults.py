"""Values that a bundle manifest tells of are told alike by every process."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest

from aotc.capture.import_program import text_of


class Thing:
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.5"),
        ("a", "'a'"),
        (None, "None"),
        ((1, "b", [True]), "(1, 'b', [True])"),
        (np.tanh, "numpy.tanh"),
        (Thing, f"{__name__}.Thing"),
        (Thing(), f"a {__name__}.Thing"),
        (functools.partial(print, 1), "a functools.partial"),
        (np.float32, "numpy.float32"),
    ],
)
def test_a_value_has_one_text(value: Any, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize("value", [jax.nn.relu, jax.nn.gelu, jax.jit(lambda x: x), Thing()])
def test_no_address_is_in_it(value: Any) -> None:
    assert " at 0x" not in text_of(value)
