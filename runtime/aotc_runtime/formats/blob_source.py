"""The protocol through which the files and blobs of a bundle are read."""

from typing import Protocol


class BlobSource(Protocol):
    """An opened bundle: names and bytes, none of them believed yet."""

    @property
    def name(self) -> str:
        """The bundle's path, for messages."""

    def file(self, name: str) -> memoryview | None:
        """Return the bytes of `oci-layout` or `index.json`."""

    def blob(self, digest: str) -> memoryview | None:
        """Return the bytes stored under a digest; None if there are none."""

    def digests(self) -> frozenset[str]:
        """Return the digests of stored blobs."""
