"""OpenSSF Model Signing: `model.sig`, a signed list of the files of a bundle's directory form.

The format is that of the PyPI package model-signing 1.1.1, whose source is its specification:

- `_signing/sign_sigstore_pb.py`: a Sigstore bundle as JSON, media type below, with a DSSE envelope;
- `_signing/sign_ec_key.py`, method "key": one ECDSA signature over the envelope's
  pre-authentication encoding; the key's hint is the SHA-256, in hex, of its public PEM text;
- `_signing/signing.py` `Payload`: an in-toto statement whose predicate lists every file with its
  digest, sorted by path; the subject's digest is the SHA-256 of these digests, one after the other;
- `_serialization/file.py`, `manifest.py`: method "files", paths relative to the folder.

https://github.com/sigstore/model-transparency. Written and read by our own code; tests/interop
compares both directions with the package.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec import Struct

from aotc.base.errors import finding, refusal
from aotc.bundle.sign.signer import Signer
from aotc_runtime.base import limits
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, BundleFormatError, Finding
from aotc_runtime.formats import in_toto
from aotc_runtime.formats.in_toto import STATEMENT_TYPE, SignedPayload, Subject
from aotc_runtime.verification.public_keys import PublicKey
from aotc_runtime.verification.root_signatures import is_signed_by

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
SIGNATURE_BYTES_MAX = 64 * 2**20
"""100,000 files, the most a bundle has, make about 30 MB."""

MARKS_MAX = 10 * limits.BLOBS_MAX
"""JSON marks of the list, which is read once its signature has verified: 7 for each file."""

FILES_NAMED_MAX = 20
"""How many differing files are named one by one."""


class PublicKeyHint(Struct, frozen=True, omit_defaults=True):
    """Which key signed, by its own account; nobody signs this field."""

    hint: str | None = None


class VerificationMaterial(Struct, frozen=True):
    """What a Sigstore bundle says about its key. tlogEntries: of a transparency log, none here."""

    publicKey: PublicKeyHint
    tlogEntries: tuple[msgspec.Raw, ...] = ()


class SigstoreBundle(Struct, frozen=True):
    """https://github.com/sigstore/protobuf-specs, sigstore_bundle.proto, as JSON."""

    mediaType: str
    verificationMaterial: VerificationMaterial
    dsseEnvelope: in_toto.Envelope


class Resource(Struct, frozen=True):
    """One file. name: its path in the folder.  digest: hex."""

    name: str
    algorithm: str
    digest: str


class Serialization(Struct, frozen=True):
    """How the list of files was made."""

    method: str
    hash_type: str
    allow_symlinks: bool


class Predicate(Struct, frozen=True):
    """The list of files."""

    serialization: Serialization
    resources: tuple[Resource, ...]


class ModelStatement(Struct, frozen=True, rename={"type": "_type"}):
    """The in-toto statement of model-signing 1.x."""

    type: str
    subject: tuple[Subject, ...]
    predicateType: str
    predicate: Predicate


class _Kind(Struct, frozen=True, rename={"type": "_type"}):
    """What any in-toto statement says about its kind."""

    type: str
    predicateType: str


def model_signature(files: Mapping[str, str], name: str, signer: Signer) -> bytes:
    """The bytes of `model.sig`. files: path in the folder to "sha256:…".  name: for people.

    Raises UsageError (AOTC-E021) unless the key is an ECDSA one, the kind that model-signing takes.
    """
    key = serialization.load_pem_public_key(signer.public_pem().encode())
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise refusal("AOTC-E021", "attest --openssf", "an Ed25519 key")
    resources = tuple(
        Resource(name=path, algorithm="sha256", digest=files[path].removeprefix("sha256:"))
        for path in sorted(files, key=PurePosixPath)
    )
    statement = ModelStatement(
        type=STATEMENT_TYPE,
        subject=(Subject(name=name, digest={"sha256": _root(resources)}),),
        predicateType=PREDICATE_TYPE,
        predicate=Predicate(Serialization("files", "sha256", allow_symlinks=False), resources),
    )
    payload = msgspec.json.encode(statement)
    pem = key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signature = signer.sign(in_toto.pre_authentication_encoding(in_toto.PAYLOAD_TYPE, payload))
    bundle = SigstoreBundle(
        mediaType=BUNDLE_TYPE,
        verificationMaterial=VerificationMaterial(PublicKeyHint(sha256(pem)[7:])),
        dsseEnvelope=in_toto.Envelope(
            payload=base64.b64encode(payload).decode(),
            payloadType=in_toto.PAYLOAD_TYPE,
            signatures=(in_toto.Signature(sig=base64.b64encode(signature).decode()),),
        ),
    )
    return msgspec.json.encode(bundle) + b"\n"


