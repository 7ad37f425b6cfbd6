"""Keys in PKCS#11 tokens: smart cards, hardware security modules, SoftHSM.

https://docs.oasis-open.org/pkcs11/pkcs11-spec/v3.1/pkcs11-spec-v3.1.html. The plug-in of the scheme
`pkcs11`; needs the extra `aotc[pkcs11]`. The private key stays in the token, which is opened and
closed for every signature.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from aotc.base.errors import refusal
from aotc.base.workers.confined_process import keep_secret
from aotc.bundle.sign.signer_plugins import Ask
from aotc.commands.pkcs11.pkcs11_uri import Pkcs11Uri, parse_uri
from aotc_runtime.system.bundle_files import read_file

if TYPE_CHECKING:
    import pkcs11

TOKEN = "PKCS#11 token"
"""What findings name as their place."""

PIN_VARIABLE = "AOTC_PKCS11_PIN"
PIN_BYTES_MAX = 4096

_P256 = bytes.fromhex("06082a8648ce3d030107")
"""DER of the object identifier prime256v1 (SEC 2)."""

_ED25519 = (bytes.fromhex("06032b6570"), bytes.fromhex("130c656477617264733235353139"))
"""DER of the object identifier id-Ed25519 (RFC 8410), and of PKCS#11's name "edwards25519"."""

_POINT_BYTES = {"Ed25519": 32, "P-256": 65}


@dataclass(frozen=True, slots=True)
class TokenKey:
    """One private key in one token. pin: kept for the signature, never shown."""

    uri: Pkcs11Uri
    pin: str = field(repr=False)

    def public_key(self) -> str:
        """Return the public key. Raises UsageError: AOTC-E018 not found, E019 PIN rejected."""
        with self._session() as session:
            private = _private_key(session, self.uri)
            public = _public_half(session, private)
            kind, point = _point(public)
        encoded: ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey
        if kind == "Ed25519":
            encoded = ed25519.Ed25519PublicKey.from_public_bytes(point)
        else:
            encoded = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        return encoded.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ).decode()

    def sign(self, message: bytes) -> bytes:
        """Sign a message. Raises UsageError (AOTC-E018, E019)."""
        import pkcs11

        with self._session() as session:
            key = _private_key(session, self.uri)
            assert isinstance(key, pkcs11.PrivateKey) and isinstance(key, pkcs11.SignMixin)
            if key.key_type is pkcs11.KeyType.EC_EDWARDS:
                return bytes(key.sign(message, mechanism=pkcs11.Mechanism.EDDSA))
            # Not ECDSA_SHA256: some tokens only sign what was hashed before.
            digest = hashlib.sha256(message).digest()
            raw = bytes(key.sign(digest, mechanism=pkcs11.Mechanism.ECDSA))
        half = len(raw) // 2
        return encode_dss_signature(
            int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big")
        )

    @contextmanager
    def _session(self) -> Iterator[pkcs11.Session]:
        import pkcs11

        try:
            with _token(self.uri).open(user_pin=self.pin) as session:
                yield session
        except (
            pkcs11.PinIncorrect,
            pkcs11.PinInvalid,
            pkcs11.PinLenRange,
            pkcs11.PinExpired,
            pkcs11.PinLocked,
        ) as error:
            found, cause = type(error).__name__, "pkcs-11-pin-is-wrong"
            raise refusal("AOTC-E019", TOKEN, found, cause=cause) from error
        except pkcs11.PKCS11Error as error:
            found = f"{type(error).__name__} {error}".strip()
            raise refusal("AOTC-E018", TOKEN, found) from error


def open_key(uri: str, ask: Ask) -> TokenKey:
    """Return the key that an RFC 7512 URI names.

    The PIN comes from the URI's pin-source, else the variable AOTC_PKCS11_PIN, else a prompt.

    Raises:
        UsageError: AOTC-E017 no such URI, E018 the extra is not installed, E019 no PIN.
    """
    parsed = parse_uri(uri)
    try:
        import pkcs11  # noqa: F401 - whether it is there
    except ImportError as error:
        cause = "python-pkcs11-is-not-installed"
        raise refusal("AOTC-E018", TOKEN, str(error), cause=cause) from error
    return TokenKey(parsed, _pin(parsed, ask))


