"""Public keys: read from PEM, and asked whether a signature is theirs.

What is needed of cryptography is imported inside the functions: most of it is only for kinds of
keys and files that a process may never see.
"""

import binascii
import re
from collections.abc import Callable
from datetime import datetime
from typing import Literal

from msgspec import Struct

from aotc_runtime.base import limits
from aotc_runtime.base.digest import sha256_bytes
from aotc_runtime.base.errors import refusal
from aotc_runtime.formats.in_toto import signatures_error

_PEM = re.compile(
    r"\A\s*-----BEGIN PUBLIC KEY-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END PUBLIC KEY-----\s*\Z"
)
_ED25519_PREFIX = bytes.fromhex("302a300506032b6570032100")
"""All of an Ed25519 SubjectPublicKeyInfo but the key's 32 bytes (RFC 8410, section 4)."""

_ED25519_BYTES = len(_ED25519_PREFIX) + 32

_P = 2**255 - 19
_Y_OF_ORDER_8 = int("7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7", 16)
_SMALL_ORDER = frozenset({0, 1, _P - 1, _Y_OF_ORDER_8, _P - _Y_OF_ORDER_8})
"""y of the 8 points of edwards25519 whose order divides 8. Under such a key a signature that
anybody can write down verifies for one message in 8, or for all."""

KeyState = Literal["valid", "not yet valid", "expired", "revoked"]


class PublicKey(Struct, frozen=True):
    """A key whose signatures can be checked.

    Attributes:
        id: SHA-256 of the SubjectPublicKeyInfo, hex.
        verify: function of signature and message to whether the signature is this key's.
        not_before, not_after: inclusive ends of its window, None for no end.
        revoked: its signatures never count.
        revoked_since: those made from then on do not count.
        holder: who counts for it; the key's id if the policy names none.
        builders: ids of builders whose builds it may describe.
    """

    id: str
    name: str
    verify: Callable[[bytes, bytes], bool]
    not_before: datetime | None = None
    not_after: datetime | None = None
    revoked: bool = False
    revoked_since: datetime | None = None
    holder: str = ""
    builders: tuple[str, ...] | None = None

    @property
    def label(self) -> str:
        """Return the key's name for messages, or its holder's, and the start of its id."""
        called = self.name or ("" if self.holder == self.id else self.holder)
        return f"{called} ({self.id[:16]})" if called else self.id[:16]

    def state(self, now: float) -> KeyState:
        """Return whether a signature made at this time counts.

        `now` is in seconds since the epoch: the signing time, or the time of checking if it is
        unknown.
        """
        since = self.revoked_since
        if self.revoked or (since is not None and now >= since.timestamp()):
            return "revoked"
        if self.not_before is not None and now < self.not_before.timestamp():
            return "not yet valid"
        if self.not_after is not None and now > self.not_after.timestamp():
            return "expired"
        return "valid"


class SigningTime(Struct, frozen=True):
    """The time at which a signature's key is evaluated, seconds since the epoch.

    `stamped` says whether an authority stated it; otherwise it is the time of checking, and `why`
    says why a timestamp does not count.
    """

    at: float
    stamped: bool = False
    why: str = ""


class Trials:
    """Signatures that are tried with keys.

    The total cost for a bundle is bounded, since an intermediary can add signatures over long
    messages.
    """

    def __init__(self) -> None:
        self._left = limits.TRIED_BYTES_MAX

    def verify(self, key: PublicKey, signature: bytes, message: bytes, where: str) -> bool:
        """Return whether the signature is this key's. Raises BundleFormatError (AOTC-E119)."""
        self.spend(len(message) + limits.TRIAL_BYTES, where)
        return key.verify(signature, message)

    def spend(self, effort: int, where: str) -> None:
        """Count work that takes as long as hashing this many bytes.

        Raises:
            BundleFormatError: AOTC-E119, if the total exceeds the limit.
        """
        self._left -= effort
        if self._left < 0:
            expected = f"work of at most {limits.TRIED_BYTES_MAX} hashed bytes"
            raise signatures_error(where, expected, "more", "too-many-signatures-to-verify")


def load_public_key(pem: str, name: str, where: str) -> PublicKey:
    """Return an Ed25519 or ECDSA P-256 public key from PEM. Raises TrustError (AOTC-E310)."""
    from cryptography.exceptions import InvalidSignature

    match = _PEM.match(pem)
    der = _der(match[1]) if match is not None else b""
    if len(der) == _ED25519_BYTES and der.startswith(_ED25519_PREFIX):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        check: Callable[[bytes, bytes], None] = Ed25519PublicKey.from_public_bytes(
            der[len(_ED25519_PREFIX) :]
        ).verify
    else:
        from aotc_runtime.verification.parsed_keys import parse_key

        der, check = parse_key(pem, where, is_one=match is not None)
    require_ed25519_point(der, where)

    def verify(signature: bytes, message: bytes) -> bool:
        try:
            check(signature, message)
        except InvalidSignature:
            return False
        return True

    return PublicKey(sha256_bytes(der).hex(), name, verify)


def _der(text: str) -> bytes:
    try:  # strictly: of two keys in a row, the first would be taken
        return binascii.a2b_base64("".join(text.split()), strict_mode=True)
    except binascii.Error:
        return b""


def require_ed25519_point(der: bytes, where: str) -> None:
    """Reject an Ed25519 key of small order, which belongs to no signer; `der` is any key.

    Raises TrustError (AOTC-E310).
    """
    if not der.startswith(_ED25519_PREFIX):
        return
    point = int.from_bytes(der[len(_ED25519_PREFIX) :], "little")
    y = point % 2**255 % _P  # the highest bit is the sign of x, and y may be spelled in two ways
    if y in _SMALL_ORDER:
        raise refusal("AOTC-E310", where, "a point of small order", cause="public-key-is-weak")
