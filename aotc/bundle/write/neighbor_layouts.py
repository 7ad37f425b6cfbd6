"""Weights that layouts in the same folder hold already: several versions of a model keep one copy.

A blob is named after its digest, so that the same name in two layouts stands for the same bytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from aotc_runtime.base.digest import sha256
from aotc_runtime.system.streamed_bundle import pass_file


def blobs_beside(path: Path, members: Mapping[str, tuple[str, int]], mode: int) -> dict[str, Path]:
    """Files of the layouts beside `path`, and of the one that lies there, that hold what members
    are to hold; by the member's name. Only files of this user, of the mode that they are to have,
    and whose bytes are hashed here: whatever else has the name is written anew.

    members: their digests and sizes, by name.
    """
    layouts = [*_layouts(path)]
    found: dict[str, Path] = {}
    for name, (digest, size) in members.items():
        kept = _mode_of(path / name, mode)
        for file in [layout / name for layout in layouts]:
            if _is_fit(file, size, kept) and _digest(file) == digest:
                found[name] = file
                break
    return found


def _digest(file: Path) -> str:
    try:
        return sha256(pass_file(file))
    except (OSError, ValueError):
        return ""


def _layouts(path: Path) -> Iterator[Path]:
    """The folders beside a place, and the one that lies there, but for what is being written."""
    with suppress(OSError):
        for folder in sorted(path.parent.iterdir()):
            if not folder.name.startswith("."):
                yield folder


def _mode_of(replaced: Path, default: int) -> int:
    """What is replaced keeps its mode."""
    try:
        return stat.S_IMODE(replaced.stat().st_mode) & 0o777
    except OSError:
        return default


def _is_fit(file: Path, size: int, mode: int) -> bool:
    """Whether a file may get another name: a regular one of this user, and like a new one."""
    try:
        status = file.lstat()
    except OSError:
        return False
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_uid == os.geteuid()
        and stat.S_IMODE(status.st_mode) == mode
        and status.st_size == size
    )
