"""Weights in .npz files: the arrays that numpy reads, and nothing that is none."""

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.bundle.write.safetensors_writer import shards
from aotc.capture.checkpoint_tensors import open_weights
from aotc.capture.weight_files import WeightsFile
from aotc.config.manifest_specs import SourceFile, WeightsSpec
from tests.refusals import error_of

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "layer/w": np.arange(600_000, dtype=np.int64).reshape(600, 1000),
    "layer/b": np.float16([1, 2, 3]),
    "number": np.array(2.5),
    "none": np.zeros((0, 4), np.float32),
    "flags": np.array([True, False]),
    "pair": np.array([1 + 2j]),
    "one column": np.asfortranarray(np.ones((3, 1), np.float32)),
}


def member(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=True)
    return stream.getvalue()


def archive(path: Path, members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def opened(path: Path) -> dict[str, Any]:
    source = {"": SourceFile(path.name, path)}
    return open_weights(WeightsSpec(source=source), "weights.w.source")[1]


def test_what_is_written_of_a_file_is_what_its_arrays_would_give(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", allow_pickle=False, **ARRAYS)
    tensors = WeightsFile(SourceFile("w.npz", tmp_path / "w.npz"), "here").tensors()
    for limit in (0, 100, 2**30):
        stored = map(b"".join, shards(tensors, where="test", limit=limit))
        arrays = map(b"".join, shards(ARRAYS, where="test", limit=limit))
        assert [*stored] == [*arrays]


_TEXT = b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}\n"
NEGATIVE = b"\x93NUMPY\x01\x00" + len(_TEXT).to_bytes(2, "little") + _TEXT
F4 = member(np.ones((2, 3), np.float32))


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({"archive/data.pkl": b"x"}, "archive/data.pkl, as of torch.save"),
        ({".npy": F4}, ".npy, as of torch.save"),
        ({"w.npy": F4 + b"x"}, f"{len(F4) + 1} bytes"),
        ({"w.npy": F4[:-1]}, f"{len(F4) - 1} bytes"),
        ({"w.npy": b"no header"}, "another header"),
        ({"w.npy": NEGATIVE}, "(-1,)"),
        ({"w.npy": member(np.array([{}, 1], object))}, "object"),
        ({"w.npy": member(np.ones(3, ">f4"))}, ">f4"),
        ({"w.npy": member(np.asfortranarray(np.ones((2, 3))))}, "Fortran order"),
        ({"w.npy": member(np.ones(2, ml_dtypes.bfloat16))}, "|V2"),
        ({"w.npy": member(np.zeros(2, "f4,i4"))}, "[('f0', '<f4'), ('f1', '<i4')]"),
        ({"w.npy": member(np.array(["text"]))}, "<U4"),
        ({"../w.npy": F4}, "'../w.npy'"),
    ],
)
def test_other_files_are_named(members: Mapping[str, bytes], found: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "w.npz", members)
    (finding,) = error_of(CaptureError, opened, path).findings
    assert (finding.code, finding.found) == ("AOTC-E830", f"w.npz: {found}")


def compressed(path: Path) -> None:
    np.savez_compressed(path, w=np.ones(100))


def spoiled(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"\x00\x00\x80?")] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("spoil", [compressed, spoiled])
def test_damaged_or_compressed_file_fails(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", w=np.ones(100, np.float32))
    spoil(tmp_path / "w.npz")
    assert error_of(CaptureError, opened, tmp_path / "w.npz").code == "AOTC-E830"
