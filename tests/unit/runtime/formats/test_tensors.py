"""Reading safetensors strictly. The attacks are in tests/hostile; here, what is accepted."""

import json
import struct
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aotc.bundle.write.safetensors_writer import write_tensors
from aotc_runtime.formats.extended_tensors import STORED_AS
from aotc_runtime.formats.safetensors_reader import ALIGNMENT, DTYPES, read_tensors
from aotc_runtime.schema.bundle_manifest import DType


def tensors_file(header: dict[str, Any], data: bytes) -> memoryview:
    text = json.dumps(header).encode()
    return memoryview(struct.pack("<Q", len(text)) + text + data)


ARRAYS = st.dictionaries(
    st.text("abc/", min_size=1, max_size=4),
    st.tuples(
        st.sampled_from(["float32", "int8", "uint64", "bool", "complex64"]),
        st.lists(st.integers(0, 5), max_size=3),
    ).map(lambda item: np.ones(tuple(item[1]), item[0])),
    max_size=6,
)


@given(ARRAYS)
def test_what_the_toolchain_writes_reads_back(arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    data = memoryview(write_tensors(arrays, where="x"))
    found = read_tensors(data, where="x")
    assert found.keys() == arrays.keys()
    for name, info in found.items():
        assert (info.shape, info.dtype.value) == (arrays[name].shape, arrays[name].dtype.name)
        assert bytes(data[info.start : info.end]) == arrays[name].tobytes()
        if arrays[name].nbytes % ALIGNMENT == 0:
            assert info.start % ALIGNMENT == 0


@given(ARRAYS)
def test_the_reference_implementation_agrees(arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    from safetensors.numpy import load

    wanted = {name: array for name, array in arrays.items() if array.dtype != np.complex64}
    for name, array in load(write_tensors(wanted, where="x")).items():
        np.testing.assert_array_equal(array, wanted[name])


def test_metadata_is_allowed_and_is_no_tensor() -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
    }
    assert list(read_tensors(tensors_file(header, bytes(4)), where="x")) == ["a"]


def test_tensors_come_in_the_order_of_their_data() -> None:
    header = {
        "b": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]},
        "a": {"dtype": "U8", "shape": [1], "data_offsets": [2, 3]},
        "z": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]},
        "c": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
    }
    assert list(read_tensors(tensors_file(header, bytes(3)), where="x")) == ["z", "c", "b", "a"]


def test_types_narrower_than_a_byte_have_no_name() -> None:
    named = {dtype for dtype, _ in DTYPES.values()}
    assert named.isdisjoint({DType.INT4, DType.UINT4, DType.COMPLEX128})
    assert named.isdisjoint(STORED_AS) and {*named, *STORED_AS} == {*DType}
