"""Sigstore bundles, the form in which cosign, Kyverno and GitHub exchange attestations of images.

https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md and
https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto. An attestation of
ours has one for each signature; one of other tools becomes an attestation.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw, Struct

from aotc_runtime.base import canonical_json, limits
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.digest import is_digest
from aotc_runtime.formats import oci_layout, oci_referrers
from aotc_runtime.formats.in_toto import (
    PAYLOAD_TYPE,
    PROVENANCE_TYPE,
    Envelope,
    Signature,
    Statement,
    open_envelope,
)
from aotc_runtime.formats.oci_layout import SIGSTORE_TYPE, Descriptor

CONTENT, PREDICATE = "dev.sigstore.bundle.content", "dev.sigstore.bundle.predicateType"
"""Annotations by which clients choose a bundle."""


class Referrer(Struct, frozen=True):
    """A Sigstore bundle and its manifest, as bytes; `listed` describes that to lists."""

    bundle: bytes
    manifest: bytes
    listed: Descriptor


def referrers_of(envelope: bytes, root: Descriptor) -> Iterator[Referrer]:
    """Yield a Sigstore bundle for each signature of an in-toto envelope about a root."""
    signed = decode_foreign(envelope, Envelope, where="attestation")
    with suppress(ValueError, RecursionError):
        payload = base64.b64decode(signed.payload)
        kind = canonical_json.decoder(Statement).decode(payload).predicateType
        for signature in signed.signatures:
            document = {
                "mediaType": SIGSTORE_TYPE,
                "verificationMaterial": _material(signature),
                # Without a keyid: Go's library compares one with a fingerprint of its own.
                "dsseEnvelope": {
                    "payload": signed.payload,
                    "payloadType": signed.payloadType,
                    "signatures": [{"sig": signature.sig}],
                },
            }
            yield _referrer(canonical_json.encode(document), kind, root)


def _material(signature: Signature) -> Any:
    """Return the verification material of a signature. Raises ValueError if no reader takes it."""
    if len(signature.sigstore) > limits.MATERIAL_CHARACTERS_MAX:
        raise ValueError(f"{len(signature.sigstore)} characters of verification material")
    if signature.sigstore:
        return msgspec.json.decode(base64.b64decode(signature.sigstore))
    hint = signature.keyid
    if is_digest(f"sha256:{hint}"):  # spelled as cosign does
        hint = base64.b64encode(bytes.fromhex(hint)).decode()
    material: dict[str, Any] = {"publicKey": {"hint": hint}}
    if signature.timestamp:
        stamps = [{"signedTimestamp": signature.timestamp}]
        material["timestampVerificationData"] = {"rfc3161Timestamps": stamps}
    return material


def _referrer(bundle: bytes, kind: str, root: Descriptor) -> Referrer:
    annotations = {CONTENT: "dsse-envelope", PREDICATE: kind}
    manifest = oci_referrers.referrer_of(bundle, SIGSTORE_TYPE, root, annotations=annotations)
    listed = oci_referrers.describe(manifest, oci_layout.MANIFEST_TYPE)
    described = {"artifactType": SIGSTORE_TYPE, "annotations": annotations}
    return Referrer(bundle, manifest, msgspec.structs.replace(listed, **described))


class _Subject(Struct):
    digest: str


class _Manifest(Struct):
    artifactType: str
    layers: tuple[oci_layout.Entry, ...]
    subject: _Subject


def bundle_in(manifest: bytes, root: str) -> oci_layout.Entry | None:
    """Return the Sigstore bundle that a manifest attaches to a root; None for other documents."""
    try:
        found = canonical_json.decoder(_Manifest).decode(manifest)
    except (ValueError, RecursionError):
        return None
    types = [found.artifactType, *(layer.mediaType for layer in found.layers)]
    fits = types == [SIGSTORE_TYPE] * 2 and found.layers[0].size <= limits.ENVELOPE_BYTES_MAX
    return found.layers[0] if fits and found.subject.digest == root else None


class _Material(Struct):
    publicKey: dict[str, str] | None = None
    certificate: dict[str, Any] | None = None
    timestampVerificationData: dict[str, list[dict[str, str]]] = {}


class _Bundle(Struct):
    mediaType: str
    verificationMaterial: Raw
    dsseEnvelope: Envelope


class Read(Struct, frozen=True):
    """An attestation out of a Sigstore bundle; `subjects` are the digests that it is about."""

    envelope: bytes
    subjects: tuple[dict[str, str], ...]
    by_key: bool

    def is_about(self, root: str) -> bool:
        """Return whether the statement is about this root alone."""
        return self.subjects == ({"sha256": root.removeprefix("sha256:")},)


def read_bundle(data: bytes, where: str) -> Read:
    """Return the signed provenance in a Sigstore bundle, of which nothing is verified.

    Raises ValueError for other contents, and BundleFormatError: AOTC-E106, E107, E111.
    """
    marks = limits.MATERIAL_MARKS_MAX
    read = decode_foreign(data, _Bundle, where=where, marks=marks)
    envelope, material = read.dsseEnvelope, read.verificationMaterial
    if read.mediaType != SIGSTORE_TYPE:
        raise ValueError(read.mediaType or "no media type")
    if len(envelope.signatures) != 1:
        raise ValueError(f"{len(envelope.signatures)} signatures")
    sig, keyid = envelope.signatures[0].sig, envelope.signatures[0].keyid
    by = canonical_json.decoder(_Material).decode(material)
    if by.publicKey is not None:
        hint = by.publicKey.get("hint", "")
        stamps = by.timestampVerificationData.get("rfc3161Timestamps")
        if keyid not in ("", hint):
            raise ValueError(f"key hint {hint} beside keyid {keyid}")
        stamp = stamps[0].get("signedTimestamp", "") if stamps else ""
        signature = Signature(sig=sig, keyid=_key_id(hint), timestamp=stamp)
    elif by.certificate is not None:
        signature = Signature(sig=sig, sigstore=base64.b64encode(material).decode())
        _material(signature)
    else:
        raise ValueError("neither a public key nor a certificate")
    made = msgspec.structs.replace(envelope, signatures=(signature,))
    signed = open_envelope(canonical_json.encode(made), where)
    statement = decode_foreign(signed.payload, Statement, where=where)
    if (signed.payload_type, statement.predicateType) != (PAYLOAD_TYPE, PROVENANCE_TYPE):
        raise ValueError(f"{signed.payload_type} with {statement.predicateType}")
    subjects = tuple(subject.digest for subject in statement.subject)
    return Read(canonical_json.encode(made), subjects, by.publicKey is not None)


def signatures_in(envelope: bytes) -> set[tuple[str, str, bytes]]:
    """Return payload, signature and material of each signature of an envelope; none for junk.

    A copy of a signature with other material does not replace the signature.
    """
    with suppress(ValueError, RecursionError):
        found = canonical_json.decoder(Envelope).decode(envelope)
        materials = ((each.sig, _material(each)) for each in found.signatures)
        return {(found.payload, sig, canonical_json.encode(stated)) for sig, stated in materials}
    return set()


def _key_id(hint: str) -> str:
    """Return the id of a key that cosign names by its digest; empty for other hints."""
    with suppress(ValueError):
        data = base64.b64decode(hint, validate=True)
        return data.hex() if len(data) == 32 else ""
    return ""
