"""Blobs in a folder, such as one of a network that hosts share."""

import os
import secrets
import stat
from functools import partial
from pathlib import Path

from aotc.commands.remote_cache.bounded_reads import Limit, read_all
from aotc_runtime.system.bundle_files import open_descriptor


class FileBlobs:
    """Blobs in a folder, which the first one creates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str, limit: Limit) -> bytes | None:
        """Return the bytes under a name, up to the limit; None if there are none.

        Something that is no file, such as a pipe, counts as empty.
        """
        try:
            descriptor = open_descriptor(self._folder / name)  # at once, also of a pipe
        except FileNotFoundError:
            return None
        try:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return read_all(partial(os.read, descriptor), limit) if is_file else b""
        finally:
            os.close(descriptor)

    def write(self, name: str, data: bytes) -> None:
        """Put bytes under a name, replacing what was there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        written = self._folder / f"{name}.{secrets.token_hex(4)}.part"
        try:
            with written.open("xb") as file:  # with the mode that the umask leaves, for others
                file.write(data)
            written.replace(self._folder / name)
        finally:
            written.unlink(missing_ok=True)

    def close(self) -> None:
        """Do nothing: what runs ends by itself."""
