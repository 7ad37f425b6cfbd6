"""Blobs in any store of fsspec: s3://, gs://, az://, sftp://, file:// and others.

https://filesystem-spec.readthedocs.io. Each scheme but file:// and memory:// needs the package that
serves it.
"""

import secrets
from typing import Any

from aotc.commands.remote_cache import bounded_calls

OBJECT_STORES = frozenset({"abfs", "abfss", "az", "gcs", "gs", "oss", "s3", "s3a"})
"""They have no folders: a bucket that is missing is a wrong name, and none is to be made."""

BLOCK_BYTES = 2**20
"""Read at a time; libraries have 5 MiB and more, for those who read whole tables."""


class FsspecBlobs:
    """Blobs in a folder of a file system. files: `fsspec.AbstractFileSystem`."""

    seconds = bounded_calls.LIBRARY_SECONDS

    def __init__(self, files: Any, folder: str) -> None:
        self._files, self._folder = files, folder.rstrip("/")

    def read(self, name: str, limit: bounded_calls.Limit, pace: bounded_calls.Pace) -> bytes | None:
        """Return the bytes under a name, up to the limit; None if there are none.

        Something that is no file, such as a pipe, counts as empty.
        """
        path = f"{self._folder}/{name}"
        if self._is_of_files and self._files.exists(path) and not self._files.isfile(path):
            return b""
        try:
            # In blocks: what a library reads ahead, nobody sees arrive.
            with self._files.open(path, "rb", block_size=BLOCK_BYTES) as file:

                def read(most: int) -> bytes:
                    data: bytes = file.read(most)
                    pace.on_received(len(data))
                    return data

                return bounded_calls.read_all(read, limit)
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes, pace: bounded_calls.Pace) -> None:
        """Put bytes under a name, replacing what was there."""
        try:
            self._write(name, data, pace)
        except FileNotFoundError:
            if OBJECT_STORES & set(_protocols(self._files)):
                raise
            self._files.makedirs(self._folder, exist_ok=True)
            self._write(name, data, pace)

    @property
    def _is_of_files(self) -> bool:
        """Return whether it is the file system of this host."""
        return "file" in _protocols(self._files)

    def _write(self, name: str, data: bytes, pace: bounded_calls.Pace) -> None:
        path = f"{self._folder}/{name}"
        # Object stores show an object when it is whole; in a folder a renamed file is.
        renamed = self._is_of_files
        written = f"{path}.{secrets.token_hex(4)}.part" if renamed else path
        with self._files.open(written, "wb") as file:
            for start in range(0, len(data), bounded_calls.CHUNK_BYTES):
                pace.on_sent(file.write(data[start : start + bounded_calls.CHUNK_BYTES]))
        if renamed:
            self._files.mv(written, path)


def _protocols(files: Any) -> tuple[str, ...]:
    """Return the protocols that the file system serves."""
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)
