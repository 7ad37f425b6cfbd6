"""Files of tensors that say of their bytes what is not so."""

import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from aotc.capture.fixture_inputs import read_npz
from aotc.capture.weight_files import Damaged, WeightsFile
from aotc.config.manifest_specs import SourceFile
from aotc.report.array_files import read_arguments
from aotc_runtime.base.errors import AotcError, BundleFormatError
from aotc_runtime.formats.safetensors_reader import read_tensors
from tests.refusals import error_of

from .tampering import to_json


def tensor(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def typed(dtypes: str, entry: Any) -> bytes:
    """A header whose metadata says of what type its one tensor is."""
    return to_json({"__metadata__": {"aotc.dtypes": dtypes}, "a": entry})


def one(dtype: str, shape: list[int], size: int) -> bytes:
    return to_json({"a": tensor(dtype, shape, 0, size)})


F32 = tensor("F32", [1], 0, 4)
TWICE = b'{"a":' + to_json(F32) + b',"a":' + to_json(F32) + b"}"


@pytest.mark.parametrize(
    ("header", "size", "code"),
    [
        (b"", 0, "AOTC-E131"),
        (b" " + to_json({"a": F32}), 4, "AOTC-E131"),
        (TWICE, 4, "AOTC-E131"),
        (to_json({"__metadata__": {"a": 1}, "a": F32}), 4, "AOTC-E131"),
        (typed('{"a":"int4","a":"int4"}', tensor("I8", [4], 0, 4)), 4, "AOTC-E131"),
        (typed('{"b":"int4"}', F32), 4, "AOTC-E131"),
        (typed('{"a":"int4"}', F32), 4, "AOTC-E132"),
        (typed('{"a":"complex128"}', tensor("F64", [1], 0, 8)), 8, "AOTC-E132"),
        (one("F16X", [1], 4), 4, "AOTC-E132"),
        (one("F32", [1] * 65, 4), 4, "AOTC-E132"),
        (one("F32", [-1, -1], 4), 4, "AOTC-E132"),
        (one("F32", [0, 2**40, 2**40], 0), 0, "AOTC-E132"),
        (one("F32", [2], 4), 4, "AOTC-E132"),
        (to_json({"a": F32, "b": tensor("F32", [1], 2, 6)}), 6, "AOTC-E133"),
        (to_json({"a": F32}), 5, "AOTC-E133"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(header: bytes, size: int, code: str) -> None:
    data = len(header).to_bytes(8, "little") + header + bytes(size)
    assert error_of(BundleFormatError, read_tensors, memoryview(data), where="x").code == code


def test_a_header_longer_than_its_file_is_refused() -> None:
    data = (2**20).to_bytes(8, "little") + one("F32", [0], 0)
    refused = error_of(BundleFormatError, read_tensors, memoryview(data), where="x")
    assert refused.code == "AOTC-E131"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "{'descr': ((('<f4', 'fortran_order': False, 'shape': (4,), }",
        "{'descr': ('<f4',), 'fortran_order': False, 'shape': (4,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (04L,), }",
        "(" * 5000,
    ],
    ids=["bytes", "unfinished", "descr", "number", "deep"],
)
def test_what_numpy_cannot_read_is_refused_by_every_reader_of_arrays(
    header: str | None, tmp_path: Path
) -> None:
    """numpy evaluates headers as Python, whose parser and tokenizer have errors of their own."""
    file = SourceFile("a.npz", tmp_path / "a.npz")
    with zipfile.ZipFile(file.path, "w") as archive:
        size = struct.pack("<H", len(header or ""))
        data = b"\x93NUMPY\x01\0" + size + header.encode() + bytes(16) if header else b"text"
        archive.writestr("a.npy", data)
    for read in (
        lambda: read_npz(file, "m.toml", "AOTC-E831", ("", "fixtures-file-is-invalid")),
        lambda: read_arguments([f"@{file.path}"], "--input"),
    ):
        error_of(AotcError, read)
    with pytest.raises(Damaged):
        WeightsFile(file, "m.toml").tensors()


def test_a_file_of_arrays_that_goes_before_it_is_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AotcError, match="No such file"):
        read_npz(
            SourceFile("a.npz", tmp_path / "a.npz"),
            "m.toml",
            "AOTC-E831",
            ("", "fixtures-file-is-invalid"),
        )
