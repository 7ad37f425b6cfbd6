"""A Sigstore of our own: a certificate authority with its log, and a transparency log.

Written from https://github.com/sigstore/architecture-docs and RFC 6962, without its libraries.
"""

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aotc_runtime.base import canonical_json
from aotc_runtime.formats.in_toto import PAYLOAD_TYPE, pre_authentication_encoding

from .authorities import Authority, answer_to

ISSUER = "https://issuer.example.org"
IDENTITY = "https://ci.example.org/app/release@main"

_ISSUER_OID = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_SCT_OID = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_MONTH = timedelta(days=30)

Key = ec.EllipticCurvePrivateKey
Holder = Key | x509.CertificateSigningRequest
"""Whose public key gets a certificate."""


def new() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def spki(key: Key) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def sign(key: Key, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(hashes.SHA256()))


def log_id(key: Key) -> bytes:
    return hashlib.sha256(spki(key)).digest()


def digest_of(payload: bytes) -> bytes:
    return hashlib.sha256(pre_authentication_encoding(PAYLOAD_TYPE, payload)).digest()


@dataclass(slots=True)
class Sigstore:
    """An instance of its services. now: by all of their clocks. With an authority for timestamps,
    its log is a Rekor of version 2, which states no time itself.
    """

    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    authority: Key = field(default_factory=new)
    certificates: Key = field(default_factory=new)
    log: Key = field(default_factory=new)
    timestamps: Authority | None = None

    def trusted_root(self) -> str:
        """Return what a policy trusts of it."""
        since = {"start": _instant(self.now - _MONTH)}

        def instance(key: Key, url: str) -> dict[str, Any]:
            public = {
                "rawBytes": b64(spki(key)),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": since,
            }
            return {
                "baseUrl": url,
                "hashAlgorithm": "SHA2_256",
                "publicKey": public,
                "logId": {"keyId": b64(log_id(key))},
            }

        def authority(common_name: str, *chain: x509.Certificate) -> dict[str, Any]:
            der = [b64(each.public_bytes(serialization.Encoding.DER)) for each in chain]
            return {
                "subject": {"organization": "example", "commonName": common_name},
                "uri": "https://authority.invalid",
                "certChain": {"certificates": [{"rawBytes": each} for each in der]},
                "validFor": since,
            }

        clocks = [self.timestamps] if self.timestamps else []
        return json.dumps(
            {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [instance(self.log, "https://log.invalid")],
                "certificateAuthorities": [authority("authority", self.root())],
                "ctlogs": [instance(self.certificates, "https://certificates.invalid")],
                "timestampAuthorities": [authority("tsa", *each.chain()) for each in clocks],
            }
        )

    def root(self) -> x509.Certificate:
        builder = _builder(self.authority, _NAME, _NAME, self.now - _MONTH, self.now + _MONTH)
        return (
            builder.add_extension(x509.BasicConstraints(True, 0), True)
            .add_extension(_usage(key_cert_sign=True, crl_sign=True), True)
            .add_extension(_subject_id(self.authority), False)
            .sign(self.authority, hashes.SHA256())
        )

    def certificate(self, key: Holder, identity: str, issuer: str) -> x509.Certificate:
        """Return the certificate that the authority issues for an identity, for ten minutes."""
        ends = self.now + timedelta(minutes=10)
        builder = _builder(key, x509.Name([]), _NAME, self.now, ends)
        builder = (
            builder.add_extension(_usage(digital_signature=True), True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), False)
            .add_extension(_subject_id(key), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public_key()),
                False,
            )
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity)]), True
            )
            .add_extension(x509.UnrecognizedExtension(_ISSUER_OID, issuer.encode()), False)
        )
        before = builder.sign(self.authority, hashes.SHA256())
        logged = self._logged(before.tbs_certificate_bytes)
        return builder.add_extension(x509.UnrecognizedExtension(_SCT_OID, logged), False).sign(
            self.authority, hashes.SHA256()
        )

    def _logged(self, certificate: bytes) -> bytes:
        """The promise of the log of certificates (RFC 6962) to take this one."""
        at = int(self.now.timestamp() * 1000)
        issuer = hashlib.sha256(spki(self.authority)).digest()
        entry = issuer + struct.pack("!I", len(certificate))[1:] + certificate
        made = sign(self.certificates, struct.pack("!BBQH", 0, 0, at, 1) + entry + b"\0\0")
        one = (
            b"\0" + log_id(self.certificates) + struct.pack("!QHBBH", at, 0, 4, 3, len(made)) + made
        )
        listed = struct.pack("!HH", len(one) + 2, len(one)) + one
        return b"\x04" + _length(listed) + listed

    def signed(
        self, payload: bytes, identity: str = IDENTITY, issuer: str = ISSUER
    ) -> dict[str, Any]:
        """A Sigstore bundle of this payload."""
        key = new()
        return self.signed_with(key, self.certificate(key, identity, issuer), payload)

    def signed_with(
        self, key: Key, certificate: x509.Certificate, payload: bytes
    ) -> dict[str, Any]:
        """The same with a key that has a certificate already."""
        made = sign(key, pre_authentication_encoding(PAYLOAD_TYPE, payload))
        envelope = {
            "payload": b64(payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": b64(made)}],
        }
        der = certificate.public_bytes(serialization.Encoding.DER)
        material = {"certificate": {"rawBytes": b64(der)}}
        if self.timestamps:
            stamps = [{"signedTimestamp": answer_to(made, self.timestamps)}]
            material["timestampVerificationData"] = {"rfc3161Timestamps": stamps}
            material["tlogEntries"] = [self.entry_v2(digest_of(payload), made, der)]
        else:
            pem = certificate.public_bytes(serialization.Encoding.PEM)
            material["tlogEntries"] = [self.entry(payload, made, pem)]
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": material,
            "dsseEnvelope": envelope,
        }

    def entry_v2(self, digest: bytes, signature: bytes, der: bytes) -> dict[str, Any]:
        """Return what a Rekor of version 2 says: the third entry of five."""
        verifier = {
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "x509Certificate": {"rawBytes": b64(der)},
        }
        record = {
            "data": {"algorithm": "SHA2_256", "digest": b64(digest)},
            "signature": {"content": b64(signature), "verifier": verifier},
        }
        kind = {"kind": "hashedrekord", "version": "0.0.2"}
        spec = {"hashedRekordV002": record}
        body = canonical_json.encode(
            {"apiVersion": kind["version"], "kind": kind["kind"], "spec": spec}
        )
        leaves = [_leaf(bytes([number])) for number in range(5)]
        return {"kindVersion": kind, **self._included(body, 2, leaves)}

    def _included(self, body: bytes, index: int, leaves: list[bytes]) -> dict[str, Any]:
        """Return where a body is in a tree, beside these leaves, and the log's seal."""
        leaves[index] = _leaf(body)
        root = b64(_root(leaves))
        note = f"log.invalid\n{len(leaves)}\n{root}\n"
        seal = log_id(self.log)[:4] + sign(self.log, note.encode())
        return {
            "logIndex": str(index),
            "logId": {"keyId": b64(log_id(self.log))},
            "inclusionProof": {
                "logIndex": str(index),
                "rootHash": root,
                "treeSize": str(len(leaves)),
                "hashes": [b64(each) for each in _path(index, leaves)],
                "checkpoint": {"envelope": f"{note}\n\u2014 log.invalid {b64(seal)}\n"},
            },
            "canonicalizedBody": b64(body),
        }

    def entry(self, payload: bytes, signature: bytes, pem: bytes) -> dict[str, Any]:
        """Return what the transparency log says: the first entry of a log that has one."""
        at = int(self.now.timestamp())
        digest = {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()}
        body = canonical_json.encode(
            {
                "apiVersion": "0.0.1",
                "kind": "dsse",
                "spec": {
                    "envelopeHash": digest,
                    "payloadHash": digest,
                    "signatures": [{"signature": b64(signature), "verifier": b64(pem)}],
                },
            }
        )
        promise = canonical_json.encode(
            {
                "body": b64(body),
                "integratedTime": at,
                "logID": log_id(self.log).hex(),
                "logIndex": 0,
            }
        )
        return {
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(at),
            "inclusionPromise": {"signedEntryTimestamp": b64(sign(self.log, promise))},
            **self._included(body, 0, [b""]),
        }


