"""Weights files that are read while they are written elsewhere."""

import os
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.bundle.write.safetensors_writer import shards, write_tensors
from aotc.capture.weight_files import WeightsFile
from aotc.config.build_manifest import SourceFile
from aotc_runtime.base.digest import sha256
from tests.refusals import error_of

TENSORS = {
    "large": np.arange(600_000, dtype=np.int64),
    "odd": np.ones((3, 5), ml_dtypes.bfloat16),
    "number": np.float32(2),
    "none": np.zeros((0, 4), np.float32),
    "pair": np.array([1 + 2j]),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "w.safetensors").write_bytes(write_tensors(TENSORS, where="test"))
    os.utime(tmp_path / "w.safetensors", (0, 0))
    return tmp_path / "w.safetensors"


def opened(path: Path) -> WeightsFile:
    return WeightsFile(SourceFile(path.name, path), "weights.w.source")


def test_what_is_written_of_a_file_is_what_its_arrays_would_give(path: Path) -> None:
    tensors = opened(path).tensors()
    for limit in (0, 100, 2**30):
        stored = map(b"".join, shards(tensors, where="test", limit=limit))
        arrays = map(b"".join, shards(TENSORS, where="test", limit=limit))
        assert [*stored] == [*arrays]


def cut_short(path: Path) -> None:
    os.truncate(path, 1000)


def written_into(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")


@pytest.mark.parametrize("change", [cut_short, written_into])
def test_file_changed_after_opening_is_refused(path: Path, change: Callable[[Path], None]) -> None:
    file = opened(path)
    change(path)
    for ask in (file.digest, file.require_unchanged):
        (finding,) = error_of(CaptureError, ask).findings
        assert (finding.code, finding.where) == ("AOTC-E840", "weights.w.source")


def test_a_tensor_that_is_cut_off_while_it_is_read_is_refused(path: Path) -> None:
    tensors = opened(path).tensors()
    cut_short(path)
    refused = error_of(CaptureError, b"".join, *shards({"large": tensors["large"]}, where="test"))
    assert refused.code == "AOTC-E840"


def test_what_its_header_says_is_what_the_file_says_that_was_opened(path: Path) -> None:
    """Another model may have taken its name meanwhile, with tensors at other places."""
    file = opened(path)
    path.with_name("new").write_bytes(write_tensors({"other": np.zeros(7)}, where="test"))
    path.with_name("new").rename(path)
    tensors = file.tensors()
    assert tensors.keys() == TENSORS.keys()
    written = map(b"".join, shards(tensors, where="test"))
    assert [*written] == [*map(b"".join, shards(TENSORS, where="test"))]


def test_a_file_that_is_cut_before_its_header_is_read_has_changed(path: Path) -> None:
    file = opened(path)
    os.truncate(path, 10)
    assert error_of(CaptureError, file.tensors).code == "AOTC-E840"


def test_a_file_that_is_replaced_is_read_to_its_end(path: Path) -> None:
    file, before = opened(path), path.read_bytes()
    path.with_name("new").write_bytes(b"other")
    path.with_name("new").rename(path)
    assert file.digest() == sha256(before)
