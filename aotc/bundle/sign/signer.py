"""Signers: a key id, a public key and a function that signs bytes.

A key file is one: Ed25519 or ECDSA P-256, as PKCS#8 PEM, encrypted or plain. Keys that lie
elsewhere come in through `aotc.bundle.sign.signer_plugins`.
"""

from __future__ import annotations

import errno
import hashlib
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from aotc.base.errors import refusal
from aotc.base.temporary_files import create_all_or_none, prefix_of, remove_abandoned
from aotc.base.workers.confined_process import keep_secret
from aotc_runtime.system.bundle_files import read_file

KEY_BYTES_MAX = 64 * 2**10
"""A PEM key has a few hundred bytes."""

_PEM_LABEL = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")

_ALONE = re.compile(
    rb"\A\s*(?:-----BEGIN EC PARAMETERS-----[^-]*-----END EC PARAMETERS-----\s*)?"
    rb"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----\r?\n(?:[^-]|-(?!----))*-----END \1-----\s*\Z"
)

OTHER_FILES = {
    b"OPENSSH PRIVATE KEY": "an OpenSSH key",
    b"PUBLIC KEY": "a public key",
    b"CERTIFICATE": "a certificate",
}
"""PEM files that are taken for private keys, by their labels."""

type PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey


class KeyType(Enum):
    """The kinds of keys a trust policy can name."""

    ED25519 = "ed25519"
    ECDSA_P256 = "ecdsa-p256"


class Signer(Protocol):
    """Signs messages with one key."""

    @property
    def key_id(self) -> str:
        """SHA-256 of the public key's SubjectPublicKeyInfo DER, hex."""

    def public_pem(self) -> str:
        """Return the public key, PEM SubjectPublicKeyInfo."""

    def sign(self, message: bytes) -> bytes:
        """Ed25519, or DER-encoded ECDSA P-256 with SHA-256."""


@dataclass(frozen=True, slots=True)
class LocalSigner:
    """A private key in this process' memory."""

    key: PrivateKey

    @classmethod
    def ephemeral(cls, key_type: KeyType = KeyType.ED25519) -> LocalSigner:
        """Return a new key that is written nowhere."""
        if key_type is KeyType.ED25519:
            return cls(ed25519.Ed25519PrivateKey.generate())
        return cls(ec.generate_private_key(ec.SECP256R1()))

    def public_pem(self) -> str:
        """Return the public key, PEM."""
        return self._public(serialization.Encoding.PEM).decode()

    @property
    def key_id(self) -> str:
        """The id of the key."""
        return hashlib.sha256(self._public(serialization.Encoding.DER)).hexdigest()

    def _public(self, encoding: serialization.Encoding) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.key.public_key().public_bytes(encoding, form)

    def sign(self, message: bytes) -> bytes:
        """Return the signature: raw Ed25519, or DER-encoded ECDSA with SHA-256; the same each time.

        The nonce of ECDSA is derived from key and message (RFC 6979), so that builds reproduce and
        a bad source of randomness gives no key away.
        """
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            return self.key.sign(message)
        return self.key.sign(message, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The files of a key pair; `id` is the SHA-256 of the public SubjectPublicKeyInfo, in hex."""

    private: Path
    public: Path
    id: str


def generate_key_pair(
    prefix: Path, passphrase: bytes | None, key_type: KeyType = KeyType.ED25519
) -> KeyPair:
    """Write PREFIX.key (mode 0600, encrypted if there is a passphrase) and PREFIX.pub.

    Raises UsageError: AOTC-E005 if either file exists, E003 if they cannot be written, E009 for an
    empty passphrase.
    """
    if passphrase == b"":
        raise refusal("AOTC-E009", str(prefix), "an empty passphrase")
    if prefix.name in ("", ".."):
        raise refusal("AOTC-E003", str(prefix), "", cause="key-prefix-is-a-directory")
    private, public = Path(f"{prefix}.key"), Path(f"{prefix}.pub")
    for path in (private, public):
        remove_abandoned(path.parent, prefix_of(path))
    signer = LocalSigner.ephemeral(key_type)
    encryption: serialization.KeySerializationEncryption = (
        serialization.BestAvailableEncryption(passphrase)
        if passphrase is not None
        else serialization.NoEncryption()
    )
    secret = signer.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    # With the final mode: never readable by others.
    pair = ((private, secret, 0o600), (public, signer.public_pem().encode(), 0o644))
    try:
        create_all_or_none(*pair)
    except FileExistsError as error:
        existing = private if error.filename2 == str(private) else public
        raise refusal("AOTC-E005", str(existing), "") from error
    except OSError as error:
        raise refusal("AOTC-E003", str(prefix), error.strerror or str(error)) from error
    return KeyPair(private, public, signer.key_id)


def load_signer(path: Path, passphrase: bytes | None) -> LocalSigner:
    """Return a signer from a PEM private key, PKCS#8 or OpenSSL's older forms.

    Processes for model files are kept from reading the file.

    Raises UsageError: AOTC-E006 unreadable or no such key, E007 wrong or missing passphrase.
    """
    keep_secret(path)
    try:
        data = read_key_file(path)
    except OSError as error:
        found = error.strerror or str(error)
        cause = "private-key-is-not-readable"
        raise refusal("AOTC-E006", str(path), found, cause=cause) from error
    key = _load(data, path, passphrase)
    # One of two keys would sign unnoticed, and text may describe another key. openssl writes the
    # parameters of a curve before the key.
    if not _ALONE.match(data):
        raise refusal("AOTC-E006", str(path), "", cause="key-file-holds-more-than-one-key")
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return LocalSigner(key)
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return LocalSigner(key)
    found = type(key).__name__.removesuffix("PrivateKey")
    if isinstance(key, ec.EllipticCurvePrivateKey):
        found = f"ECDSA {key.curve.name}"
    raise refusal("AOTC-E006", str(path), found, cause="unsupported-key-type")


def read_key_file(path: Path) -> bytes:
    """Read a file that should be a key. Raises OSError, also for a file too large for one."""
    data = read_file(path, KEY_BYTES_MAX)
    if len(data) > KEY_BYTES_MAX:
        raise OSError(errno.EFBIG, f"more than {KEY_BYTES_MAX} bytes")
    return data


def is_encrypted(data: bytes) -> bool:
    """Return whether a PEM file is a whole private key that a passphrase protects."""
    try:
        serialization.load_pem_private_key(data, None)
    except TypeError:  # what cryptography raises for exactly this
        return True
    except (ValueError, UnsupportedAlgorithm):
        return False
    return False


def _load(data: bytes, path: Path, passphrase: bytes | None) -> PrivateKeyTypes:
    encrypted = is_encrypted(data)
    if encrypted and not passphrase:
        raise refusal("AOTC-E007", str(path), "")
    try:
        return serialization.load_pem_private_key(data, passphrase if encrypted else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if encrypted:
            raise refusal("AOTC-E007", str(path), "", cause="passphrase-is-wrong") from error
        expected, found = "a PKCS#8 PEM private key", _what_it_is(data)
        raise refusal("AOTC-E006", str(path), found, expected=expected) from error


def _what_it_is(data: bytes) -> str:
    """Describe a file that holds no readable private key."""
    label = _PEM_LABEL.search(data)
    if label is None:
        return "something else"
    if label[1] in OTHER_FILES:
        return OTHER_FILES[label[1]]
    whole = b"-----END " + label[1] + b"-----" in data
    return "a damaged key" if whole else "a truncated key"
