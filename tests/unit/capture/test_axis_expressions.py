"""A size by trial is recovered exactly where it is multilinear; any other is "?"."""

from collections.abc import Callable
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc.capture import leaf_axes

NAMES = ("batch", "heads", "seq")
SUBSETS = [
    tuple(name for name, used in zip(NAMES, chosen, strict=True) if used)
    for chosen in product((False, True), repeat=3)
]


def sizes(function: Callable[[dict[str, int]], int], points: list[leaf_axes.Point]) -> dict:
    return {point: function(dict(zip(NAMES, point, strict=True))) for point in points}


@given(
    coefficients=st.lists(st.integers(-9, 9), min_size=8, max_size=8),
    lows=st.tuples(*[st.integers(1, 40)] * 3),
    widths=st.tuples(*[st.integers(1, 40)] * 3),
    further=st.lists(st.tuples(*[st.integers(1, 99)] * 3), max_size=4),
)
def test_every_multilinear_size_is_recovered(
    coefficients: list[int],
    lows: leaf_axes.Point,
    widths: leaf_axes.Point,
    further: list[leaf_axes.Point],
) -> None:
    def size(at: dict[str, int]) -> int:
        return sum(c * prod(at[n] for n in s) for c, s in zip(coefficients, SUBSETS, strict=True))

    box = {n: (low, low + w) for n, low, w in zip(NAMES, lows, widths, strict=True)}
    found = leaf_axes.expression(NAMES, box, sizes(size, [*leaf_axes.corners(box), *further]))
    for point in [*further, lows]:
        at = dict(zip(NAMES, point, strict=True))
        assert eval(str(found), {}, at) == size(at), found


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ({(1,): 1, (3,): 9, (4,): 16}, "?"),
        ({(1,): 1, (3,): 2}, "?"),
        ({(1,): 1}, "?"),
        ({(1,): 7, (3,): 7}, 7),
    ],
    ids=["another point contradicts", "a fractional slope", "a missing corner", "a constant"],
)
def test_a_size_of_one_dimension(sizes: dict[leaf_axes.Point, int], found: int | str) -> None:
    assert leaf_axes.expression(("batch",), {"batch": (1, 3)}, sizes) == found
