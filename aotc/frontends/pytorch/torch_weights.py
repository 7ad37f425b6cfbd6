"""The tensors of an archive: raw bytes with sizes and strides. Pickles are never opened."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc.capture.model_files.frontend_protocol import Array
from aotc.capture.model_files.model_archive import Archive, Damaged
from aotc.frontends.pytorch.torch_dtypes import SCALAR_TYPES
from aotc.frontends.pytorch.torch_schema import Payload, Payloads, TensorMeta, decode

RANK_MAX = 64
"""numpy's own limit."""

COPIES_MAX = 4
"""Tensors may overlap in the file, as tied ones that are transposed do: in all, they are at most so
many times as large as the archive."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of the archive. alike: equal for tensors that are the same bytes seen alike."""

    array: Array
    alike: tuple[Any, ...]


def payloads(archive: Archive, model: str) -> dict[str, tuple[str, Payload]]:
    """Return tensors by name: the folder of their bytes, and where they lie there."""
    found: dict[str, tuple[str, Payload]] = {}
    for folder, kind in (("constants", "constants"), ("weights", "weights")):
        name = f"data/{folder}/{model}_{kind}_config.json"
        config = decode(archive.read(name), Payloads, name).config
        found |= {key: (f"data/{folder}", payload) for key, payload in config.items()}
    return found


def read_tensors(
    archive: Archive, places: Mapping[str, tuple[str, Payload]], names: Iterable[str]
) -> dict[str, Stored]:
    """Read the tensors. Raises Damaged for missing, pickled and truncated ones."""
    if "byteorder" in archive.members and bytes(archive.members["byteorder"]) != b"little":
        raise Damaged("little-endian weights", "another byte order")
    made: dict[str, Stored] = {}
    total, limit = 0, COPIES_MAX * sum(map(len, archive.members.values()))
    seen: dict[tuple[Any, ...], Stored] = {}
    for name in names:
        if name not in places:
            raise Damaged(f"a tensor {name!a}"[:200], "none")
        folder, payload = places[name]
        if payload.use_pickle:
            raise Damaged(f"raw bytes of {name!a}"[:200], "a pickle")
        meta = payload.tensor_meta
        if meta is None:
            raise Damaged(f"sizes of {name!a}"[:200], "none")
        key = (folder, payload.path_name, meta)
        if key not in seen:
            sizes, strides, offset, dtype = _check_tensor(name, meta)
            total += math.prod(sizes) * dtype.itemsize
            if total > limit:
                raise Damaged(f"tensors of at most {COPIES_MAX} times the file's size", "more")
            data = archive.read(f"{folder}/{payload.path_name}")
            seen[key] = Stored(_tensor(name, data, sizes, strides, offset, dtype), key)
        made[name] = seen[key]
    return made


def _check_tensor(name: str, meta: TensorMeta) -> tuple[list[int], list[int], int, np.dtype[Any]]:
    numbers = [size.as_int for size in (*meta.sizes, *meta.strides, meta.storage_offset)]
    if meta.dtype not in SCALAR_TYPES or meta.layout != 7:
        raise Damaged(
            f"a dense tensor {name!a} of a known dtype"[:200], f"{meta.dtype}, {meta.layout}"
        )
    fixed = [number for number in numbers if isinstance(number, int) and 0 <= number < 2**62]
    rank = len(meta.sizes)
    if len(fixed) != len(numbers) or len(meta.strides) != rank or rank > RANK_MAX:
        raise Damaged(f"sizes and strides of {name!a}"[:200], "others")
    return fixed[:rank], fixed[rank:-1], fixed[-1], SCALAR_TYPES[meta.dtype]


def _tensor(
    name: str,
    data: memoryview,
    sizes: list[int],
    strides: list[int],
    offset: int,
    dtype: np.dtype[Any],
) -> Array:
    if 0 in sizes:
        try:
            return np.zeros(sizes, dtype)
        except ValueError as error:
            raise Damaged(f"sizes of {name!a}"[:200], f"{sizes}"[:200]) from error
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    stored = len(data) // dtype.itemsize
    if last >= stored or math.prod(sizes) > stored or len(data) % dtype.itemsize:
        raise Damaged(
            f"{name!a} within its {len(data)} bytes"[:200],
            f"sizes {sizes}, strides {strides}, from {offset}, of {dtype}"[:300],
        )
    flat = np.frombuffer(data, dtype)[offset:]
    view = np.lib.stride_tricks.as_strided(
        flat, sizes, [stride * dtype.itemsize for stride in strides], writeable=False
    )
    if dtype == np.bool_ and (np.ascontiguousarray(view).view(np.uint8) > 1).any():
        raise Damaged(f"{name!a} of booleans"[:200], "other bytes")
    return np.ascontiguousarray(view).reshape(sizes)
