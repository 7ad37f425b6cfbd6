"""Proofs as values: only verification may construct these types, which a test in tests/house
checks.

Engines and `serving` ask for these types, so that bytes nobody verified cannot reach an engine.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from aotc_runtime.schema.choice import Choice
from aotc_runtime.schema.manifest import BlobRef, BundleManifest


class VerifiedBlob(Struct, frozen=True):
    """Bytes whose digest and size are the signed ones. data: a read-only view, mapped."""

    digest: str
    data: memoryview


class VerifiedBundle(Struct, frozen=True):
    """A bundle that this policy trusts and this host can run; every blob of its target was hashed.

    root_digest: what was signed.  signers: ids of the trusted keys that signed.  manifest: of the
    chosen target.  blobs: by digest.  choice: why this target.
    """

    root_digest: str
    signers: tuple[str, ...]
    manifest: BundleManifest
    blobs: Mapping[str, VerifiedBlob]
    choice: Choice

    def blob(self, ref: BlobRef) -> VerifiedBlob:
        """The verified bytes behind a reference of the manifest."""
        return self.blobs[ref.digest]
