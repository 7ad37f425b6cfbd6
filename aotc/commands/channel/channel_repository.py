"""A channel's folder: TUF metadata as a server or a mirror has them, and what waits for signatures.

`timestamp.json` is written last: whatever a kill leaves is the channel as it was, and files that
nothing refers to yet.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.signer import Signature, SSlibKey
from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, MetaFile, Root, Snapshot, TargetFile, Targets, Timestamp

from aotc.base.errors import refusal
from aotc.base.temporary_files import lock_path
from aotc.bundle.sign.signer import Signer
from aotc.bundle.write.atomic_files import write_atomically, write_folder_atomically
from aotc_runtime.base.errors import AotcError
from aotc_runtime.system.bundle_files import read_file
from aotc_serve.channel.metadata_sources import MOST_BYTES

ROOT, TARGETS, SNAPSHOT, TIMESTAMP = "root", "targets", "snapshot", "timestamp"

STAMP = "timestamp.json"

WAITING = "waiting.targets.json"
"""Targets metadata that have too few signatures yet. Nobody who asks the channel reads it."""

SIGNED_FOR = timedelta(days=365)
"""How long targets and snapshot are good: they are signed anew whenever they change, and what ends
early is the timestamp.
"""

RENEWED_BEFORE = timedelta(days=90)
"""How long before its end a snapshot is signed anew."""

type Roles = Mapping[str, tuple[Mapping[str, str], int]]
"""By role its public keys (PEM, by id), and how many of them have to sign."""


@dataclass(frozen=True, slots=True)
class Named:
    """A bundle to name: `channel/name`, the bundle's version, and its root index."""

    path: str
    version: str
    index: bytes


@dataclass(frozen=True, slots=True)
class Published:
    """The outcome of publishing.

    `versions` are of the metadata that were written, by role. `missing` is the number of signatures
    that the targets metadata still need; then nothing was published. With `online`, only the online
    key has to sign. `gone` has bundles named by keys that have no such role now.
    """

    versions: Mapping[str, int]
    missing: int = 0
    online: bool = False
    gone: tuple[str, ...] = ()


