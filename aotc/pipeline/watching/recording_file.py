"""The file in which a recorded process tells the build what it read."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from aotc.base.msgpack_values import unpacked
from aotc.pipeline.watching.recorded_reads import Reads


class Recording(Struct, frozen=True):
    """reads: the names.  parts: what they held at the time, as parts of a key."""

    reads: Reads
    parts: dict[str, str]

    def write(self, folder: Path, worker: str) -> None:
        """Leave it in a folder, for this worker."""
        (folder / f"{worker}.reads").write_bytes(msgspec.msgpack.encode(self))

    @classmethod
    def read(cls, folder: Path, worker: str) -> Recording:
        """What a worker left."""
        return unpacked((folder / f"{worker}.reads").read_bytes(), cls)
