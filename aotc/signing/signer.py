"""What can sign: a key id, a public key and a function over bytes.

A key file is one; keys that lie elsewhere come in through `aotc.signing.plugins`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aotc.signing import keys
from aotc.workers.apart import keep_secret


class Signer(Protocol):
    """Signs messages with one key."""

    @property
    def key_id(self) -> str:
        """SHA-256 of the public key's SubjectPublicKeyInfo DER, hex."""

    def public_pem(self) -> str:
        """The public key, PEM SubjectPublicKeyInfo."""

    def sign(self, message: bytes) -> bytes:
        """Ed25519, or DER-encoded ECDSA P-256 with SHA-256."""


@dataclass(frozen=True, slots=True)
class LocalSigner:
    """A private key in this process' memory."""

    key: keys.PrivateKey

    @classmethod
    def ephemeral(cls, key_type: keys.KeyType = keys.KeyType.ED25519) -> LocalSigner:
        """A new key that is written nowhere."""
        return cls(keys.new_key(key_type))

    def public_pem(self) -> str:
        """The public key, PEM."""
        return keys.public_pem(self.key)

    @property
    def key_id(self) -> str:
        return keys.key_id(self.key)

    def sign(self, message: bytes) -> bytes:
        return keys.sign(self.key, message)


def load_signer(path: Path, passphrase: bytes | None) -> LocalSigner:
    """A signer from a key file. Raises UsageError (AOTC-E006, E007)."""
    keep_secret(path)
    return LocalSigner(keys.load_private_key(path, passphrase))
