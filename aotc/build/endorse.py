"""Signing a bundle that exists."""

from __future__ import annotations

from pathlib import Path

from aotc.packing.bundle import with_attestation
from aotc.signing.attest import attest, endorsement
from aotc.signing.signer import Signer
from aotc.stages import Attestation
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification.verify import read_unverified


def endorse(path: Path, signer: Signer) -> Attestation:
    """Add this signer's attestation to a bundle, after checking every digest in it.

    Raises BundleFormatError, IntegrityError, UsageError (AOTC-E003).
    """
    contents, _ = read_unverified(open_bundle(path))
    manifest = next(iter(contents.manifests.values()))
    subject = f"{manifest.name}-{manifest.version}"
    attestation = attest(contents.root_digest, subject, endorsement(), signer)
    with_attestation(path, attestation.envelope)
    return attestation
