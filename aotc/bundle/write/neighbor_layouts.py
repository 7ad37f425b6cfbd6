"""Weights that layouts in the same folder hold already: several versions of a model keep one copy.

A blob is named after its digest, so that the same name in two layouts stands for the same bytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
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
    layouts: list[Path] = []
    with suppress(OSError):  # what is being written has a name with a dot
        layouts += sorted(each for each in path.parent.iterdir() if not each.name.startswith("."))
    found: dict[str, Path] = {}
    for name, (digest, size) in members.items():
        kept = mode
        with suppress(OSError):  # what is replaced keeps its mode
            kept = stat.S_IMODE((path / name).stat().st_mode) & 0o777
        for layout in layouts:
            if _holds(layout / name, digest, size, kept):
                found[name] = layout / name
                break
    return found


def _holds(file: Path, digest: str, size: int, mode: int) -> bool:
    """Return whether a file may get another name: a regular one of this user, like a new one, with
    these bytes.
    """
    try:
        status = file.lstat()
        return (
            stat.S_ISREG(status.st_mode)
            and status.st_uid == os.geteuid()
            and stat.S_IMODE(status.st_mode) == mode
            and status.st_size == size
            and sha256(pass_file(file)) == digest
        )
    except (OSError, ValueError):
        return False
