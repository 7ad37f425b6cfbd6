"""Signers: a key id, a public key and a function that signs bytes.

A key file is one; keys that lie elsewhere come in through `aotc.bundle.sign.signer_plugins`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aotc.base.workers.confined_process import keep_secret
from aotc.bundle.sign import signing_keys


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

    key: signing_keys.PrivateKey

    @classmethod
    def ephemeral(
        cls, key_type: signing_keys.KeyType = signing_keys.KeyType.ED25519
    ) -> LocalSigner:
        """Return a new key that is written nowhere."""
        return cls(signing_keys.new_key(key_type))

    def public_pem(self) -> str:
        """Return the public key, PEM."""
        return signing_keys.public_pem(self.key)

    @property
    def key_id(self) -> str:
        """The id of the key."""
        return signing_keys.key_id(self.key)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return signing_keys.sign(self.key, message)


def load_signer(path: Path, passphrase: bytes | None) -> LocalSigner:
    """Return a signer from a key file. Raises UsageError (AOTC-E006, E007)."""
    keep_secret(path)
    return LocalSigner(signing_keys.load_private_key(path, passphrase))
