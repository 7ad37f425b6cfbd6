"""in-toto attestations: signed envelopes, and the statements in them.

Envelope: https://github.com/secure-systems-lab/dsse/blob/v1.0.2/envelope.md (DSSE).
Statement: https://github.com/in-toto/attestation/blob/v1.1.0/spec/v1/statement.md (v1).
"""

import binascii

import msgspec
from msgspec import Struct

from aotc_runtime.base import limits
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.errors import AotcError, refusal

PAYLOAD_TYPE = "application/vnd.in-toto+json"


class Signature(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signature of an envelope; only `sig` is verified with the policy's keys.

    Attributes:
        sig: base64.
        keyid: the key that it claims, unsigned.
        timestamp: RFC 3161 response about the signature, DER in base64.
        sigstore: Sigstore's verification material, JSON in base64.
    """

    sig: str
    keyid: str = ""
    timestamp: str = ""
    sigstore: str = ""


class Envelope(Struct, frozen=True, kw_only=True):
    """A signed base64 payload. Unknown fields are ignored, as the specification asks."""

    payload: str
    payloadType: str
    signatures: tuple[Signature, ...]


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return the signed message: "DSSEv1" SP LEN(type) SP type SP LEN(payload) SP payload."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def decode_base64(text: str, *, where: str) -> bytes:
    """Decode base64 in its one canonical spelling. Raises BundleFormatError (AOTC-E107)."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise refusal("AOTC-E107", where, str(error)) from error
    if binascii.b2a_base64(data, newline=False).decode() != text:
        raise refusal("AOTC-E107", where, "another spelling of the same bytes", expected="")
    return data


class SignedPayload(Struct, frozen=True):
    """A parsed DSSE envelope, of which nothing is verified yet.

    `where` is for messages; `timestamps` and `materials` (of Sigstore) are base64, by signature.
    """

    payload_type: str
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]
    where: str
    timestamps: dict[bytes, str] = {}
    materials: dict[bytes, str] = {}


def open_envelope(data: bytes, where: str) -> SignedPayload:
    """Open a well-formed envelope: verification step 3.

    Raises BundleFormatError: AOTC-E106 not an envelope, E107 base64, E111 too many values, E119
    number of signatures, or one twice.
    """
    envelope = decode_foreign(data, Envelope, where=where, marks=limits.ATTESTATION_MARKS_MAX)
    count = len(envelope.signatures)
    if not 1 <= count <= limits.SIGNATURES_MAX:
        raise signatures_error(where, f"1 to {limits.SIGNATURES_MAX} signatures", str(count))
    # Spelled in one way each, or refused below.
    if len({signature.sig for signature in envelope.signatures}) != count:
        raise signatures_error(where, "", "", "duplicate-signature")
    signatures = tuple(
        (signature.keyid, decode_base64(signature.sig, where=f"{where} signature"))
        for signature in envelope.signatures
    )
    stated = [(made, each) for (_, made), each in zip(signatures, envelope.signatures, strict=True)]
    return SignedPayload(
        envelope.payloadType,
        decode_base64(envelope.payload, where=f"{where} payload"),
        signatures,
        where,
        {made: each.timestamp for made, each in stated if each.timestamp},
        {made: each.sigstore for made, each in stated if each.sigstore},
    )


def signatures_error(where: str, expected: str, found: str, cause: str = "") -> AotcError:
    """Return the error (AOTC-E119) for signatures of an envelope that are not tried."""
    return refusal("AOTC-E119", where, found, cause=cause, expected=expected)


STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PROVENANCE_TYPE = "https://slsa.dev/provenance/v1"
CERTIFICATE_TYPE = "https://aotc.dev/certificate/v1"
SBOM_TYPE = "https://cyclonedx.org/bom"

SILENT_TYPES = frozenset({CERTIFICATE_TYPE, SBOM_TYPE})
"""Predicates that say something of a bundle and vouch for nothing; of no other type can this be
known: a trusted key may as well have signed "do not load this"."""


class Subject(Struct, frozen=True):
    """The subject of a statement, with digests in hex by algorithm."""

    name: str
    digest: dict[str, str]


class Statement(Struct, frozen=True, rename={"type": "_type"}):
    """A statement; the predicate is kept as it stands."""

    type: str
    subject: tuple[Subject, ...]
    predicateType: str
    predicate: msgspec.Raw
