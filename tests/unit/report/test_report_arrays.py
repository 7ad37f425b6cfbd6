"""Arrays of a command line: every dtype as text and through files."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from aotc.base.errors import UsageError
from aotc.config.dtype_names import SHORT_DTYPES
from aotc.report.array_files import fill_array, read_arguments, with_dtype, write_npz
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import DType, TensorSpec
from tests.refusals import error_of

SPEC = TensorSpec(path="x", shape=(), dtype=DType.FLOAT32, weak_type=False)


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_can_be_filled_by_its_name(dtype: DType) -> None:
    array = fill_array(SPEC, f"2x3x{dtype}=1")
    assert (array.dtype, array.shape) == (numpy_dtype(dtype), (2, 3))
    assert bool(np.all(array == np.ones((), numpy_dtype(dtype))))


@pytest.mark.parametrize(("short", "name"), SHORT_DTYPES.items())
def test_short_names_stand_for_dtypes(short: str, name: str) -> None:
    assert fill_array(SPEC, short).dtype == numpy_dtype(DType(name))


def test_wide_integers_are_exact() -> None:
    assert fill_array(SPEC, "u64=18446744073709551615") == np.uint64(2**64 - 1)
    assert fill_array(SPEC, "i64=-9007199254740993") == -9007199254740993


@pytest.mark.parametrize(
    "text",
    [
        *("i8=128", "u8=-1", "u64=18446744073709551616", "bool=yes", "bool=2", "i32=1.5"),
        *("f32=1j", "f32=abc", "f32=", "8xf32x"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(text: str) -> None:
    assert error_of(UsageError, fill_array, SPEC, text).code == "AOTC-E011"


def test_results_of_any_name_and_dtype_come_back_from_a_file(tmp_path: Path) -> None:
    results = {
        "file": np.arange(3),
        "cache/0/k": np.ones((2, 0), np.float32),
        "half": np.ones(2, ml_dtypes.bfloat16),
    }
    write_npz(tmp_path / "r.npz", results)
    read = read_arguments([f"@{tmp_path / 'r.npz'}"], "--expect")
    assert set(read) == set(results)
    for name, expected in results.items():
        found = read[name]
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(with_dtype(found, expected.dtype), expected)


def test_the_same_results_make_the_same_file(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        write_npz(tmp_path / name, {"x": np.arange(3)})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
