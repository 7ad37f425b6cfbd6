"""Keys that lie elsewhere, in a token or a key management service: found by the scheme of a URI.

A package offers a scheme through the Python entry-point group `aotc.signers`: the entry point is
named after the scheme and leads to an `OpenKey`. signing.md shows one. What plug-ins do is checked:
whatever they raise becomes one finding, and what they sign has to verify under their key.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast

from aotc.base.errors import refusal
from aotc_runtime.base.errors import AotcError, TrustError
from aotc_runtime.verification.public_keys import PublicKey, load_public_key

GROUP = "aotc.signers"

_SCHEME = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]+):")

type Ask = Callable[[str], str | None]
"""Asks the user for a secret that a prompt names; None if there is nobody to ask."""


class SigningKey(Protocol):
    """One key, as a plug-in gives it for a URI, which may never leave its place."""

    def public_key(self) -> str:
        """PEM SubjectPublicKeyInfo, Ed25519 or ECDSA P-256; it also says which of the two."""

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, which is not hashed before.

        It is Ed25519 (64 bytes, RFC 8032), or DER-encoded ECDSA P-256 over its SHA-256.
        """


type OpenKey = Callable[[str, Ask], SigningKey]
"""What an entry point leads to: a URI with its scheme, and how to ask for a secret, to a key."""


@dataclass(frozen=True, slots=True)
class PluginSigner:
    """A signer whose key is elsewhere, reached by the plug-in for `scheme`."""

    scheme: str
    key: SigningKey
    public: PublicKey
    pem: str

    @property
    def key_id(self) -> str:
        """The id of the public key."""
        return self.public.id

    def public_pem(self) -> str:
        """Return the public key as PEM."""
        return self.pem

    def sign(self, message: bytes) -> bytes:
        """Raises UsageError (AOTC-E016) if the plug-in fails, or signs with another key."""
        with _as_finding(self.scheme, "signing"):
            signature = self.key.sign(message)
        if not (isinstance(signature, bytes) and self.public.verify(signature, message)):
            cause = "signer-returned-an-invalid-signature"
            expected = f"a signature by key {self.key_id[:16]}"
            raise refusal("AOTC-E016", _where(self.scheme), "", cause=cause, expected=expected)
        return signature


def scheme_of(key: str) -> str:
    """Return the scheme of a key URI in lower case; empty for the path of a key file."""
    match = _SCHEME.match(key)
    return match[1].lower() if match else ""


def open_signer(uri: str, ask: Ask) -> PluginSigner:
    """Return the signer that a key URI names.

    Raises UsageError: AOTC-E022 if no plug-in, or more than one, serves the scheme, E016 if it
    fails, and what plug-ins of ours raise themselves.
    """
    scheme = scheme_of(uri)
    point = _plugin(scheme)
    with _as_finding(scheme, "import"):
        open_key = cast(OpenKey, point.load())
    with _as_finding(scheme, "opening the key"):
        key = open_key(uri, ask)
    with _as_finding(scheme, "public key"):
        pem = key.public_key()
    if not isinstance(pem, str):
        raise _no_public_key(scheme, f"a value of type {type(pem).__name__}")
    try:
        public = load_public_key(pem, "", _where(scheme))
    except TrustError as error:
        raise _no_public_key(scheme, error.findings[0].found) from error
    return PluginSigner(scheme, key, public, pem)


def _plugin(scheme: str) -> EntryPoint:
    installed = entry_points(group=GROUP)
    serving = {point.value: point for point in installed if point.name.lower() == scheme}
    if len(serving) == 1:
        return next(iter(serving.values()))
    names = ", ".join(sorted({point.name for point in installed})) or "no scheme"
    where = f"key {scheme}:"
    if serving:
        found, cause = ", ".join(sorted(serving)), "several-signers-for-one-uri-scheme"
        raise refusal("AOTC-E022", where, found, cause=cause)
    hint = f"install the signer's package; for a key file, write `./{scheme}:NAME`"
    raise refusal("AOTC-E022", where, f"signers for {names}", hint=hint)


@contextmanager
def _as_finding(scheme: str, doing: str) -> Iterator[None]:
    try:
        yield
    except AotcError:
        raise
    except (Exception, SystemExit) as error:  # code of others: it may raise anything
        lines = str(error).strip().splitlines()
        found = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        raise refusal("AOTC-E016", f"{_where(scheme)}, {doing}", found) from error


def _no_public_key(scheme: str, found: str) -> AotcError:
    return refusal("AOTC-E016", _where(scheme), found, cause="signer-has-no-valid-public-key")


def _where(scheme: str) -> str:
    return f"signer {scheme}"