class Repository:
    """The folder of an existing channel, into which others may write.

    Its contents count as far as its keys have signed them. `first` is trusted root metadata; None
    for the folder's own.
    """

    def __init__(self, folder: Path, first: Path | None = None) -> None:
        self._folder = folder
        self._roots = _roots_of(folder, first)
        self.root = self._roots[-1]

    def waiting(self) -> Metadata[Targets] | None:
        """Return unpublished targets metadata if they are the next version."""
        path = self._folder / WAITING
        if not path.exists():
            return None
        found, following = _read(path), _version(self._current(TARGETS)) + 1
        return found if _version(found) == following else None

    def is_published(self) -> bool:
        """Return whether hosts that ask find anything."""
        return (self._folder / STAMP).exists()

    def require_as_new(self, role: str, seen: Metadata[Any]) -> None:
        """Raise UsageError (AOTC-E027) for older metadata of a role than seen, or others as old.

        The folder then has metadata from before, put back by someone.
        """
        found = self.root if role == ROOT else self._current(role)
        is_same = found is not None and found.signed == seen.signed
        if not is_same and _version(found) <= seen.signed.version:
            expected = f"version {seen.signed.version} or later"
            found_version = f"{role} metadata of version {_version(found)}"
            raise _rollback_error(self._folder, found_version, expected)

    def missing(self, metadata: Metadata[Targets]) -> int:
        """Return how many signatures targets metadata still need."""
        return int(self._result(TARGETS, metadata).missing)

    def publish(
        self,
        named: Named | None,
        signers: Sequence[Signer],
        online: Signer | None,
        now: datetime,
        days: int,
    ) -> Published:
        """Name a bundle, or none; sign targets metadata, and refer to them with the online key.

        The metadata of the online key are valid for `days`.

        Raises:
            UsageError: AOTC-E027, E028 a key that has no such role.
        """
        for signer in signers:
            self._require_role(signer, TARGETS)
        if online is not None:
            self._require_role(online, TIMESTAMP)
        before = self._current(TARGETS)
        targets = self.waiting() if named is None else self._next_targets(named, before, now)
        if targets is not None:
            for signer in signers:
                _sign(targets, signer)
        missing = self.missing(targets) if targets is not None else 0
        gone = _names(before) - _names(targets) if targets is not None else set[str]()
        if targets is not None and (missing or online is None):
            self._write(WAITING, targets)
        if online is None or (missing and named is not None):
            return Published({}, missing, online=not missing, gone=tuple(sorted(gone)))
        # What waits for signatures keeps nobody from renewing what is published.
        written = self._refer(None if missing else targets, online, now, days)
        return Published(written, gone=tuple(sorted(gone)))

    def _next_targets(
        self, named: Named, before: Metadata[Targets] | None, now: datetime
    ) -> Metadata[Targets]:
        """Add this bundle to the targets metadata, with the signatures that they have.

        Nothing else changes of what enough keys have signed. `before` is what is published.

        Raises:
            UsageError: AOTC-E028 if another change, which would be signed unseen, is waiting.
        """
        changed = Targets()
        if before is not None and not self.missing(before):
            changed = deepcopy(before.signed)
        settled = dict(changed.targets)
        entry = TargetFile.from_data(named.path, named.index)
        entry.unrecognized_fields["custom"] = {"version": named.version}
        changed.version = _version(before) + 1
        changed.targets[named.path] = entry
        end = _end(now, SIGNED_FOR)
        if (waiting := self.waiting()) is not None:
            changed.expires = waiting.signed.expires
            if waiting.signed == changed and changed.expires <= end:
                return waiting
            proposed = waiting.signed.targets
            for path in sorted(proposed.keys() | settled.keys()):
                if path != named.path and proposed.get(path) != settled.get(path):
                    cause = "another-channel-update-is-pending"
                    raise refusal("AOTC-E028", f"{self._folder} {WAITING}", path, cause=cause)
        changed.expires = end
        return Metadata(changed)

    def _refer(
        self, targets: Metadata[Targets] | None, online: Signer, now: datetime, days: int
    ) -> dict[str, int]:
        """Write new targets metadata, if any, a snapshot and a timestamp; return their versions."""
        old_stamp, old_shot = self._current(TIMESTAMP), self._current(SNAPSHOT)
        written: dict[str, Metadata[Any]] = {TARGETS: targets} if targets is not None else {}
        stamp = Timestamp(_version(old_stamp) + 1, expires=_end(now, timedelta(days=days)))
        # It stays if it expires late enough and is signed by a key with its role now.
        soon = now + RENEWED_BEFORE
        stays = old_shot and old_shot.signed.expires > soon and self._result(SNAPSHOT, old_shot)
        if targets is not None or not stays:
            shot = Snapshot(_version(old_shot) + 1, expires=_end(now, SIGNED_FOR))
            if targets is not None:
                shot.meta = {f"{TARGETS}.json": _file_of(targets)}
            elif old_shot is not None:
                shot.meta = old_shot.signed.meta
            written[SNAPSHOT] = Metadata(shot)
            _sign(written[SNAPSHOT], online)
            stamp.snapshot_meta = _file_of(written[SNAPSHOT])
        elif old_stamp is not None:
            stamp.snapshot_meta = old_stamp.signed.snapshot_meta
        written[TIMESTAMP] = Metadata(stamp)
        _sign(written[TIMESTAMP], online)
        targets = targets or self._current(TARGETS)
        if targets is None or self.missing(targets):
            raise refusal("AOTC-E028", f"{self._folder} {TARGETS}", "")
        for role, metadata in written.items():
            number = "" if role == TIMESTAMP else f"{metadata.signed.version}."
            self._write(f"{number}{role}.json", metadata)
        return {role: metadata.signed.version for role, metadata in written.items()}

    def rotate(self, change: Roles, signers: Sequence[Signer], now: datetime, days: int) -> Root:
        """Write the next root metadata.

        `change` has the roles that get other keys, `signers` enough of the old and new root keys.

        Raises:
            UsageError: AOTC-E028 for too few.
        """
        root = deepcopy(self.root.signed)
        root.version += 1
        root.expires = _end(now, timedelta(days=days))
        for role, (keys, threshold) in change.items():
            _set_role(root, role, keys, threshold)
        metadata = Metadata(root)
        for signer in signers:
            _sign(metadata, signer)
        if not self._result(ROOT, metadata) or not _is_enough(root, metadata):
            found = f"{len(signers)} keys, too few of the old or of the new root keys"
            raise refusal("AOTC-E028", str(self._folder), found)
        self._write(f"{root.version}.root.json", metadata)
        return root

    def _write(self, name: str, metadata: Metadata[Any]) -> None:
        write_atomically(self._folder / name, [metadata.to_bytes()])

    def _result(self, role: str, metadata: Metadata[Any]) -> Any:
        return self.root.signed.get_verification_result(
            role, metadata.signed_bytes, metadata.signatures
        )

    def _require_role(self, signer: Signer, role: str) -> None:
        if signer.key_id not in self.root.signed.roles[role].keyids:
            where, cause = f"{self._folder} {role}", "key-has-no-role-in-the-channel"
            raise refusal("AOTC-E028", where, signer.key_id[:16], cause=cause)

    def _current(self, role: str) -> Metadata[Any] | None:
        """Return the metadata that the timestamp leads to; None without a timestamp.

        A writer of the folder cannot have forged them: keys that have or had the role sign
        timestamp and snapshot.

        Raises:
            UsageError: AOTC-E027.
        """
        if not self.is_published():
            return None
        stamp = self._once_signed(TIMESTAMP, _read(self._folder / STAMP))
        if role == TIMESTAMP:
            return stamp
        shot = self._once_signed(SNAPSHOT, self._follow(SNAPSHOT, stamp.signed.snapshot_meta))
        if role == SNAPSHOT:
            return shot
        return self._follow(TARGETS, shot.signed.meta[f"{TARGETS}.json"])

    def _follow(self, role: str, described: MetaFile) -> Metadata[Any]:
        return _read(self._folder / f"{described.version}.{role}.json", described)

    def _once_signed(self, role: str, metadata: Metadata[Any]) -> Metadata[Any]:
        """Metadata, if enough keys signed them that have the role by one of the folder's roots."""
        for root in reversed(self._roots):
            if root.signed.get_verification_result(
                role, metadata.signed_bytes, metadata.signatures
            ):
                return metadata
        raise _rollback_error(self._folder, f"no {role} metadata with a signature of its role", "")


