"""`aotc sign`: adds a signature to a finished bundle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aotc.errors import raise_if
from aotc.packing.attestations import with_attestation
from aotc.packing.files import tidy
from aotc.signing.attest import attest
from aotc.signing.provenance import endorsement
from aotc.signing.signer import Signer
from aotc.stages import Attestation
from aotc_runtime.errors import BundleFormatError, Finding
from aotc_runtime.formats import dsse
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification.contents import Contents, read_unverified
from aotc_runtime.verification.keys import load_public_key
from aotc_runtime.verification.signatures import open_envelope


@dataclass(frozen=True, slots=True)
class Endorsed:
    """added: false where the bundle had an attestation by this key that says the same."""

    attestation: Attestation
    added: bool


def endorse(path: Path, signer: Signer) -> Endorsed:
    """Add this signer's attestation to a bundle, after checking every digest in it.

    A bundle that this key has signed the same way before is left as it is. Raises
    BundleFormatError, IntegrityError, UsageError (AOTC-E003, E052 targets are absent, and what the
    signer raises).
    """
    tidy(path.resolve())
    source = open_bundle(path)
    contents, envelopes = read_unverified(source)
    raise_if(_check_whole(path, contents))
    manifest = next(iter(contents.manifests.values()))
    subject = f"{manifest.name}-{manifest.version}"
    attestation = attest(contents.root_digest, subject, endorsement(), signer)
    added = not any(_is_attested(envelope, attestation, signer) for envelope in envelopes)
    if added:
        with_attestation(path, attestation.envelope)
    return Endorsed(attestation, added)


def _check_whole(path: Path, contents: Contents) -> Iterator[Finding]:
    """AOTC-E052: a signature of the root vouches for every target, and some cannot be looked at."""
    if contents.absent:
        yield Finding(
            code="AOTC-E052",
            where=str(path),
            expected="a bundle that holds every target of its root",
            found="one without " + ", ".join(contents.absent),
            hint="sign the whole bundle, then extract from it; a copy keeps its signatures",
        )


def _is_attested(envelope: bytes, attestation: Attestation, signer: Signer) -> bool:
    """Whether an envelope holds the same statement with a good signature by the same key.

    Keys in tokens sign with a new nonce each time, so the envelopes need not be equal.
    """
    made = open_envelope(attestation.envelope, "attestation")
    try:
        found = open_envelope(envelope, "attestation")
    except BundleFormatError:
        return False
    message = dsse.pre_authentication_encoding(found.payload_type, found.payload)
    key = load_public_key(signer.public_pem(), "", "signer")
    same = (found.payload, found.payload_type) == (made.payload, made.payload_type)
    return same and any(key.verify(signature, message) for _, signature in found.signatures)
