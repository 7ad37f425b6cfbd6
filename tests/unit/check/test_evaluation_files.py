"""Evaluation data are cut into the calls that a bundle serves."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from aotc.base.errors import CaptureError
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.check.evaluation_files import (
    LABELS,
    Block,
    Prepared,
    block_file,
    cut,
    read_results,
    write_results,
)


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

    assert prepared("batch", "batch", "seq").counts(Block(9, {"seq": 0}), profiles) is None


def test_a_batch_has_the_samples_of_its_call(tmp_path: Path) -> None:
    arrays = {"x": np.arange(6), "scale": np.ones(6), LABELS: np.arange(6)}
    block_file(tmp_path, "f", 0).write_bytes(write_tensors(arrays, where="f"))
    for axis, sizes in (("batch", {"batch": 3}), (3, {})):
        made = replace(prepared(axis), counted=("x",), blocks=(Block(6, {}),))
        _, batch = made.batches(tmp_path, [{"batch": 3}], "f")
        assert (batch.inputs["x"].tolist(), batch.labels.tolist()) == ([3, 4, 5], [3, 4, 5])
        assert (batch.inputs["scale"].size, batch.sizes, batch.samples) == (6, sizes, 3)
    for sizes, found in (({}, "5 samples"), ({"seq": 2}, "5 samples at seq=2")):
        made = replace(prepared("batch"), blocks=(Block(5, sizes),))
        with pytest.raises(CaptureError) as refused:
            next(made.batches(tmp_path, [{"batch": 3, "seq": 2}], "f"))
        assert refused.value.findings[0].found == found


def test_read_results_gives_what_was_written(tmp_path: Path) -> None:
    results = [(np.eye(n, 3), np.arange(n)) for n in (8, 2)]
    write_results(tmp_path, "target", "f", iter(results))
    found = [*read_results(tmp_path, "target", "f")]
    assert [[each.tolist() for each in pair] for pair in found] == [
        [each.tolist() for each in pair] for pair in results
    ]


def test_a_fixed_number_of_samples_is_never_padded() -> None:
    assert prepared(4).counts(Block(8, {}), [{}]) == [4, 4]
    assert prepared(4, "batch").counts(Block(9, {}), [{}]) is None
