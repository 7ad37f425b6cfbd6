"""Attestations: in-toto statements about a root digest in DSSE envelopes, such as certificates."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from aotc.base.errors import finding, raise_if
from aotc.base.stages import Attestation
from aotc.bundle.sign.build_provenance import hexes
from aotc.bundle.sign.signer import Signer
from aotc_runtime.base import canonical_json, limits
from aotc_runtime.base.canonical_json import decode_foreign, marks_in
from aotc_runtime.base.errors import BundleFormatError, Finding
from aotc_runtime.formats import in_toto
from aotc_runtime.formats.certificate_predicate import Certificate
from aotc_runtime.formats.in_toto import (
    CERTIFICATE_TYPE,
    PROVENANCE_TYPE,
    STATEMENT_TYPE,
    SignedPayload,
    Statement,
    open_envelope,
)
from aotc_runtime.verification.public_keys import PublicKey, Trials
from aotc_runtime.verification.root_signatures import match_signatures

PAYLOAD_BYTES_MAX = (limits.ENVELOPE_BYTES_MAX - 2**10) // 4 * 3
"""In base64, and with a signature beside it, it fits into an envelope."""


def attest(
    root_digest: str,
    subject: str,
    predicate: Mapping[str, Any],
    signer: Signer,
    predicate_type: str = PROVENANCE_TYPE,
) -> Attestation:
    """Sign a statement about a root digest; `subject` is its display name ("digits-1.0.0").

    Raises UsageError (AOTC-E058) for one that no reader would take, and what the signer raises.
    """
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": subject, "digest": hexes(root_digest)}],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    payload = canonical_json.encode(statement)
    raise_if(_check_size(payload, f"{subject} {predicate_type}"))
    return Attestation(root_digest, signer.key_id, seal(in_toto.PAYLOAD_TYPE, payload, signer))


def seal(payload_type: str, payload: bytes, signer: Signer) -> bytes:
    """Return a payload in a DSSE envelope that this signer signed, as canonical JSON."""
    signature = signer.sign(in_toto.pre_authentication_encoding(payload_type, payload))
    envelope = in_toto.Envelope(
        payload=base64.b64encode(payload).decode(),
        payloadType=payload_type,
        signatures=(
            in_toto.Signature(sig=base64.b64encode(signature).decode(), keyid=signer.key_id),
        ),
    )
    return canonical_json.encode(envelope)


def _check_size(payload: bytes, where: str) -> Iterator[Finding]:
    """AOTC-E058: what readers bound before they know who signed it."""
    marks, size = marks_in(payload), len(payload)
    if marks > limits.STATEMENT_MARKS_MAX or size > PAYLOAD_BYTES_MAX:
        yield finding(
            "AOTC-E058",
            where,
            f"{size} bytes with {marks} of them",
            cause="provenance-exceeds-the-size-limit",
            expected=f"at most {PAYLOAD_BYTES_MAX} bytes with {limits.STATEMENT_MARKS_MAX} "
            "commas, colons and opening brackets",
        )


def certificates_in(envelopes: Iterable[bytes]) -> list[tuple[Certificate, tuple[str, ...]]]:
    """Return the certificates among envelopes, each with its claimed key ids.

    No signature is checked: whether any of it is true is for a trust policy to say.
    """
    return [
        (certificate, tuple(keyid for keyid, _ in signed.signatures))
        for envelope in envelopes
        for certificate, signed in _read(envelope)
    ]


def certificate_by(envelope: bytes, key: PublicKey) -> Certificate | None:
    """Return the certificate in an envelope, if this key has signed one."""
    return next((each for each, signed in _read(envelope) if is_signed_by(signed, key)), None)


def is_signed_by(signed: SignedPayload, key: PublicKey) -> bool:
    """Return whether this key made one of the signatures of an envelope."""
    return any(maker for _, maker in match_signatures(signed, {key.id: key}, Trials()))


def _read(envelope: bytes) -> Iterator[tuple[Certificate, SignedPayload]]:
    """Yield the certificate in an envelope, if there is one that can be read."""
    where = "attestation"
    with suppress(BundleFormatError):
        signed = open_envelope(envelope, where)
        statement = decode_foreign(signed.payload, Statement, where=where)
        if statement.predicateType == CERTIFICATE_TYPE:
            yield decode_foreign(bytes(statement.predicate), Certificate, where=where), signed
