"""Arrays of a command line: read from files or filled, and written to a file."""

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from aotc.base.errors import refusal
from aotc.bundle.write.atomic_files import write_atomically
from aotc.bundle.write.output_paths import NPZ, require_file_place
from aotc.config.dtype_names import SHORT_DTYPES
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import DType, TensorSpec
from aotc_runtime.system.regular_files import open_regular

Array = np.ndarray[Any, Any]

_FILLED = re.compile(r"\A((?:\d+x)*)([a-z][a-z0-9_]*)(?:=(.+))?\Z")

_BOOLEANS = {"0": False, "1": True, "false": False, "true": True}


def read_arguments(texts: Sequence[str], option: str) -> dict[str, Array | str]:
    """Return arrays by name; a fill such as 8x64xf32=1 stays text until the input is known.

    Raises UsageError: AOTC-E011 malformed or twice, E012 a file that cannot be read.
    """
    found: dict[str, Array | str] = {}
    for text in texts:
        if text.startswith("@"):
            for name, array in _read_file(Path(text[1:]), option).items():
                _add(found, name, array, option)
            continue
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            where = f"{option} {text}"
            raise refusal("AOTC-E011", where, "", hint="name the input as `aotc inspect` shows it")
        if value.startswith("@"):
            arrays = _read_file(Path(value[1:]), option)
            if len(arrays) != 1:
                where = f"{option} {text}"
                cause = "file-holds-several-arrays"
                hint = f"pass `{option} {value}` to use the names in the file"
                raise refusal("AOTC-E011", where, f"{len(arrays)} arrays", cause=cause, hint=hint)
            _add(found, name, next(iter(arrays.values())), option)
        else:
            _add(found, name, value, option)
    return found


def _add(found: dict[str, Array | str], name: str, value: Array | str, option: str) -> None:
    if name in found:
        raise refusal("AOTC-E011", f"{option} {name}", "", cause="array-given-twice")
    found[name] = value


def _read_file(path: Path, option: str) -> dict[str, Array | str]:
    try:
        with open_regular(path) as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {path.stem: loaded}
            with loaded:
                return {name: _array(name, loaded[name]) for name in loaded.files}
    except Exception as error:  # of any decoder and of Python's parser
        found = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if "pickle" in found:  # numpy's words for files of any other type
            found = "neither .npy nor .npz, or an array of Python objects"
        hint = "correct the path" if isinstance(error, FileNotFoundError) else None
        raise refusal("AOTC-E012", f"{option} {path}", found, hint=hint) from error


def _array(name: str, value: Any) -> Array:
    """Return a member of an .npz file; one that is no array comes as bytes."""
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{name} is not an array")
    return value


def read_results(file: BinaryIO, names: bytes) -> dict[str, Array]:
    """Return arrays that `numpy.savez` wrote, under the names of a JSON text, in order.

    Raises an exception of any decoder for anything else, such as compressed members, whose size in
    memory has no limit.
    """
    with zipfile.ZipFile(file) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("compressed arrays")
    decoded = msgspec.json.decode(names, type=list[str])
    with np.load(file, allow_pickle=False) as found:
        return {name: _array(name, found[f"arr_{at}"]) for at, name in enumerate(decoded)}


def with_dtype(array: Array, dtype: np.dtype[Any]) -> Array:
    """.npy files know bfloat16 and float8 only as raw bytes."""
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    return array


def fill_array(spec: TensorSpec, text: str) -> Array:
    """Return the array that a text such as 8x64xf32=1 stands for. Raises UsageError (AOTC-E011)."""
    match = _FILLED.match(text)
    name = SHORT_DTYPES.get(match[2], match[2]) if match else ""
    try:
        if match is None:
            raise ValueError("not SHAPExDTYPE")
        shape = tuple(int(axis) for axis in match[1].split("x")[:-1])
        number = _number(match[3] or "0", numpy_dtype(DType(name)))
        return np.full(shape, number, number.dtype)
    except (ValueError, OverflowError, MemoryError) as error:
        is_large = isinstance(error, MemoryError)
        cause = "array-exceeds-available-memory" if is_large else "invalid-array-shape"
        raise refusal("AOTC-E011", f"--input {spec.path}={text}", "", cause=cause) from error


def _number(text: str, dtype: np.dtype[Any]) -> Array:
    """Return a number that the dtype holds. Raises ValueError, OverflowError."""
    if dtype.kind == "b":
        if text not in _BOOLEANS:
            raise ValueError("not a boolean")
        return np.asarray(_BOOLEANS[text])
    if dtype.kind in "iu":
        return np.asarray(int(text), dtype)
    return np.asarray(complex(text) if dtype.kind == "c" else float(text)).astype(dtype)


def write_npz(path: Path, results: Mapping[str, Array]) -> None:
    """Write arrays under their names; replaces only such a file. Raises UsageError (E003, E004)."""
    require_file_place(path, NPZ)
    # Not numpy.savez: it takes names as keyword arguments, so no result could be called "file".
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in results.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    write_atomically(path, [buffer.getbuffer()])
