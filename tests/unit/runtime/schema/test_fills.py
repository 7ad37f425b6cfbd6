"""Numbers that padding is filled with."""

import math

import pytest

from aotc_runtime.schema.bundle_manifest import DType
from aotc_runtime.schema.fill_numbers import parse_fill


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("0", DType.FLOAT32, 0.0),
        ("-1e9", DType.BFLOAT16, -1e9),
        ("inf", DType.FLOAT8_E5M2, math.inf),
        ("True", DType.BOOL, True),
        ("0", DType.BOOL, False),
        ("255", DType.UINT8, 255),
        ("-8", DType.INT4, -8),
        ("1j", DType.COMPLEX64, 1j),
    ],
)
def test_a_number_is_read_as_its_dtype_takes_it(text: str, dtype: DType, value: complex) -> None:
    assert parse_fill(text, dtype) == value


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("", DType.FLOAT32),
        ("zero", DType.FLOAT32),
        ("2", DType.BOOL),
        ("256", DType.UINT8),
        ("-1", DType.UINT4),
        ("8", DType.INT4),
        ("1.5", DType.INT32),
        ("nan", DType.INT32),
        ("inf", DType.FLOAT8_E4M3FN),
    ],
)
def test_what_the_dtype_cannot_hold_is_refused(text: str, dtype: DType) -> None:
    with pytest.raises(ValueError):
        parse_fill(text, dtype)
