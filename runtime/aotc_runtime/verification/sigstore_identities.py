"""Sigstore signatures: the verification material beside a signature.

A certificate says that an issuer knew this identity for the minutes in which the signature was
made, and a transparency log that it was made then. All of it is checked offline, from the trusted
root that the policy has. Imported where a policy names identities.
https://github.com/sigstore/protobuf-specs
"""

import base64
import json
from collections.abc import Iterator
from functools import lru_cache
from types import SimpleNamespace
from typing import Annotated, Any

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import Meta, Struct

from aotc_runtime.base import canonical_json, limits
from aotc_runtime.base.digest import sha256_bytes
from aotc_runtime.base.errors import Finding, finding, refusal
from aotc_runtime.base.rendering import reason_of
from aotc_runtime.formats import in_toto
from aotc_runtime.formats.in_toto import SignedPayload
from aotc_runtime.formats.oci_layout import SIGSTORE_TYPE
from aotc_runtime.schema.trust_policy import Identity, TrustPolicy
from aotc_runtime.verification.public_keys import PublicKey, Trials

_EFFORT, _EFFORT_PER_BYTE = 32 * limits.TRIAL_BYTES, 4
"""Cost of one trial of an identity: a millisecond or two, and several copies of the payload."""


def key_id(identity: Identity) -> str:
    """Return the id of an identity, used like a key's id."""
    return sha256_bytes(f"{identity.issuer}\n{identity.identity}".encode()).hex()


def as_keys(policy: TrustPolicy) -> dict[str, PublicKey]:
    """Return the policy's identities by id, as keys that have made no signature themselves."""
    return {
        id: PublicKey(
            id,
            each.name or each.identity,
            lambda signature, message: False,
            revoked=id in policy.revoked.keys,
            revoked_since=policy.revoked.since.get(id),
            holder=each.holder or id,
            builders=each.builders,
        )
        for each in policy.identities
        for id in (key_id(each),)
    }


def check_identities(policy: TrustPolicy, where: str) -> Iterator[Finding]:
    """Yield AOTC-E309 for each duplicate identity, and each one without exactly one trusted root.

    A trusted root is JSON text or the path of a file; neither or both is an error.
    """
    seen: set[str] = set()
    for index, identity in enumerate(policy.identities):
        place = _place(where, index, identity)
        if bool(identity.trusted_root) == bool(identity.trusted_root_file):
            found = "both" if identity.trusted_root else "neither"
            expected = "exactly one of trusted_root and trusted_root_file"
            hint = "set `trusted_root` to JSON text, or `trusted_root_file` to a path"
            yield finding("AOTC-E309", place, found, expected=expected, hint=hint)
        if key_id(identity) in seen:
            expected, hint = "each identity once", "remove the duplicate"
            yield finding("AOTC-E309", place, identity.identity, expected=expected, hint=hint)
        seen.add(key_id(identity))


def match_signatures(
    signed: SignedPayload, signature: bytes, policy: TrustPolicy, unknown: set[str], trials: Trials
) -> list[tuple[str, bytes]]:
    """Return the id of the identity that made a signature, with the signature.

    If none did, the reason is added to `unknown`. Raises TrustError: AOTC-E309 for an invalid
    trusted root, E334 if sigstore is not installed; BundleFormatError: AOTC-E107, E111, E119.
    """
    where, material = signed.where, signed.materials[signature]
    if len(material) > limits.MATERIAL_CHARACTERS_MAX:
        found = f"verification material of {len(material)} characters"
        expected = f"at most {limits.MATERIAL_CHARACTERS_MAX}"
        raise refusal("AOTC-E111", where, found, expected=expected)
    data = in_toto.decode_base64(material, where=f"{where} sigstore")
    canonical_json.check_marks(data, limits.MATERIAL_MARKS_MAX, where)
    reasons = []
    for index, identity in enumerate(policy.identities):
        trials.spend(_EFFORT + _EFFORT_PER_BYTE * len(signed.payload), where)
        reason = _implausible(data, signed, signature, identity)
        if reason is None:
            root = _trusted_root(identity, _place("trust policy", index, identity))
            reason = _why_refused(data, signed, signature, identity, root)
        if reason is None:
            return [(key_id(identity), signature)]
        reasons.append(f"{identity.name or identity.identity}: {reason}")
    unknown.add(f"one with Sigstore's material ({', '.join(reasons)})")
    return []


class _Raw(Struct):
    rawBytes: str


