"""Plans of long sums: that they sum each number once, and none of many numbers at once."""

from math import prod

import numpy as np
import pytest

from aotc.compile.mlir import long_sums

SUMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]] = {
    "a short axis": ((3, 256, 2), (1,), 1),
    "a long one": ((1_000_000,), (0,), 3),
    "a prime number": ((2, 1009, 3), (1,), 2),
    "two axes that are neighbors": ((1024, 1024), (0, 1), 3),
    "two that are not": ((1000, 2, 1000), (0, 2), 3),
    "an image": ((2, 112, 112, 3), (1, 2), 2),
    "an image of small axes": ((2, 7, 5, 3), (1, 2), 1),
    "axes of one": ((1, 600, 1, 5), (0, 1, 2), 2),
    "all of many": ((300, 4, 5, 6, 7), (0, 1, 2, 3, 4), 3),
    "none": ((3, 4), (), 1),
}


@pytest.mark.parametrize("name", SUMS)
def test_plan_sums_each_number_once_in_few_terms(name: str) -> None:
    shape, axes, count = SUMS[name]
    value = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    expected = value.sum(axes)
    steps = long_sums.plan(shape, axes)
    for step in steps:
        value = value.reshape(step.shape)
        behind = [(0, after - size) for size, after in zip(step.shape, step.padded, strict=True)]
        value = np.pad(value, behind).reshape(step.cut)
        assert prod(step.cut[axis] for axis in step.axes) <= long_sums.TERMS_MAX
        value = value.sum(step.axes)
    assert np.array_equal(value, expected)
    assert len(steps) == count


def test_plan_pads_an_axis_only_where_no_divisor_is_large() -> None:
    (first, *_) = long_sums.plan((3, 100_000), (1,))
    assert first.padded == first.shape
    (first, *_) = long_sums.plan((3, 100_003), (1,))
    assert first.padded[1] - first.shape[1] < 100_003 / long_sums.TERMS_MAX