def verified_files(data: bytes, key: PublicKey, where: str) -> dict[str, str]:
    """The files that a `model.sig` vouches for: path to "sha256:…". Its list is parsed only after
    the signature over it has verified.

    Raises TrustError: AOTC-E351 no such document, E352 not signed by the key, E353 a statement of
    another kind, or one that contradicts itself.
    """
    envelope = _envelope(data, where)
    if len(envelope.signatures) != 1:
        raise _malformed(where, "exactly one signature", str(len(envelope.signatures)))
    try:
        payload = in_toto.decode_base64(envelope.payload, where=where)
        signature = in_toto.decode_base64(envelope.signatures[0].sig, where=where)
    except BundleFormatError as error:
        raise _malformed(where, error.findings[0].expected, error.findings[0].found) from error
    signed = SignedPayload(envelope.payloadType, payload, (("", signature),), where)
    if not is_signed_by(signed, key):
        found = "one that this key did not make over this content"
        raise refusal("AOTC-E352", where, found, key=key.id[:16])
    if envelope.payloadType != in_toto.PAYLOAD_TYPE:
        raise _other(where, f"a payload of type {in_toto.PAYLOAD_TYPE}", envelope.payloadType)
    return _files(payload, where)


def _envelope(data: bytes, where: str) -> in_toto.Envelope:
    if len(data) > SIGNATURE_BYTES_MAX:
        raise _malformed(where, f"at most {SIGNATURE_BYTES_MAX} bytes", "more")
    try:
        bundle = decode_foreign(
            data, SigstoreBundle, where=where, marks=limits.ATTESTATION_MARKS_MAX
        )
    except BundleFormatError as error:
        expected = "a Sigstore bundle in JSON, signed with a key"
        raise _malformed(where, expected, error.findings[0].found) from error
    if bundle.mediaType != BUNDLE_TYPE:
        raise _malformed(where, f"media type {BUNDLE_TYPE}", bundle.mediaType)
    return bundle.dsseEnvelope


def _files(payload: bytes, where: str) -> dict[str, str]:
    try:
        kind = decode_foreign(payload, _Kind, where=where, marks=MARKS_MAX)
        if (kind.type, kind.predicateType) != (STATEMENT_TYPE, PREDICATE_TYPE):
            expected = f"{STATEMENT_TYPE} with {PREDICATE_TYPE}"
            raise _other(where, expected, f"{kind.type} with {kind.predicateType}")
        statement = decode_foreign(payload, ModelStatement, where=where, marks=MARKS_MAX)
    except BundleFormatError as error:
        raise _other(where, "an in-toto statement", error.findings[0].found) from error
    predicate = statement.predicate
    how = (predicate.serialization.method, predicate.serialization.hash_type)
    algorithms = {resource.algorithm for resource in predicate.resources}
    if how != ("files", "sha256") or algorithms != {"sha256"}:
        found = " ".join((*how, *sorted(algorithms)))
        raise _other(where, "whole files by SHA-256", found)
    files = {r.name: f"sha256:{r.digest}" for r in predicate.resources}
    if len(files) != len(predicate.resources):
        raise _other(where, "each file once", "one twice")
    try:
        root = _root(predicate.resources)
    except ValueError as error:
        raise _other(where, "digests in hex", str(error)) from error
    if [subject.digest for subject in statement.subject] != [{"sha256": root}]:
        raise _other(where, f"one subject, whose digest is that of the files: {root}", "another")
    return files


def differences(
    signed: Mapping[str, str], found: Mapping[str, str], where: str
) -> Iterator[Finding]:
    """AOTC-E354 for each file that is changed, missing or not listed; the first ones by name."""
    names = sorted(
        name for name in signed.keys() | found.keys() if signed.get(name) != found.get(name)
    )
    for name in names[:FILES_NAMED_MAX]:
        expected = signed.get(name, "no such file: it is not listed")
        it = found.get(name, "no such file")
        yield finding("AOTC-E354", f"{where} {name}", it, expected=expected)
    if len(names) > FILES_NAMED_MAX:
        rest = f"{len(names) - FILES_NAMED_MAX} more files differ"
        yield finding("AOTC-E354", where, rest, expected="the files that were signed")


def _root(resources: tuple[Resource, ...]) -> str:
    """The digest of the digests, hex. Raises ValueError if one is not hex."""
    return sha256(b"".join(bytes.fromhex(resource.digest) for resource in resources))[7:]


def _malformed(where: str, expected: str, found: str) -> AotcError:
    return refusal("AOTC-E351", where, found, expected=expected)


def _other(where: str, expected: str, found: str) -> AotcError:
    return refusal("AOTC-E353", where, found, expected=expected)
