"""Asking a channel which bundle is deployed: python-tuf's client, with its refusals in our words.

https://theupdateframework.github.io/specification/latest/#detailed-client-workflow
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Struct
from tuf.api import exceptions
from tuf.api.metadata import TOP_LEVEL_ROLE_NAMES, Key, Metadata, Root, TargetFile
from tuf.api.serialization import DeserializationError
from tuf.ngclient import Updater

from aotc_runtime.base.errors import AotcError, Finding, TrustError, finding, refusal
from aotc_runtime.schema.trust_policy import Channel
from aotc_runtime.system.bundle_files import read_file
from aotc_runtime.verification.public_keys import require_ed25519_point
from aotc_serve.channel import channel_state, metadata_sources

_ED25519_BYTES = 32
"""Other keys take more."""


class Role(Struct, frozen=True):
    """One kind of metadata that was believed, and the ids of its keys."""

    version: int
    expires: datetime
    threshold: int
    keys: tuple[str, ...]


class Entry(Struct, frozen=True):
    """The bundle that a channel names; `described` has the size and digest of its root index."""

    path: str
    described: TargetFile

    @property
    def root_digest(self) -> str:
        """The root digest of the named bundle."""
        return f"sha256:{self.described.hashes.get('sha256', '')}"

    @property
    def version(self) -> str:
        """The bundle's version as the channel says it; empty if it does not."""
        custom = self.described.custom
        said = custom.get("version") if isinstance(custom, dict) else None
        return said if isinstance(said, str) else ""


class Current(Struct, frozen=True):
    """The newest metadata of a channel.

    `entries` are those found of the names asked for, `listed` all that the targets metadata name
    themselves, `roles` by name, and `where` the source in messages.
    """

    where: str
    entries: dict[str, Entry]
    listed: tuple[Entry, ...]
    roles: dict[str, Role]


def path_of(channel: str, name: str) -> str:
    """Return the path that TUF's targets metadata have for a bundle of this name."""
    return f"{channel}/{name}"


def ask(channel: Channel, folder: Path, names: Iterable[str]) -> Current:
    """Return the newest metadata of a channel.

    They are not older than this host saw before, not expired, signed by enough keys and of one
    state. What was seen is kept, also after an error. `folder` is the policy's, `names` are those
    of bundles. Raises TrustError: AOTC-E328 to E332.
    """
    where = f"channel {channel.name} at {channel.source}"
    root = _first_root(channel, folder)
    fetcher, url = metadata_sources.fetcher_for(channel.source, folder)
    with channel_state.open_state(folder / channel.state) as work:
        try:
            _require_same_channel(work, root, folder / channel.state)
            updater = Updater(str(work), url, fetcher=fetcher, bootstrap=root)
            updater.refresh()
            root = _stored_metadata(work, "root")
            _require_sound_keys(root, where)
            found = {name: updater.get_targetinfo(path_of(channel.name, name)) for name in names}
        except (exceptions.RepositoryError, exceptions.DownloadError, ValueError) as error:
            raise _refusal(error, where) from error
        believed = {role: _stored_metadata(work, role) for role in sorted(TOP_LEVEL_ROLE_NAMES)}
    entries = {name: Entry(each.path, each) for name, each in found.items() if each is not None}
    listed = sorted(believed["targets"].targets.items())
    return Current(
        where,
        entries,
        tuple(Entry(*each) for each in listed),
        {
            name: Role(
                signed.version,
                signed.expires,
                root.roles[name].threshold,
                tuple(sorted(root.roles[name].keyids)),
            )
            for name, signed in believed.items()
        },
    )


def check_newest(current: Current, name: str, version: str, index: bytes) -> Iterable[Finding]:
    """Verify step 11: the channel names this bundle.

    `name`, `version` and `index` are its own, verified; `index` has the root digest.
    """
    entry = current.entries.get(name)
    if entry is None:
        yield finding("AOTC-E327", current.where, name)
        return
    try:
        entry.described.verify_length_and_hashes(index)
    except exceptions.LengthOrHashMismatchError:
        expected = f"{name} {entry.version}".rstrip() + f", {entry.root_digest}"
        yield finding("AOTC-E335", current.where, f"{name} {version}", expected=expected)


def _first_root(channel: Channel, folder: Path) -> bytes:
    """Return the root metadata that the policy trusts. Raises TrustError (AOTC-E330)."""
    path = folder / channel.root_file
    try:
        return read_file(path, metadata_sources.MOST_BYTES)
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise refusal("AOTC-E330", str(path), found, cause="channel-root-is-invalid") from error


def _require_same_channel(work: Path, first: bytes, where: Path) -> None:
    """Reject state of another channel than this root metadata's (AOTC-E332).

    python-tuf ignores metadata signed by other keys, and would forget the state.
    """
    kept = channel_state.roots(work)
    if not kept:
        return
    root = Metadata[Root].from_bytes(first)
    version, last = root.signed.version, max(kept)
    if version in kept:
        is_same = Metadata.from_file(str(kept[version])).signed == root.signed
    elif version == last + 1:
        before = Metadata[Root].from_file(str(kept[last])).signed
        is_same = bool(before.get_verification_result("root", root.signed_bytes, root.signatures))
    else:
        is_same = version > last
    if not is_same:
        found, cause = f"no root {version} of this channel", "channel-state-is-for-another-channel"
        raise refusal("AOTC-E332", str(where), found, cause=cause)
    if version > last + 1:  # the policy skips roots, so that nobody can tell: its word counts
        channel_state.forget(kept.values())


def _require_sound_keys(root: Root, where: str) -> None:
    """Reject duplicate and weak keys (AOTC-E330).

    A threshold counts ids, and one key could have two of them.
    """
    for name, role in root.roles.items():
        distinct = {_public_bytes(root.keys[id]) for id in role.keyids}
        if len(distinct) < len(role.keyids):
            raise refusal("AOTC-E330", where, f"a duplicate key in the role {name}")
        if any(len(each) == _ED25519_BYTES and _is_of_small_order(each) for each in distinct):
            found = f"a weak key in the role {name} (small order)"
            raise refusal("AOTC-E330", where, found)


def _is_of_small_order(public: bytes) -> bool:
    try:
        key = Ed25519PublicKey.from_public_bytes(public)
        der = key.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        require_ed25519_point(der, "")
    except TrustError:
        return True
    return False


def _public_bytes(key: Key) -> bytes:
    """Return the same bytes for every spelling of a key, or the text if it is not a key."""
    text: str = key.keyval["public"]
    try:
        if key.keytype == "ed25519":
            return bytes.fromhex(text)
        public = serialization.load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        return text.encode()
    return public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _stored_metadata(work: Path, name: str) -> Any:
    """Metadata that python-tuf believed, as it keeps them."""
    return Metadata.from_file(str(work / f"{name}.json")).signed


def _refusal(error: Exception, where: str) -> AotcError:
    """Return the error for an exception of python-tuf, subclasses before their bases."""
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    match error:
        case exceptions.ExpiredMetadataError():
            return refusal("AOTC-E329", where, said)
        case exceptions.BadVersionNumberError():
            return refusal("AOTC-E328", where, said)
        case DeserializationError():
            return refusal("AOTC-E330", where, "")
        case exceptions.UnsignedMetadataError():
            return refusal("AOTC-E330", where, said, cause="too-few-signatures-on-channel-metadata")
        case exceptions.DownloadError() if not isinstance(
            error, exceptions.DownloadLengthMismatchError
        ):
            return refusal("AOTC-E331", where, said)
        case _:
            return refusal("AOTC-E330", where, said)