class _Material(Struct):
    """The parsed parts of Sigstore's material, as its clients write it since version 0.3."""

    certificate: _Raw
    tlogEntries: Annotated[list[msgspec.Raw], Meta(min_length=1, max_length=1)]


def _implausible(
    material: bytes, signed: SignedPayload, signature: bytes, identity: Identity
) -> str | None:
    """Return why the material cannot prove this identity's signature; None if it may.

    Whoever can change a bundle can add junk, and Sigstore's library takes a second and 60 MB to be
    imported. So it is asked about certificates alone that an authority of the trusted root has
    given to this identity, and that made the signature. What passes is verified by it, whole.
    """
    try:
        found = canonical_json.decoder(_Material).decode(material)
        certificate = x509.load_der_x509_certificate(base64.b64decode(found.certificate.rawBytes))
        data = certificate.public_bytes(Encoding.DER)
        if identity.identity.encode() not in data or identity.issuer.encode() not in data:
            return "a certificate of another identity"
        key = certificate.public_key()
        if isinstance(key, ec.EllipticCurvePublicKey):
            message = in_toto.pre_authentication_encoding(signed.payload_type, signed.payload)
            key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return "a certificate of another signature"
    except (ValueError, RecursionError, UnsupportedAlgorithm):
        return "no material of a bundle of version 0.3, with one entry of a log"
    authorities = _authorities(identity.trusted_root)
    if authorities and not any(_is_issuer(certificate, each) for each in authorities):
        return "a certificate of another authority"
    return None


def _is_issuer(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


@lru_cache(maxsize=8)
def _authorities(trusted_root: str) -> tuple[x509.Certificate, ...]:
    """Return the certificates of a trusted root's authorities.

    None are returned if they cannot be read here; Sigstore's library then reports the error.
    """
    try:
        root = canonical_json.decoder(dict[str, Any]).decode(trusted_root.encode())
        return tuple(
            x509.load_der_x509_certificate(base64.b64decode(each["rawBytes"]))
            for authority in root["certificateAuthorities"]
            for each in authority["certChain"]["certificates"]
        )
    except (LookupError, TypeError, ValueError, RecursionError, UnsupportedAlgorithm):
        return ()


def _why_refused(
    material: bytes, signed: SignedPayload, signature: bytes, identity: Identity, root: Any
) -> str | None:
    """Return why the material does not prove this identity's signature; None if it does."""
    sigstore = _sigstore()
    envelope = {
        "payload": base64.b64encode(signed.payload).decode(),
        "payloadType": signed.payload_type,
        "signatures": [{"sig": base64.b64encode(signature).decode()}],
    }
    try:
        document = {
            "mediaType": SIGSTORE_TYPE,
            "verificationMaterial": json.loads(material),
            "dsseEnvelope": envelope,
        }
        bundle = sigstore.Bundle.from_json(json.dumps(document))
        rule = sigstore.Rule(identity=identity.identity, issuer=identity.issuer)
        found = sigstore.Verifier(trusted_root=root).verify_dsse(bundle, rule)
    except BaseException as error:  # noqa: BLE001 - whatever it dies of, it has shown nothing
        return reason_of(error)
    return None if found == (signed.payload_type, signed.payload) else "another payload"


def _trusted_root(identity: Identity, where: str) -> Any:
    _sigstore()
    try:
        return _read_root(identity.trusted_root)
    except BaseException as error:
        expected = "a trusted root of Sigstore (JSON)"
        hint = "ask the operator of the Sigstore instance for its `trusted_root.json`"
        found = reason_of(error)
        raise refusal("AOTC-E309", where, found, expected=expected, hint=hint) from error


@lru_cache(maxsize=8)
def _read_root(trusted_root: str) -> Any:
    sigstore = _sigstore()
    return sigstore.TrustedRoot(sigstore.Written.from_json(trusted_root))


def _sigstore() -> Any:
    """Return the used names of `sigstore` and `sigstore-models`; none uses the network."""
    try:
        from sigstore.models import Bundle, TrustedRoot
        from sigstore.verify.policy import Identity as Rule
        from sigstore.verify.verifier import Verifier
        from sigstore_models.trustroot.v1 import TrustedRoot as Written
    except ImportError as error:
        raise refusal("AOTC-E334", "identity", str(error)) from error
    return SimpleNamespace(
        Bundle=Bundle, Rule=Rule, TrustedRoot=TrustedRoot, Verifier=Verifier, Written=Written
    )


def _place(where: str, index: int, identity: Identity) -> str:
    return f"{where} identities[{index}] {identity.name}".rstrip()
