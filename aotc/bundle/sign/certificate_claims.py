"""Certificates as they stand in a bundle: what they claim, and who has signed them."""

from __future__ import annotations

from collections.abc import Iterable

from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.formats.certificate_predicate import Certificate
from aotc_runtime.formats.in_toto import CERTIFICATE_TYPE, SignedPayload, Statement, open_envelope
from aotc_runtime.verification.public_keys import PublicKey
from aotc_runtime.verification.root_signatures import is_signed_by


def claimed(envelopes: Iterable[bytes]) -> list[tuple[Certificate, tuple[str, ...]]]:
    """The certificates among envelopes, each with the ids of keys that it claims to be signed by.

    No signature is checked: whether any of it is true is for a trust policy to say.
    """
    found = []
    for envelope in envelopes:
        read = _read(envelope)
        if read is not None:
            certificate, signed = read
            found.append((certificate, tuple(keyid for keyid, _ in signed.signatures)))
    return found


def certificate_by(envelope: bytes, key: PublicKey) -> Certificate | None:
    """The certificate in an envelope, if this key has signed one."""
    read = _read(envelope)
    if read is None:
        return None
    certificate, signed = read
    return certificate if is_signed_by(signed, key) else None


def _read(envelope: bytes) -> tuple[Certificate, SignedPayload] | None:
    where = "attestation"
    try:
        signed = open_envelope(envelope, where)
        statement = decode_foreign(signed.payload, Statement, where=where)
        if statement.predicateType != CERTIFICATE_TYPE:
            return None
        return decode_foreign(bytes(statement.predicate), Certificate, where=where), signed
    except BundleFormatError:
        return None
