"""Tensors of the protocol as numpy, and back: exact, or refused."""

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aotc_runtime.base.errors import ServerError
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import DType
from aotc_serve.inference.inference_requests import refuse_large
from aotc_serve.inference.protocol_tensors import (
    BYTES_WITHIN,
    Port,
    datatype_of,
    from_bytes,
    from_json,
    to_bytes,
    to_json,
)
from tests.refusals import error_of

from ..samples import refused

RANDOM = np.random.default_rng(0)


def port(dtype: DType) -> Port:
    return Port("x", datatype_of(dtype), numpy_dtype(dtype), (-1, 2), BYTES_WITHIN.get(dtype))


def sample(dtype: DType) -> np.ndarray[Any, Any]:
    low, high = (0, 2) if dtype is DType.BOOL else (1, 8)
    values = RANDOM.integers(low, high, (3, 2))
    return values.astype(numpy_dtype(dtype))


def test_the_protocols_names_are_used_for_what_it_has() -> None:
    names = {dtype: datatype_of(dtype) for dtype in DType}
    assert names[DType.BFLOAT16] == "BF16" and names[DType.FLOAT16] == "FP16"
    assert names[DType.INT64] == "INT64" and names[DType.UINT8] == "UINT8"
    assert names[DType.BOOL] == "BOOL" and len(set(names.values())) == len(names)


@pytest.mark.parametrize("dtype", DType)
def test_binary_data_of_every_type_come_back_to_the_bit(dtype: DType) -> None:
    array = sample(dtype)
    data = bytes(to_bytes(array))
    assert data == array.tobytes()
    back = from_bytes(port(dtype), [3, 2], data)
    assert back.dtype is numpy_dtype(dtype) and back.tobytes() == data


@pytest.mark.parametrize(
    "dtype", [dtype for dtype in DType if not dtype.value.startswith("complex")]
)
def test_json_of_every_type_that_json_has_comes_back(dtype: DType) -> None:
    array = sample(dtype)
    values = json.loads(to_json(port(dtype), array))
    back = from_json(port(dtype), [3, 2], json.dumps(values).encode())
    assert back.dtype is numpy_dtype(dtype) and back.tobytes() == array.tobytes()
    rows = np.array(values, object).reshape(3, 2).tolist()
    assert from_json(port(dtype), [3, 2], json.dumps(rows).encode()).tobytes() == back.tobytes()


def test_an_aligned_tensor_is_a_view_and_another_one_a_copy() -> None:
    room = np.zeros(72, np.uint8)
    start = -room.ctypes.data % 8
    view = from_bytes(port(DType.FLOAT32), [4], room[start : start + 16].data)
    assert np.shares_memory(view, room)
    copy = from_bytes(port(DType.FLOAT32), [4], room[start + 1 : start + 17].data)
    assert not np.shares_memory(copy, room) and copy.flags.aligned


BAD_JSON: dict[str, tuple[DType, str]] = {
    "a fraction as an integer": (DType.INT32, "[1.5, 2]"),
    "a number that int8 does not hold": (DType.INT8, "[300, 1]"),
    "a negative number as uint": (DType.UINT8, "[-1, 1]"),
    "more than uint64 holds": (DType.UINT64, "[18446744073709551616, 1]"),
    "more than int4 holds": (DType.INT4, "[8, 1]"),
    "more than float16 holds": (DType.FLOAT16, "[70000, 1]"),
    "more than float32 holds": (DType.FLOAT32, "[1e39, 1]"),
    "more than float8 holds": (DType.FLOAT8_E4M3FN, "[1e9, 1]"),
    "a number as a truth value": (DType.BOOL, "[1, 0]"),
    "a truth value as a number": (DType.FLOAT32, "[true, 0]"),
    "a text": (DType.FLOAT32, '["1", "2"]'),
    "null": (DType.FLOAT32, "[null, 1]"),
    "NaN": (DType.FLOAT32, "[NaN, 1]"),
    "one too few": (DType.FLOAT32, "[1]"),
    "one too many": (DType.FLOAT32, "[1, 2, 3]"),
    "nested otherwise": (DType.FLOAT32, "[[1], [2]]"),
    "ragged": (DType.FLOAT32, "[[1, 2], [3]]"),
    "too deep": (DType.FLOAT32, "[" * 5000 + "]" * 5000),
    "no list": (DType.FLOAT32, "1"),
    "an object": (DType.FLOAT32, "{}"),
    "complex": (DType.COMPLEX64, "[1, 2]"),
}


@pytest.mark.parametrize(("dtype", "text"), BAD_JSON.values(), ids=BAD_JSON.keys())
def test_json_that_is_not_exactly_the_tensor_is_refused(dtype: DType, text: str) -> None:
    with refused("AOTC-E761"):
        from_json(port(dtype), [1, 2], text.encode())


BAD_BYTES: dict[str, tuple[DType, list[int], bytes]] = {
    "too few": (DType.FLOAT32, [2], b"\0" * 7),
    "too many": (DType.FLOAT32, [2], b"\0" * 9),
    "a shape beyond all memory": (DType.FLOAT32, [2**40, 2**40], b"\0" * 8),
    "nothing, of a shape that numpy has not": (DType.FLOAT32, [0, 2**40, 2**40], b""),
    "a truth value of 2": (DType.BOOL, [2], b"\1\2"),
    "an int4 of 8": (DType.INT4, [2], b"\1\10"),
    "an int4 of -9": (DType.INT4, [2], b"\1\xf7"),
    "a uint4 of 16": (DType.UINT4, [2], b"\1\20"),
}


@pytest.mark.parametrize(("dtype", "shape", "data"), BAD_BYTES.values(), ids=BAD_BYTES.keys())
def test_bytes_must_be_exactly_the_tensor(dtype: DType, shape: list[int], data: bytes) -> None:
    with refused("AOTC-E761"):
        from_bytes(port(dtype), shape, data)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_json_has_no_word_for_what_is_not_finite(dtype: Any, value: float) -> None:
    with refused("AOTC-E769"):
        to_json(port(DType.FLOAT32), np.array([value], dtype))


def test_json_has_no_complex_numbers() -> None:
    with refused("AOTC-E761"):
        to_json(port(DType.COMPLEX64), np.array([1j], np.complex64))


def test_empty_tensors_and_scalars_are_tensors_too() -> None:
    assert from_bytes(port(DType.FLOAT32), [0, 2], b"").shape == (0, 2)
    assert from_json(port(DType.FLOAT32), [0, 2], b"[]").shape == (0, 2)
    assert from_json(port(DType.FLOAT32), [], b"[3]") == np.float32(3)
    assert bytes(to_bytes(np.zeros((0, 2), np.float32))) == b""
    assert bytes(to_bytes(np.array(1, ml_dtypes.bfloat16))) == b"\x80\x3f"


def test_a_tensor_of_more_axes_than_any_array_has_is_refused_before_they_are_multiplied() -> None:
    x = port(DType.FLOAT32)
    refuse_large(x, [1] * 32, 4)
    for shape in ([1] * 33, [2**40] * 1_000_000):
        raised = error_of(ServerError, refuse_large, x, shape, 2**20)
        assert raised.code == "AOTC-E761" and "at most 32" in raised.findings[0].expected
