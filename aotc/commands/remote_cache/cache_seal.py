"""Entries of a remote cache: signed by the builder that made them, used if its key is trusted.

A sealed entry is a DSSE envelope (https://github.com/secure-systems-lab/dsse, protocol 1.0.2) as
canonical JSON, a newline, and the data. The envelope's payload holds the cache key, which says
whose result this is, and the digest of the data. So only somebody with a builder's signing key can
make, change, shorten or move an entry: neither the operator of the storage nor its other users can.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from aotc.bundle.sign.attestation import is_signed_by, seal
from aotc.bundle.sign.signer import Signer
from aotc.commands.remote_cache.bounded_reads import HEAD_BYTES_MAX
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.formats.in_toto import open_envelope
from aotc_runtime.schema.pytrees import INTEGER_MAX
from aotc_runtime.verification.public_keys import PublicKey

PAYLOAD_TYPE = "application/vnd.aotc.cache-entry.v1+json"


class Sealed(Struct, frozen=True, forbid_unknown_fields=True):
    """The signed statement. key: of the cache.  data: digest of the data.  size: its bytes."""

    key: str
    data: str
    size: Annotated[int, Meta(ge=0, le=INTEGER_MAX)]


class Refusal(StrEnum):
    """The reason why an entry is not used, in words for people."""

    DAMAGED = "damaged or cut short"
    UNSIGNED = "not signed"
    STRANGER = "signed by no key that --cache-trust lists"
    FORGED = "with a signature that is not the key's"
    MOVED = "of another task"


@dataclass(frozen=True, slots=True)
class Seals:
    """Seals entries, and opens those of trusted keys.

    sealer: None if nothing is written.  trusted: by key id, the keys whose entries are used.
    """

    sealer: Signer | None
    trusted: Mapping[str, PublicKey]

    def seal(self, key: str, data: bytes) -> bytes:
        """Return a sealed entry of this data. key: of the cache, "sha256:…"."""
        assert self.sealer is not None
        payload = canonical_json.encode(Sealed(key=key, data=sha256(data), size=len(data)))
        return seal(PAYLOAD_TYPE, payload, self.sealer) + b"\n" + data

    def size(self, key: str, head: bytes) -> int:
        """Return the size of the entry with this head, head included; 0 if it is not used."""
        end = head.find(b"\n", 0, HEAD_BYTES_MAX)
        sealed = self._open_seal(key, head[:end]) if end >= 0 else Refusal.DAMAGED
        return 0 if isinstance(sealed, Refusal) else end + 1 + sealed.size

    def open(self, key: str, entry: bytes) -> bytes | Refusal:
        """Return the data of an entry that a trusted key sealed for this key of the cache."""
        end = entry.find(b"\n", 0, HEAD_BYTES_MAX)
        if end < 0:
            return Refusal.DAMAGED
        sealed = self._open_seal(key, entry[:end])
        if isinstance(sealed, Refusal):
            return sealed
        data = entry[end + 1 :]
        return data if sealed.data == sha256(data) else Refusal.DAMAGED

    def _open_seal(self, key: str, envelope: bytes) -> Sealed | Refusal:
        """Return the statement of an envelope that a trusted key signed for this cache key."""
        try:
            signed = open_envelope(envelope, "entry")
        except BundleFormatError as error:
            return Refusal.UNSIGNED if error.code == "AOTC-E119" else Refusal.DAMAGED
        claimed = {id for id, _ in signed.signatures}
        named = [key for id, key in self.trusted.items() if id in claimed]
        if not named:
            return Refusal.STRANGER
        if not any(is_signed_by(signed, key) for key in named):
            return Refusal.FORGED
        # A trusted key signs other things too: bundles, certificates.
        if signed.payload_type != PAYLOAD_TYPE:
            return Refusal.MOVED
        try:
            sealed = canonical_json.decode(signed.payload, Sealed, where="entry")
        except BundleFormatError:
            return Refusal.DAMAGED
        return sealed if sealed.key == key else Refusal.MOVED
