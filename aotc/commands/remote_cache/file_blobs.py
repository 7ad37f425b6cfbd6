"""Blobs in a folder, such as one of a network that hosts share."""

import secrets
from pathlib import Path

from aotc.commands.remote_cache.bounded_calls import CHUNK_BYTES, Limit, Pace, read_all


class FileBlobs:
    """Blobs in a folder, which the first one creates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str, limit: Limit, pace: Pace) -> bytes | None:
        """Return the bytes under a name, up to the limit; None if there are none.

        Something that is no file, such as a pipe, counts as empty.
        """
        path = self._folder / name
        if not path.exists():
            return None
        if not path.is_file():  # to read a pipe, or a device, might never end
            return b""
        with path.open("rb") as file:

            def read(most: int) -> bytes:
                data = file.read(most)
                pace.on_received(len(data))
                return data

            return read_all(read, limit)

    def write(self, name: str, data: bytes, pace: Pace) -> None:
        """Put bytes under a name, replacing what was there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        written = self._folder / f"{name}.{secrets.token_hex(4)}.part"
        try:
            with written.open("xb") as file:  # with the mode that the umask leaves, for others
                for start in range(0, len(data), CHUNK_BYTES):
                    pace.on_sent(file.write(data[start : start + CHUNK_BYTES]))
            written.replace(self._folder / name)
        finally:
            written.unlink(missing_ok=True)
