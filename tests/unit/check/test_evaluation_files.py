"""Evaluation data are cut into the calls that a bundle serves."""

from __future__ import annotations

import pytest

from aotc.check.evaluation_files import Block, Prepared, cut


@pytest.mark.parametrize(
    ("samples", "sizes", "pads", "expected"),
    [
        (129, [1, 8, 64], False, [64, 64, 1]),
        (13, [1, 8], False, [8, 1, 1, 1, 1, 1]),
        (16, [8], False, [8, 8]),
        (13, [8], False, None),
        (13, [8], True, [8, 5]),
        (5, [8], True, [5]),
        (0, [8], False, []),
    ],
)
def test_samples_are_cut_into_batches_or_refused(
    samples: int, sizes: list[int], pads: bool, expected: list[int] | None
) -> None:
    assert cut(samples, sizes, pads=pads) == expected


def prepared(axis: int | str, *pads: str) -> Prepared:
    return Prepared("f", "", "top1", 0, axis, (), pads, (), "", "")


def test_only_profiles_of_the_other_sizes_serve_a_block() -> None:
    profiles = [{"batch": 8, "seq": 16}, {"batch": 1, "seq": 16}, {"batch": 4, "seq": 32}]
    assert prepared("batch").counts(Block(9, {"seq": 16}), profiles) == [8, 1]
    assert prepared("batch").counts(Block(8, {"seq": 32}), profiles) == [4, 4]
    assert prepared("batch").counts(Block(9, {"seq": 32}), profiles) is None
    assert prepared("batch", "batch").counts(Block(9, {"seq": 64}), profiles) is None


def test_profiles_that_a_block_is_padded_to_serve_it() -> None:
    profiles = [{"batch": 8, "seq": 16}, {"batch": 1, "seq": 16}, {"batch": 4, "seq": 32}]
    assert prepared("batch", "seq").counts(Block(9, {"seq": 3}), profiles) == [8, 1]
    assert prepared("batch", "seq").counts(Block(9, {"seq": 17}), profiles) is None
    assert prepared("batch", "batch", "seq").counts(Block(9, {"seq": 17}), profiles) == [4, 4, 1]
    assert prepared("batch", "batch", "seq").counts(Block(9, {"seq": 33}), profiles) is None


def test_a_fixed_number_of_samples_is_never_padded() -> None:
    assert prepared(4).counts(Block(8, {}), [{}]) == [4, 4]
    assert prepared(4, "batch").counts(Block(9, {}), [{}]) is None
