"""A size by trial is recovered exactly where it is multilinear; any other is "?"."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod

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


@given(st.integers(1, 5), st.integers(6, 9))
def test_a_size_that_another_point_contradicts_is_unknown(low: int, high: int) -> None:
    box = {"batch": (low, high)}
    points = {(low,): low**2, (high,): high**2, (high + 1,): (high + 1) ** 2}
    assert leaf_axes.expression(("batch",), box, points) == "?"


def test_a_fractional_slope_is_unknown() -> None:
    assert leaf_axes.expression(("batch",), {"batch": (1, 3)}, {(1,): 1, (3,): 2}) == "?"


def test_a_missing_corner_is_unknown() -> None:
    assert leaf_axes.expression(("batch",), {"batch": (1, 3)}, {(1,): 1}) == "?"


def test_a_constant_is_a_number() -> None:
    assert leaf_axes.expression(("batch",), {"batch": (1, 3)}, {(1,): 7, (3,): 7}) == 7
