"""Public keys that cryptography has to parse: all but the plain spelling of an Ed25519 key.
Imported for the first of them, since that takes it milliseconds.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from aotc_runtime.verification.public_keys import (
    PEM_LABEL,
    PublicKey,
    ed25519_key,
    key_refusal,
    public_key_of,
)


def parsed_key(pem: str, name: str, where: str) -> PublicKey:
    """An ECDSA P-256 key, or an Ed25519 key in another spelling. Raises TrustError (AOTC-E310)."""
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        said = str(error).splitlines()[0] if str(error) else "something else"
        hint = "use the .pub file that `aotc keygen` wrote"
        raise key_refusal(where, f"a PEM public key: {PEM_LABEL}", said, hint) from error
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    if isinstance(key, ed25519.Ed25519PublicKey):
        return ed25519_key(key, der, name, where)
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        check = partial(_verify_ecdsa, key, ec.ECDSA(hashes.SHA256()))
        return public_key_of(der, name, check)
    expected, hint = "an Ed25519 or ECDSA P-256 key", "make one with `aotc keygen`"
    raise key_refusal(where, expected, type(key).__name__, hint)


def found_instead(pem: str) -> str:
    """In words, for a text that is not one public key and nothing else: of two keys one would be
    trusted unnoticed, or none, and text around a key may say that it is another one.
    """
    if "PRIVATE KEY-----" in pem:
        return "a private key"
    count = pem.count(PEM_LABEL)
    if count == 1:
        return "text before or behind it, or a damaged one"
    return f"{count} of them" if count else "something else"


def _verify_ecdsa(key: Any, algorithm: Any, signature: bytes, message: bytes) -> None:
    key.verify(signature, message, algorithm)