def _leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\0" + data).digest()


def _halves(leaves: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    at = 1 << (len(leaves) - 1).bit_length() - 1
    return leaves[:at], leaves[at:]


def _root(leaves: list[bytes]) -> bytes:
    """Return a tree's hash (RFC 6962, 2.1)."""
    if len(leaves) == 1:
        return leaves[0]
    left, right = map(_root, _halves(leaves))
    return hashlib.sha256(b"\1" + left + right).digest()


def _path(index: int, leaves: list[bytes]) -> list[bytes]:
    """Return the path of a leaf (RFC 6962, 2.1.1)."""
    if len(leaves) == 1:
        return []
    left, right = _halves(leaves)
    if index < len(left):
        return [*_path(index, left), _root(right)]
    return [*_path(index - len(left), right), _root(left)]


_NAME = x509.Name(
    [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "example"),
        x509.NameAttribute(NameOID.COMMON_NAME, "authority"),
    ]
)


def _builder(
    key: Holder, subject: x509.Name, issuer: x509.Name, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _usage(**stated: bool) -> x509.KeyUsage:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: stated.get(name, False) for name in names})


def _subject_id(key: Holder) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _length(data: bytes) -> bytes:
    """DER's, of up to 255 bytes."""
    return bytes([len(data)]) if len(data) < 128 else bytes([0x81, len(data)])