def _pin(uri: Pkcs11Uri, ask: Ask) -> str:
    if uri.pin_source is not None:
        keep_secret(uri.pin_source)
        try:
            data = read_file(uri.pin_source, PIN_BYTES_MAX)
            pin = data.partition(b"\n")[0].rstrip(b"\r").decode()
        except (OSError, UnicodeDecodeError) as error:
            found = (error.strerror if isinstance(error, OSError) else None) or "not text"
            cause = "pin-file-is-not-readable"
            raise refusal("AOTC-E019", str(uri.pin_source), found, cause=cause) from error
    else:
        pin = os.environ.get(PIN_VARIABLE) or ask(f"PIN of {uri.token.get('token', 'token')}") or ""
    if not pin:
        raise refusal("AOTC-E019", TOKEN, "")
    return pin


def _token(uri: Pkcs11Uri) -> pkcs11.Token:
    import pkcs11

    # SoftHSM and others always show one more slot, with a token that is not set up yet.
    slots = pkcs11.lib(uri.module).get_tokens()
    tokens = [token for token in slots if pkcs11.TokenFlag.TOKEN_INITIALIZED in token.flags]
    matching = [token for token in tokens if _matches(token, uri.token)]
    if len(matching) != 1:
        wanted = ", ".join(f"{name} {value}" for name, value in uri.token.items()) or "any"
        there = ", ".join(sorted(token.label for token in tokens)) or "none"
        found = f"{len(matching)} matching tokens; present: {there}"
        cause = "pkcs-11-token-not-found"
        raise refusal("AOTC-E018", TOKEN, found, cause=cause, expected=f"one token ({wanted})")
    return matching[0]


def _matches(token: pkcs11.Token, wanted: dict[str, str]) -> bool:
    found = {
        "token": token.label,
        "serial": token.serial.decode(errors="replace").rstrip("\0 "),
        "manufacturer": token.manufacturer_id,
        "model": token.model,
        "slot-id": str(token.slot.slot_id),
    }
    return all(found[name] == value for name, value in wanted.items())


def _private_key(session: pkcs11.Session, uri: Pkcs11Uri) -> pkcs11.Object:
    import pkcs11

    wanted: dict[pkcs11.Attribute, object] = {
        pkcs11.Attribute.CLASS: pkcs11.ObjectClass.PRIVATE_KEY
    }
    if uri.label is not None:
        wanted[pkcs11.Attribute.LABEL] = uri.label
    if uri.id is not None:
        wanted[pkcs11.Attribute.ID] = uri.id
    keys = list(session.get_objects(wanted))
    if len(keys) != 1:
        found, cause = f"{len(keys)} matching keys", "pkcs-11-private-key-not-found"
        raise refusal("AOTC-E018", TOKEN, found, cause=cause)
    return keys[0]


def _public_half(session: pkcs11.Session, private: pkcs11.Object) -> pkcs11.Object:
    """Find the public key by the id that both halves have, and by the label if several share it."""
    import pkcs11

    id_, label = private[pkcs11.Attribute.ID], private[pkcs11.Attribute.LABEL]
    kind = {pkcs11.Attribute.CLASS: pkcs11.ObjectClass.PUBLIC_KEY}
    keys = list(session.get_objects({**kind, pkcs11.Attribute.ID: id_})) if id_ else []
    if len(keys) != 1:
        keys = [k for k in keys or session.get_objects(kind) if k[pkcs11.Attribute.LABEL] == label]
    if len(keys) != 1:
        found = f"{len(keys)} public keys with its id or label"
        raise refusal("AOTC-E018", TOKEN, found, cause="pkcs-11-public-key-not-found")
    return keys[0]


def _point(public: pkcs11.Object) -> tuple[str, bytes]:
    """Return a public key's type, and its bytes without the token's OCTET STRING."""
    import pkcs11

    expected, cause = "Ed25519, ECDSA P-256", "unsupported-pkcs-11-key-type"
    if public[pkcs11.Attribute.KEY_TYPE] not in (pkcs11.KeyType.EC, pkcs11.KeyType.EC_EDWARDS):
        found = pkcs11.KeyType(public[pkcs11.Attribute.KEY_TYPE]).name
        raise refusal("AOTC-E018", TOKEN, found, cause=cause, expected=expected)
    parameters = bytes(public[pkcs11.Attribute.EC_PARAMS])
    point = bytes(public[pkcs11.Attribute.EC_POINT])
    kind = "P-256" if parameters == _P256 else "Ed25519" if parameters in _ED25519 else ""
    size = _POINT_BYTES.get(kind, 0)
    if len(point) == size + 2 and point[:2] == bytes([4, size]):
        point = point[2:]
    if len(point) != size:
        found = f"curve {parameters.hex()}"
        raise refusal("AOTC-E018", TOKEN, found, cause=cause, expected=expected)
    return kind, point
