"""Filling, cutting, splitting and joining arrays, and the masks and lengths of padded calls."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import DType, EntryPoint
from aotc_runtime.serving.routing.padded_arrays import cut, fill_value, mask, pad
from aotc_runtime.serving.routing.padding_masks import Length, Mask, masks_of
from aotc_runtime.serving.routing.split_calls import axis_of, join, piece

from ...samples import DOCUMENT

Shapes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=3)


@given(Shapes)
def test_cutting_undoes_padding_and_the_rest_is_filled(sizes: list[tuple[int, int]]) -> None:
    shape = tuple(size for size, _ in sizes)
    whole = tuple(size + more for size, more in sizes)
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    padded = pad(array, whole, np.float32(np.nan))
    assert padded.shape == whole and np.isnan(padded).sum() == padded.size - array.size
    kept = cut(padded, shape)
    np.testing.assert_array_equal(kept, array)
    assert kept.base is None and kept.flags.c_contiguous and not kept.flags.writeable


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_is_padded_with_its_own_zero(dtype: DType) -> None:
    if dtype is DType.FLOAT8_E8M0FNU:
        pytest.skip("powers of two only: it has no zero")
    array = np.ones((2, 3), numpy_dtype(dtype))
    padded = pad(array, (3, 4), fill_value("0", dtype))
    assert padded.dtype == array.dtype and padded.astype(np.complex128).sum() == 6


def test_a_fill_may_be_nan_or_infinite() -> None:
    assert np.isnan(fill_value("nan", DType.BFLOAT16).astype(np.float32))
    assert fill_value("-inf", DType.FLOAT32) == -np.inf
    assert fill_value("True", DType.BOOL)


def test_a_mask_is_true_where_every_dimension_that_it_is_of_is_real() -> None:
    both = mask(("batch", "seq"), (3, 4), {"batch": 2, "seq": 3})
    np.testing.assert_array_equal(both, pad(np.ones((2, 3), bool), (3, 4), np.False_))
    seq = mask(("batch", "seq"), (3, 4), {"seq": 3})
    assert seq.sum() == 9 and seq[:, :3].all()


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 2))
def test_joining_undoes_cutting_into_pieces(sizes: list[int], axis: int) -> None:
    shape = [2, 3, 4]
    shape[axis] = sum(sizes)
    array: np.ndarray[Any, Any] = np.arange(np.prod(shape)).reshape(shape)
    ends = np.cumsum(sizes)
    pieces = [piece(array, axis, e - s, e) for e, s in zip(ends, sizes, strict=True)]
    assert all(each.flags.c_contiguous for each in pieces)
    joined = join(pieces, axis)
    np.testing.assert_array_equal(joined, array)
    assert not joined.flags.writeable and not np.shares_memory(joined, array)


def test_what_does_not_carry_the_dimension_is_the_first_parts() -> None:
    one = np.ones(3)
    joined = join([one, one], None)
    np.testing.assert_array_equal(joined, one)
    assert not np.shares_memory(joined, one)
    assert axis_of(("batch", 3), "batch") == 0 and axis_of(("2*batch", 3), "batch") is None


def test_masks_and_lengths_are_found_among_parameters_with_arrays_and_without() -> None:
    parameters = [
        {"name": name, "kind": "positional_or_keyword", "tree": tree, "donated": False}
        for name, tree in (
            ("nothing", {"node": "none"}),
            ("x", {"node": "leaf", "index": 0}),
            ("real", {"node": "leaf", "index": 1}),
            ("rows", {"node": "leaf", "index": 2}),
        )
    ]
    inputs: list[dict[str, Any]] = [
        {"path": path, "dtype": dtype, "shape": shape, "weak_type": False}
        for path, dtype, shape in (
            ("x", "float32", ["batch", 3]),
            ("real", "bool", ["batch"]),
            ("rows", "int32", []),
        )
    ]
    pad = {"policy": "pad", "fill": {}, "mask": "real", "length": "rows", "proof": []}
    document = {
        **DOCUMENT["entry_points"]["predict"],
        "parameters": parameters,
        "inputs": inputs,
        "out_of_profile": {"batch": pad},
    }
    mask, length = masks_of(msgspec.convert(document, EntryPoint))
    assert isinstance(mask, Mask) and (mask.leaf, mask.dimensions) == (1, {"batch"})
    assert isinstance(length, Length) and (length.leaf, length.dimension) == (2, "batch")
    np.testing.assert_array_equal(mask.array((3,), {"batch": 2}), [True, True, False])
    assert length.array((), {"batch": 2}) == 2 and length.dtype == np.int32
