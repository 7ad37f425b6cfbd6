"""Piece of an array that each device of a mesh holds."""

from collections import Counter
from math import prod

import numpy as np
import pytest

from aotc_runtime.schema.bundle_manifest import Sharding
from aotc_runtime.schema.shard_layout import mesh_of, misfits, pieces, text, uneven_axis

SIZES = {"data": 2, "model": 2}


@pytest.mark.parametrize(
    ("sharding", "expected"),
    [
        ((("data",), ()), [(0, 4), (0, 4), (4, 8), (4, 8)]),
        ((("model",), ()), [(0, 4), (4, 8), (0, 4), (4, 8)]),
        ((("data", "model"), ()), [(0, 2), (2, 4), (4, 6), (6, 8)]),
        ((("model", "data"), ()), [(0, 2), (4, 6), (2, 4), (6, 8)]),
        ((), [(0, 8)] * 4),
    ],
)
def test_first_name_varies_slowest(sharding: Sharding, expected: list[tuple[int, int]]) -> None:
    found = pieces(mesh_of(SIZES), sharding, (8, 16))
    assert [rows for rows, _ in found] == expected
    assert all(columns == (0, 16) for _, columns in found)


@pytest.mark.parametrize(
    "sharding",
    [
        (("b",), (), ("a", "c")),
        ((), ("c", "a"), ("b",)),
        (("c", "b", "a"), (), ()),
        ((), (), ("c",)),
    ],
)
def test_pieces_cover_an_array_as_often_as_there_are_copies(sharding: Sharding) -> None:
    mesh = mesh_of({"a": 2, "b": 3, "c": 4})
    covered = np.zeros((24, 24, 24), int)
    every = pieces(mesh, sharding, covered.shape)
    for piece in every:
        covered[tuple(slice(*ends) for ends in piece)] += 1
    copies = 24 // prod(mesh.sizes[name] for names in sharding for name in names)
    assert (covered == copies).all()
    assert set(Counter(every).values()) == {copies}


def test_what_does_not_fit_is_found() -> None:
    assert [*misfits(SIZES, (("data",), ("data",)))] == [
        (1, "the axis data of the mesh a second time")
    ]
    assert [*misfits(SIZES, ((), ("modle",)))] == [(1, "no axis modle of the mesh")]
    assert uneven_axis(SIZES, ((), ("data", "model")), (3, 8)) is None
    assert uneven_axis(SIZES, ((), ("data", "model")), (3, 6)) == 1
    assert uneven_axis(SIZES, (("data",),), (0,)) == 0, "nothing is in no pieces"
    assert uneven_axis(SIZES, (), (3, 5)) is None


def test_shardings_are_short_for_people() -> None:
    assert text((("data",), (), ("model", "pipe"))) == "data, -, model*pipe"
