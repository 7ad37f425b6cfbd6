"""Public keys that the package cryptography parses.

These are all but the plain spelling of an Ed25519 key. The module is imported for the first of
them, since that takes milliseconds.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from aotc_runtime.base.errors import AotcError, refusal

PEM_LABEL = "-----BEGIN PUBLIC KEY-----"


def parse_key(
    pem: str, where: str, *, is_one: bool
) -> tuple[bytes, Callable[[bytes, bytes], None]]:
    """Parse an ECDSA P-256 key, or an Ed25519 key in another spelling.

    `is_one` says whether the text is one PEM public key and nothing else. Returns the
    SubjectPublicKeyInfo in DER, and a function of signature and message that raises
    InvalidSignature. Raises TrustError (AOTC-E310).
    """
    if not is_one:
        found = _describe_text(pem)
        expected, hint = f"one PEM public key: {PEM_LABEL}", None
        if found == "no key" and "\n" not in pem:
            hint = "set `public_key_file` for the path of a .pub file"
        raise refusal("AOTC-E310", where, found, expected=expected, hint=hint)
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        said = str(error).splitlines()[0] if str(error) else ""
        raise _refusal(where, f"a PEM public key: {PEM_LABEL}", said) from error
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    if isinstance(key, ed25519.Ed25519PublicKey):
        return der, key.verify
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return der, partial(_verify_ecdsa, key, ec.ECDSA(hashes.SHA256()))
    raise _refusal(where, "an Ed25519 or ECDSA P-256 key", type(key).__name__)


def _describe_text(pem: str) -> str:
    """Describe a text that is not exactly one public key.

    With two keys, one would be trusted unnoticed; text around a key could name another owner.
    """
    if "PRIVATE KEY-----" in pem:
        return "a private key"
    count = pem.count(PEM_LABEL)
    if count == 1:
        return "a damaged key, or text around it"
    return f"{count} keys" if count else "no key"


def _refusal(where: str, expected: str, found: str) -> AotcError:
    return refusal("AOTC-E310", where, found, expected=expected)


def _verify_ecdsa(key: Any, algorithm: Any, signature: bytes, message: bytes) -> None:
    key.verify(signature, message, algorithm)
