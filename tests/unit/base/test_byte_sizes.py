"""Sizes as people write them."""

import pytest

from aotc.base.byte_sizes import bytes_of
from aotc_runtime.schema.pytrees import INTEGER_MAX


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (1, 1),
        (INTEGER_MAX, INTEGER_MAX),
        ("1 B", 1),
        ("2 GiB", 2 << 30),
        ("3kB", 3000),
        (0, None),
        (-1, None),
        (INTEGER_MAX + 1, None),
        (True, None),
        (1.0, None),
        ("0 B", None),
        ("1", None),
        ("1  kB", None),
        ("1 XB", None),
        ("999999999999999999 TiB", None),
    ],
)
def test_bytes_are_a_number_or_a_text_with_a_unit(value: object, found: int | None) -> None:
    assert bytes_of(value) == found
