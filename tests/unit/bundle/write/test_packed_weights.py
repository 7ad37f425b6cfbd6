"""safetensors as we write them: canonical bytes, aligned, readable by anybody."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load

from aotc.base.errors import CaptureError
from aotc.bundle.write.safetensors_writer import SHARD_BYTES, shards, write_tensors
from aotc_runtime.formats.safetensors_reader import ALIGNMENT, read_tensors

type Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]

DTYPES = ["bool", "uint8", "int8", "float16", "int16", "float32", "int32", "complex64", "int64"]
ARRAYS = st.builds(
    lambda dtype, shape: np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype),
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 20), max_size=3).map(tuple),
)
TENSORS = st.dictionaries(st.text(min_size=1, max_size=9), ARRAYS, max_size=6)


@given(TENSORS)
def test_the_public_library_reads_what_was_written(tensors: dict[str, Array]) -> None:
    tensors.pop("__metadata__", None)
    for name, array in load(write_tensors(tensors, where="test")).items():
        assert array.dtype == tensors[name].dtype
        assert array.shape == tensors[name].shape
        assert array.tobytes() == tensors[name].tobytes()


@given(TENSORS)
def test_every_tensor_of_whole_lines_lies_on_a_boundary(tensors: dict[str, Array]) -> None:
    data = write_tensors(tensors, where="test")
    infos = read_tensors(memoryview(data), where="test")
    assert infos.keys() == tensors.keys()
    whole = {name for name, array in tensors.items() if array.nbytes % ALIGNMENT == 0}
    assert {name for name in whole if infos[name].start % ALIGNMENT} == set()
    assert min((info.start for info in infos.values()), default=0) % ALIGNMENT == 0


@given(TENSORS, st.randoms())
def test_bytes_do_not_depend_on_order(tensors: dict[str, Array], random: object) -> None:
    names = list(tensors)
    random.shuffle(names)  # type: ignore[attr-defined]
    shuffled = {name: tensors[name] for name in names}
    assert write_tensors(shuffled, where="test") == write_tensors(tensors, where="test")


def test_the_bytes_do_not_depend_on_layout_in_memory_or_byte_order() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    expected = write_tensors({"a": array}, where="test")
    for other in (np.asfortranarray(array), array.astype(">f4"), np.stack([array, array])[::2][0]):
        assert write_tensors({"a": other}, where="test") == expected


def test_scalars_and_empty_arrays_keep_their_shapes() -> None:
    tensors = {"scalar": np.float32(3), "empty": np.zeros((0, 3), np.int8)}
    infos = read_tensors(memoryview(write_tensors(tensors, where="test")), where="test")
    assert {name: info.shape for name, info in infos.items()} == {"scalar": (), "empty": (0, 3)}


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, np.complex128, ml_dtypes.float8_e3m4])
def test_a_type_without_a_name_in_the_format_is_read_as_it_was_written(dtype: Any) -> None:
    array = np.arange(6).astype(dtype).reshape(2, 3)
    data = write_tensors({"odd": array, "plain": np.zeros(2)}, where="test")
    infos = read_tensors(memoryview(data), where="test")
    assert (infos["odd"].dtype.value, infos["odd"].shape) == (array.dtype.name, (2, 3))
    assert data[infos["odd"].start : infos["odd"].end] == array.tobytes()
    assert set(load(data)) == {"odd", "plain"}, "others can read it too"


@pytest.mark.parametrize("dtype", [ml_dtypes.int2, "U3", "M8[s]"])
def test_a_dtype_that_the_format_lacks_is_refused_by_tensor(dtype: object) -> None:
    with pytest.raises(CaptureError) as caught:
        write_tensors({"fine": np.zeros(2), "odd": np.zeros(2, dtype)}, where="weights.params")  # type: ignore[call-overload]
    assert caught.value.code == "AOTC-E834"
    assert caught.value.findings[0].where == "weights.params odd"


def write_shards(
    tensors: dict[str, Array], *, where: str, limit: int = SHARD_BYTES
) -> Iterator[bytes]:
    """Each shard whole."""
    return map(b"".join, shards(tensors, where=where, limit=limit))


def names(tensors: dict[str, Array], limit: int) -> list[list[str]]:
    """The names of the tensors in each shard."""
    files = write_shards(tensors, where="test", limit=limit)
    return [list(read_tensors(memoryview(data), where="test")) for data in files]


@given(TENSORS, st.integers(0, 400))
def test_shards_hold_every_tensor_once_in_order(tensors: dict[str, Array], limit: int) -> None:
    tensors.pop("__metadata__", None)
    found: dict[str, Array] = {}
    for data in write_shards(tensors, where="test", limit=limit):
        more = load(data)
        assert not found.keys() & more.keys()
        found |= more
        assert len(more) == 1 or sum(array.nbytes for array in more.values()) <= limit or not more
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: array.tobytes() for name, array in tensors.items()
    }
    whole = read_tensors(memoryview(write_tensors(tensors, where="test")), where="test")
    assert [name for shard in names(tensors, limit) for name in shard] == list(whole)


def test_a_shard_is_filled_up_to_the_limit_and_a_larger_tensor_is_alone_in_its_own() -> None:
    sizes = {"a": 64, "b": 64, "c": 192, "d": 64, "e": 64, "f": 128}
    tensors = {name: np.zeros(size, np.uint8) for name, size in sizes.items()}
    assert names(tensors, 128) == [["a", "b"], ["c"], ["d", "e"], ["f"]]


def test_a_small_set_and_an_empty_one_are_one_file() -> None:
    small = {"a": np.zeros(64, np.uint8), "b": np.zeros(10, np.uint8)}
    assert list(write_shards(small, where="test")) == [write_tensors(small, where="test")]
    assert list(write_shards({}, where="test")) == [write_tensors({}, where="test")]


def test_a_set_just_beyond_the_limit_of_the_format_page_is_two_files() -> None:
    tensors = {"a": np.zeros(SHARD_BYTES, np.uint8), "b": np.zeros(1, np.uint8)}
    assert [len(data) >= SHARD_BYTES for data in write_shards(tensors, where="test")] == [
        True,
        False,
    ]
    page = Path(__file__).parents[4] / "docs" / "reference" / "bundle-format.md"
    assert f"beyond {SHARD_BYTES // 2**20} MiB of tensors" in page.read_text().replace("\n", " ")
