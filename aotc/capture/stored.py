"""Weights files: opened once, and read a piece at a time when they are written elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from aotc.capture.source_files import changed_meanwhile, state_of
from aotc.config.build_manifest import SourceFile
from aotc.errors import CaptureError
from aotc_runtime.digest import sha256_of
from aotc_runtime.formats.tensors import read_tensors
from aotc_runtime.system.passing import PIECE_BYTES, pass_file
from aotc_runtime.system.store import open_regular


class WeightsFile:
    """A safetensors file that a build manifest names. where: for messages."""

    def __init__(self, source: SourceFile, where: str) -> None:
        self.source, self.where = source, where
        self._file = open_regular(source.path)
        self._state = state_of(self._file.fileno())

    @property
    def size(self) -> int:
        """In bytes, as it was opened."""
        return self._state[0]

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """These bytes of it. Raises OSError, CaptureError (AOTC-E840) if it has become shorter."""
        while start < end:
            piece = os.pread(self._file.fileno(), min(PIECE_BYTES, end - start), start)
            if not piece:
                raise CaptureError(self._changed())
            start += len(piece)
            yield piece

    def digest(self) -> str:
        """Of the whole file. Raises OSError, CaptureError (AOTC-E840)."""
        found = sha256_of(self.read(0, self.size))
        self.require_unchanged()
        return found

    def require_unchanged(self) -> None:
        """Raises CaptureError (AOTC-E840) if somebody has written into it since it was opened."""
        now = state_of(self._file.fileno())
        # A file that was replaced lost its name, which changes when it was changed, and no byte.
        is_replaced = os.fstat(self._file.fileno()).st_nlink == 0
        if now[:2] != self._state[:2] or (now != self._state and not is_replaced):
            raise CaptureError(self._changed())

    def tensors(self) -> dict[str, StoredTensor]:
        """What its header says, by name. Raises BundleFormatError (AOTC-E131 to E133)."""
        data = pass_file(self.source.path)
        return {
            name: StoredTensor(self, info.start, jnp.dtype(info.dtype.value), info.shape)
            for name, info in read_tensors(data, where=self.source.path.name).items()
        }

    def _changed(self) -> Any:
        return changed_meanwhile(self.where, self.source.text)


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a weights file. start: its place there, in bytes."""

    file: WeightsFile
    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def chunks(self) -> Iterator[bytes]:
        """Its bytes. Raises OSError, CaptureError (AOTC-E840)."""
        return self.file.read(self.start, self.start + self.nbytes)
