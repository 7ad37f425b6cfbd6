"""DSSE envelopes: https://github.com/secure-systems-lab/dsse/blob/v1.0.2/envelope.md."""

import binascii

from msgspec import Struct

from aotc_runtime.errors import refusal

PAYLOAD_TYPE = "application/vnd.in-toto+json"


class Signature(Struct, frozen=True, kw_only=True):
    """sig: base64.  keyid: which key made it, by its own account; nobody signs this field."""

    sig: str
    keyid: str = ""


class Envelope(Struct, frozen=True, kw_only=True):
    """A signed payload. payload: base64. Unknown fields are ignored, as the specification asks."""

    payload: str
    payloadType: str
    signatures: tuple[Signature, ...]


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """What is signed: "DSSEv1" SP LEN(type) SP type SP LEN(payload) SP payload."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def decode_base64(text: str, *, where: str) -> bytes:
    """Standard base64 in its one canonical spelling. Raises BundleFormatError (AOTC-E107)."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise refusal("AOTC-E107", where, str(error)) from error
    if binascii.b2a_base64(data, newline=False).decode() != text:
        raise refusal("AOTC-E107", where, "another spelling of the same bytes")
    return data
