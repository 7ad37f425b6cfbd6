"""Files of tensors that say of their bytes what is not so."""

from typing import Any

import pytest

from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.formats.safetensors_reader import read_tensors

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
    with pytest.raises(BundleFormatError) as refused:
        read_tensors(memoryview(data), where="x")
    assert refused.value.code == code


def test_a_header_longer_than_its_file_is_refused() -> None:
    data = (2**20).to_bytes(8, "little") + one("F32", [0], 0)
    with pytest.raises(BundleFormatError) as refused:
        read_tensors(memoryview(data), where="x")
    assert refused.value.code == "AOTC-E131"
