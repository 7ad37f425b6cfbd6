"""Weights files: opened once, and read in chunks when they are written elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from math import prod
from mmap import ACCESS_READ, MADV_RANDOM, mmap
from typing import Any

import jax.numpy as jnp
import numpy as np

from aotc.base.errors import refusal
from aotc.capture.file_digests import changed_while_read, digest_of_open, state_of_open
from aotc.capture.model_files.model_archive import Damaged, read_archive
from aotc.config.build_manifest import SourceFile
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.safetensors_reader import read_tensors
from aotc_runtime.schema.bundle_manifest import DType
from aotc_runtime.system.regular_files import open_regular
from aotc_runtime.system.streamed_bundle import CHUNK_BYTES, PassedMap

ZIP_BEGINS = b"PK\x03\x04"
NPZ_ENDING = ".npy"
NPZ_HEADER_BYTES_MAX = 2**16
_NPZ_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""By version: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html."""


class WeightsFile:
    """A file of weights as a build manifest names it (`source`), and its location in messages."""

    def __init__(self, source: SourceFile, where: str) -> None:
        self.source, self.where = source, where
        self._file = open_regular(source.path)
        self._state = state_of_open(self._file)
        self._digest = ""

    @property
    def size(self) -> int:
        """The size in bytes when it was opened."""
        return self._state.size

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """Yield a range of bytes in chunks of `CHUNK_BYTES`, the last one perhaps shorter.

        Raises OSError, or CaptureError (AOTC-E840) if the file has become shorter.
        """
        for at in range(start, end, CHUNK_BYTES):
            piece = b""
            wanted = min(CHUNK_BYTES, end - at)
            while len(piece) < wanted:
                more = os.pread(self._file.fileno(), wanted - len(piece), at + len(piece))
                if not more:
                    raise self._changed_error()
                piece += more
            yield piece

    def digest(self) -> str:
        """Return the digest of the whole file, which is hashed once; one thread may ask for it.

        Raises OSError, CaptureError (AOTC-E840: the file has changed).
        """
        self._digest = self._digest or digest_of_open(self._file)
        self.require_unchanged()
        return self._digest

    def require_unchanged(self) -> None:
        """Raise CaptureError (AOTC-E840) if the open file was modified."""
        now = state_of_open(self._file)
        # A file that was replaced lost its name, which changes when it was changed, and no byte.
        is_replaced = os.fstat(self._file.fileno()).st_nlink == 0
        if now[:4] != self._state[:4] or (now != self._state and not is_replaced):
            raise self._changed_error()

    def tensors(self) -> dict[str, StoredTensor]:
        """Return the tensors by name: of a safetensors header, or of an .npz file's arrays.

        Raises BundleFormatError (AOTC-E131 to E133), Damaged, CaptureError (AOTC-E840).
        """
        data = self._map()
        if os.pread(self._file.fileno(), len(ZIP_BEGINS), 0) == ZIP_BEGINS:
            return {tensor.name: tensor for tensor in npz_tensors(self, data)}
        # The system would read megabytes ahead, of which nothing is wanted but the header.
        if isinstance(data.obj, mmap):  # of an empty file there is no map
            data.obj.madvise(MADV_RANDOM)
        found = read_tensors(data, where=self.source.path.name)
        stored = {name: (info, jnp.dtype(info.dtype.value)) for name, info in found.items()}
        return {
            name: StoredTensor(self, name, info.start, dtype, info.shape, dtype)
            for name, (info, dtype) in stored.items()
        }

    def _map(self) -> memoryview:
        """Map the file by its descriptor: its name may stand for another file by now."""
        if not self.size:
            return memoryview(b"")
        try:
            return memoryview(PassedMap(self._file.fileno(), self.size, access=ACCESS_READ))
        except ValueError as error:  # it has become shorter
            raise self._changed_error() from error

    def _changed_error(self) -> AotcError:
        return changed_while_read(self.where, self.source.text)


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a weights file.

    `name`, `start` (offset) and `stored` (dtype) are the file's; `dtype` is the wanted one.
    """

    file: WeightsFile
    name: str
    start: int
    stored: np.dtype[Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """The size in bytes after casting."""
        return prod(self.shape) * self.dtype.itemsize

    def chunks(self) -> Iterator[bytes]:
        """Yield its bytes, cast to its dtype.

        Raises OSError, or CaptureError: AOTC-E840, E830 for a number that the dtype cannot hold.
        """
        end = self.start + prod(self.shape) * self.stored.itemsize
        pieces = self.file.read(self.start, end)
        return pieces if self.stored == self.dtype else map(self._cast, pieces)

    def _cast(self, piece: bytes) -> bytes:
        numbers = np.frombuffer(piece, self.stored)
        with np.errstate(over="ignore"):
            cast = numbers.astype(self.dtype)
        lost = np.isfinite(numbers) & ~np.isfinite(cast)
        if lost.any():
            found = f"{numbers[lost][0]!s} in {self.name} of {self.file.source.text}"
            cause = "cast-would-lose-weight-values"
            expected = f"numbers that {self.dtype} holds"
            raise refusal("AOTC-E830", self.file.where, found, cause=cause, expected=expected)
        return cast.tobytes()


def npz_tensors(file: WeightsFile, data: memoryview) -> Iterator[StoredTensor]:
    """Return the arrays of an .npz file and their offsets. Raises Damaged for a bad checksum."""
    whole = _address(data)
    for member_name, member in read_archive(data).members.items():
        name = member_name.removesuffix(NPZ_ENDING)
        if not name or name == member_name:
            raise Damaged("members that numpy.savez writes", f"{member_name}, as of torch.save")
        stream = BytesIO(member[:NPZ_HEADER_BYTES_MAX])
        dtype, shape = _npz_header(name, stream)
        if stream.tell() + prod(shape) * dtype.itemsize != len(member):
            raise Damaged(f"{name} of the size that its header says", f"{len(member)} bytes")
        start = _address(member) - whole + stream.tell()
        yield StoredTensor(file, name, start, dtype, shape, dtype)


def _npz_header(name: str, stream: BytesIO) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the dtype and shape of a little-endian array in C order from its header."""
    try:
        version = np.lib.format.read_magic(stream)
        shape, is_fortran, dtype = _NPZ_READERS[version](stream, NPZ_HEADER_BYTES_MAX)
    except Exception as error:  # of any decoder and of Python's parser
        raise Damaged(f"{name} as an array of numpy", "another header") from error
    if dtype.name not in {*DType}:
        raise Damaged(f"numbers in {name}, of a dtype that numpy itself has", str(dtype))
    if dtype != dtype.newbyteorder("<"):
        raise Damaged(f"{name} in little-endian order", str(dtype))
    if is_fortran:
        raise Damaged(f"{name} in C order (numpy.ascontiguousarray)", "Fortran order")
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise Damaged(f"{name} of a shape", str(shape))
    return dtype, shape


def _address(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address
