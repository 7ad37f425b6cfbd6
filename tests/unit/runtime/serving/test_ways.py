"""The shapes of what is padded and cut."""

from __future__ import annotations

import pytest

from aotc_runtime.serving.ways import shapes_at


@pytest.mark.parametrize(
    ("axes", "profile", "shape"),
    [
        (("batch", 3), (8, 3), (5, 3)),
        (("2*batch", "batch+1"), (16, 9), (10, 6)),
        (("?", "batch"), (7, 8), (7, 5)),
        ((), (), ()),
    ],
)
def test_axes_follow_the_sizes_and_unknown_ones_the_profile(
    axes: tuple[int | str, ...], profile: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    assert shapes_at([axes], [profile], {"batch": 5}) == [shape]
