"""Keys in key management services: AWS, Google Cloud, Azure and HashiCorp Vault.

URIs (`SERVICES`) are those of cosign (https://docs.sigstore.dev/cosign/key_management/overview/).

Needs the extra `aotc[kms]`; securesystemslib's signers make the requests, with the credentials that
each service's own library finds. The private key stays in the service. What these libraries raise
becomes a finding of `signer_plugins`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from aotc.base.errors import refusal
from aotc.bundle.sign.signer_plugins import Ask

if TYPE_CHECKING:
    from securesystemslib.signer import Signer, SSlibKey

SERVICES = {
    "awskms": ("AWSSigner", "boto3", "///KEY", r"///(.+)"),
    "gcpkms": (
        *("GCPSigner", "google.cloud.kms"),
        "//projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/N",
        r"//(projects/.+/cryptoKeyVersions/[^/]+)",
    ),
    "azurekms": (
        *("AzureSigner", "azure.keyvault.keys", "//VAULT.vault.azure.net/KEY"),
        r"//([^/.]+)\.vault\.azure\.net/([^/]+)",
    ),
    "hashivault": ("VaultSigner", "hvac", "//KEY", r"//([^/]+)"),
}
"""By scheme: the class of securesystemslib, its service's library, and the rest of URIs."""


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
    """Return the key that a URI names. Raises UsageError (AOTC-E016), and what libraries raise.

    Example: `open_key("awskms:///alias/release", ask).public_key()`
    """
    scheme, _, rest = uri.partition(":")
    where = f"signer {scheme.lower()}"
    name, library, form, pattern = SERVICES[scheme.lower()]
    names = re.fullmatch(pattern, rest)
    if names is None:
        cause, expected = "key-uri-is-invalid", f"{scheme.lower()}:{form}"
        raise refusal("AOTC-E016", where, uri, cause=cause, expected=expected)
    try:
        service: Any = getattr(import_module("securesystemslib.signer"), name)
        import_module(library)
    except ImportError as error:
        cause = "packages-of-the-key-service-are-missing"
        raise refusal("AOTC-E016", where, str(error), cause=cause) from error
    found, public = service.import_(*names.groups())
    return ServiceKey(service.from_priv_key_uri(found, public), public)
