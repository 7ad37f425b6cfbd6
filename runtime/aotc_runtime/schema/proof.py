"""What verification finds out, as values: which target of a bundle a host runs, and why; and
proofs, which only verification may construct, as a test in tests/house checks.

Engines and `serving` ask for proofs, so that bytes nobody verified cannot reach an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import BlobRef, BundleManifest

if TYPE_CHECKING:
    from aotc_runtime.schema.certified import Certified


class Candidate(Struct, frozen=True):
    """A target that was judged. features: how many processor features its executables use.
    findings: why it may not run here; none if it may.  certified: by which certificate, if the
    running jaxlib is accepted by one.
    """

    target: str
    features: int
    findings: tuple[Finding, ...]
    certified: Certified | None = None


class Choice(Struct, frozen=True):
    """The target to run, or the one that comes closest.

    named: whether the caller asked for it; otherwise it is the one with the most processor features
    among those that fit.  findings: why it may not run; if none was named and none fits, those of
    all.  candidates: what was judged, best first.  absent: targets that were signed with the others
    and left out of this copy of the bundle.
    """

    target: str
    named: bool
    findings: tuple[Finding, ...]
    candidates: tuple[Candidate, ...]
    absent: tuple[str, ...] = ()

    @property
    def certified(self) -> Certified | None:
        """The certificate by which the running jaxlib is accepted for this target, if it is."""
        found = (c.certified for c in self.candidates if c.target == self.target)
        return next(found, None)


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