def create(folder: Path, roles: Roles, signers: Sequence[Signer], now: datetime, days: int) -> None:
    """Make the folder of a new channel, with its root metadata, good for so many days.

    signers: enough of the root keys. Raises UsageError: AOTC-E003, E005 a folder that holds
    something, E028 too few keys.
    """
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise refusal("AOTC-E005", str(folder), "", cause="channel-directory-is-not-empty")
    root = Root(expires=_end(now, timedelta(days=days)))
    for role, (keys, threshold) in roles.items():
        _set_role(root, role, keys, threshold)
    metadata = Metadata(root)
    for signer in signers:
        _sign(metadata, signer)
    if not _is_enough(root, metadata):
        raise refusal("AOTC-E028", f"{folder} {ROOT}", f"{len(signers)} root keys")
    write_folder_atomically(folder, [("1.root.json", metadata.to_bytes())])


@contextmanager
def changing(folder: Path, first: Path | None = None) -> Iterator[Repository]:
    """Open a channel, locked against other changes; `first` as for `Repository`.

    Raises UsageError (AOTC-E027).
    """
    try:
        with lock_path(folder):
            yield Repository(folder, first)
    except OSError as error:
        raise _no_channel(folder, error.strerror or str(error)) from error


def _set_role(root: Root, role: str, keys: Mapping[str, str], threshold: int) -> None:
    for id in list(root.roles[role].keyids):
        root.revoke_key(id, role)
    if threshold > len(keys):
        found = f"a threshold of {threshold} with {len(keys)} keys"
        cause = "channel-threshold-exceeds-the-number-of-keys"
        raise refusal("AOTC-E028", role, found, cause=cause)
    for id, pem in keys.items():
        root.add_key(SSlibKey.from_crypto(load_pem_public_key(pem.encode()), keyid=id), role)
    root.roles[role].threshold = threshold


def _is_enough(root: Root, metadata: Metadata[Root]) -> bool:
    return bool(
        root.get_verification_result(ROOT, metadata.signed_bytes, metadata.signatures).verified
    )


def _sign(metadata: Metadata[Any], signer: Signer) -> None:
    made = signer.sign(metadata.signed_bytes)
    metadata.signatures[signer.key_id] = Signature(signer.key_id, made.hex())


def _file_of(metadata: Metadata[Any]) -> MetaFile:
    """Return a file's entry with its digest, so that files of several states cannot be mixed."""
    return MetaFile.from_data(metadata.signed.version, metadata.to_bytes(), ["sha256"])


def _version(metadata: Metadata[Any] | None) -> int:
    return int(metadata.signed.version) if metadata else 0


def _end(now: datetime, after: timedelta) -> datetime:
    return (now + after).replace(microsecond=0)


def _names(metadata: Metadata[Targets] | None) -> set[str]:
    return set(metadata.signed.targets) if metadata else set()


def _roots_of(folder: Path, first: Path | None) -> list[Metadata[Root]]:
    """Return the root metadata of a folder, each signed by the previous one's keys, too.

    The last are current. `first` is trusted and has to be in the folder; None for its own.
    """
    roots = [_read(first or folder / "1.root.json")]
    if roots[0] != _read(folder / f"{roots[0].signed.version}.root.json"):
        raise _corrupt(folder, f"another root than {first}")
    before = None
    while True:
        signed: Any = roots[-1].signed
        place = folder / f"{signed.version}.root.json"
        if not isinstance(signed, Root) or not signed.get_root_verification_result(
            before, roots[-1].signed_bytes, roots[-1].signatures
        ):
            raise _corrupt(place, "too few signatures of the root keys")
        following = folder / f"{signed.version + 1}.root.json"
        if not following.exists():
            return roots
        before, root = signed, _read(following)
        if root.signed.version != before.version + 1:
            raise _corrupt(following, f"root metadata of version {root.signed.version}")
        roots.append(root)


def _read(path: Path, described: MetaFile | None = None) -> Metadata[Any]:
    """Return metadata from a file. described: what other metadata say of it."""
    try:
        data = read_file(path, MOST_BYTES)
        if described is not None:
            described.verify_length_and_hashes(data)
        return Metadata.from_bytes(data)
    except (RepositoryError, OSError) as error:
        raise _no_channel(path, str(error).splitlines()[0]) from error


def _no_channel(path: Path, found: str) -> AotcError:
    return refusal("AOTC-E027", str(path), found)


def _corrupt(path: Path, found: str) -> AotcError:
    return refusal("AOTC-E027", str(path), found, cause="channel-metadata-is-corrupt")


def _rollback_error(folder: Path, found: str, expected: str) -> AotcError:
    cause = "channel-was-rolled-back"
    return refusal("AOTC-E027", str(folder), found, cause=cause, expected=expected)
