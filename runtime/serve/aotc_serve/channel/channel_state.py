"""Rollback state of a channel on this host, in one file, so that older metadata is rejected.

The file is replaced in one step, by one process at a time, and carries its own digest: whatever a
kill or a full disk leaves is the state before or the one after, and a damaged file is told from
one that was never there. python-tuf works on a copy in a folder of its own.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.system.bundle_files import read_file

STATE, LOCK, WORK = "state", "lock", "work-"
"""Names in a state's folder: the file, what is locked, and the start of python-tuf's folders."""

_WRITABLE = "channel-state-is-writable-by-other-users"

BYTES_MAX = 64 * 2**20
"""A channel of a thousand bundles whose root changed a hundred times has 1 MB."""

_NAME = re.compile(r"(root_history/)?[^/\0]+\.json")
"""File names of python-tuf, relative to its folder."""

Files = dict[str, str]
"""Texts by name, relative to the folder that python-tuf works in."""


@contextmanager
def open_state(folder: Path) -> Iterator[Path]:
    """Yield a folder with the kept state, to change.

    Its contents are kept at the end, also after an AotcError, since python-tuf trusts what it
    wrote. Other processes wait. Raises TrustError (AOTC-E332) if the state is damaged, or cannot be
    read or written.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _require_ours(folder)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (OSError, ValueError) as error:  # ValueError: a null character
        raise _unusable(folder, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for abandoned in folder.glob(f"{WORK}*"):  # by a process that was killed
            shutil.rmtree(abandoned, ignore_errors=True)
        before = _read(folder)
        try:
            with tempfile.TemporaryDirectory(prefix=WORK, dir=folder) as name:
                work = Path(name)
                for file, text in before.items():
                    (work / file).parent.mkdir(exist_ok=True)
                    (work / file).write_bytes(text.encode())
                try:
                    yield work
                except AotcError:
                    _write(folder, work, before)
                    raise
                _write(folder, work, before)
        except OSError as error:
            raise _unusable(folder, error) from error
    finally:
        os.close(descriptor)


def _require_ours(folder: Path) -> None:
    """Reject a directory that others can write to or replace, to reset its state (AOTC-E332)."""
    status = folder.stat()
    # A group with the number of the owner, or of a pod's user (fsGroup), is nobody else's.
    own_group = status.st_gid in (status.st_uid, os.geteuid())
    writable = status.st_mode & (stat.S_IWOTH if own_group else stat.S_IWOTH | stat.S_IWGRP)
    if status.st_uid not in (os.geteuid(), 0) or writable:
        found = f"mode {stat.S_IMODE(status.st_mode):04o}, owner {status.st_uid}"
        raise refusal("AOTC-E332", str(folder), found, cause=_WRITABLE)
    for parent in folder.resolve().parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            found = f"parent {parent} with mode {stat.S_IMODE(mode):04o}"
            raise refusal("AOTC-E332", str(folder), found, cause=_WRITABLE)


def _read(folder: Path) -> Files:
    """Return the kept state, empty if there is none. Raises TrustError (AOTC-E332)."""
    try:
        data = read_file(folder / STATE, BYTES_MAX)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unusable(folder, error) from error
    digest, _, text = data.partition(b"\n")
    if digest != sha256(text).encode():
        raise _damaged_state(folder)
    try:
        files = canonical_json.decoder(Files).decode(text)
    except (ValueError, RecursionError) as error:
        raise _damaged_state(folder) from error
    if not all(_NAME.fullmatch(name) for name in files):
        raise _damaged_state(folder)
    return files


def collect_files(work: Path) -> Files:
    """Return python-tuf's files in a folder, without its link to the newest root."""
    return {
        path.relative_to(work).as_posix(): path.read_bytes().decode()
        for path in sorted(work.rglob("*.json"))
        if not path.is_symlink()
    }


def roots(work: Path) -> dict[int, Path]:
    """Return the root metadata seen so far, by version; `work` is the directory of `kept`."""
    return {int(path.name.split(".")[0]): path for path in work.glob("root_history/*.root.json")}


def forget(files: Iterable[Path]) -> None:
    """Remove files of what `kept` laid out."""
    for path in files:
        path.unlink()


def _write(folder: Path, work: Path, before: Files) -> None:
    files = collect_files(work)
    if files == before:
        return
    text = msgspec.json.encode(files, order="sorted")
    # In a folder that is new: a link to another file, or a pipe, would be written to.
    new = work / STATE
    with new.open("wb") as file:
        file.write(sha256(text).encode() + b"\n" + text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / STATE)
    descriptor = os.open(folder, os.O_RDONLY)
    with suppress(OSError):  # where folders cannot be synchronized
        os.fsync(descriptor)
    os.close(descriptor)


def _unusable(folder: Path, error: OSError | ValueError) -> AotcError:
    return refusal("AOTC-E332", str(folder), getattr(error, "strerror", None) or str(error))


def _damaged_state(folder: Path) -> AotcError:
    return refusal("AOTC-E332", str(folder / STATE), "", cause="channel-state-is-corrupt")
