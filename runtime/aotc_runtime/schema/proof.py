"""What verification finds out, as values: which target of a bundle a host runs, and why; and
proofs, which only verification may construct, as a test in tests/house checks.

Engines and `serving` ask for proofs, so that bytes nobody verified cannot reach an engine.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import BlobRef, BundleManifest


class MeasuredDifference(Struct, frozen=True):
    """How far a fixture's result was from its reference. label: "predict[batch=8]".  max_abs,
    max_rel: decimals.  ulp_max: units in the last place.
    """

    label: str
    max_abs: str
    max_rel: str
    ulp_max: int


class Certified(Struct, frozen=True):
    """Why a jaxlib may run that the bundle does not accept by itself: a certificate that counts.

    digest: of its envelope.  keys, names: of the certifiers that signed it.  certified_on: time,
    ISO 8601.  cpu: the processor it was made on.  differences: of every fixture, there.
    """

    jaxlib: str
    built_with: str
    digest: str
    keys: tuple[str, ...]
    names: tuple[str, ...]
    certified_on: str
    cpu: str
    differences: tuple[MeasuredDifference, ...]


class Ruling(Struct, frozen=True):
    """What certificates say of a target and a jaxlib: one that counts, or why none does."""

    certified: Certified | None
    findings: tuple[Finding, ...]


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
