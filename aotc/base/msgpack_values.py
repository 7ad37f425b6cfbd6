"""MessagePack values that processes and builds exchange."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from aotc_runtime.base import canonical_json


def unpack[T](data: bytes, type_: type[T]) -> T:
    """Decode a value from MessagePack in any thread, or raise ValueError or RecursionError."""
    canonical_json.decoder(type_)  # describes it to msgspec, which only one thread at a time may do
    return msgspec.msgpack.decode(data, type=type_)


@dataclass(frozen=True, slots=True)
class ValueFile[T]:
    """A file with one value of a type, by which processes of a build exchange it."""

    path: Path
    of: type[T]

    def write(self, value: T) -> None:
        """Write the value."""
        self.path.write_bytes(msgspec.msgpack.encode(value))

    def read(self, missing: T | None = None) -> T:
        """Return the value; `missing` where none was written, by default raise OSError."""
        if missing is not None and not self.path.exists():
            return missing
        return unpack(self.path.read_bytes(), self.of)
