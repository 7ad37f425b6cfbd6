"""Keys in key management services: AWS, Google Cloud, Azure and HashiCorp Vault.

URIs are those of cosign (https://docs.sigstore.dev/cosign/key_management/overview/):

    awskms:///alias/release
    gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/1
    azurekms://VAULT.vault.azure.net/KEY
    hashivault://KEY

Needs the extra `aotc[kms]`; securesystemslib's signers make the requests, with the credentials that
each service's own library finds. The private key stays in the service. What these libraries raise
becomes a finding of `signer_plugins`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from aotc.bundle.sign.signer_plugins import Ask

if TYPE_CHECKING:
    from securesystemslib.signer import Signer, SSlibKey


@dataclass(frozen=True, slots=True)
class ServiceKey:
    """One key in a service."""

    signer: Signer
    public: SSlibKey

    def public_key(self) -> str:
        """Return the public key, PEM."""
        value: str = self.public.keyval["public"]
        if self.public.keytype != "ed25519":
            return value
        encoded = Ed25519PublicKey.from_public_bytes(bytes.fromhex(value)).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return encoded.decode()

    def sign(self, message: bytes) -> bytes:
        """Return the service's signature: Ed25519, or DER-encoded ECDSA."""
        return bytes.fromhex(self.signer.sign(message).signature)


def open_key(uri: str, ask: Ask) -> ServiceKey:
    """Return the key that a URI names. Raises what the services' libraries raise.

    Example: `open_key("awskms:///alias/release", ask).public_key()`
    """
    from securesystemslib.signer import AWSSigner, AzureSigner, GCPSigner, VaultSigner

    scheme, _, name = uri.partition("://")
    vault, _, key = name.partition("/")
    known: dict[str, tuple[Any, tuple[str, ...]]] = {
        "awskms": (AWSSigner, (name.lstrip("/"),)),
        "gcpkms": (GCPSigner, (name,)),
        "azurekms": (AzureSigner, (vault.removesuffix(".vault.azure.net"), key)),
        "hashivault": (VaultSigner, (name,)),
    }
    service, arguments = known[scheme.lower()]
    found, public = service.import_(*arguments)
    return ServiceKey(service.from_priv_key_uri(found, public), public)
