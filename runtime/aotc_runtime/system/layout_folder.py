"""A bundle that is an OCI layout folder: its files, of which each has to be a regular one."""

from __future__ import annotations

import os
from pathlib import Path

from aotc_runtime import limits
from aotc_runtime.errors import refusal
from aotc_runtime.formats import oci


def _raise(error: OSError) -> None:
    """A folder that cannot be listed may hold anything."""
    raise error


def read_folder(folder: Path, shown: str) -> dict[str, Path]:
    """The files of a layout folder by their names in it. shown: the folder, for messages.

    Raises BundleFormatError (AOTC-E109) for a folder that is none, and OSError.
    """
    if not (folder / oci.LAYOUT_FILE).is_file():
        raise refusal(
            "AOTC-E109",
            shown,
            "a folder without it",
            expected=f"an OCI layout folder, which has a file {oci.LAYOUT_FILE}",
            hint="pass the .aotb file, or the folder that `aotc build --layout` wrote",
        )
    members: dict[str, Path] = {}
    for parent, folders, files in os.walk(folder, onerror=_raise, followlinks=False):
        for name in sorted(folders + files):
            path = Path(parent, name)
            inside = path.relative_to(folder).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise refusal(
                    "AOTC-E109",
                    f"{shown} {inside}",
                    "a link or a special file",
                    expected="regular files and folders",
                    hint="copy the bundle without links",
                )
            if path.is_file():
                if len(members) >= limits.BLOBS_MAX:
                    raise refusal(
                        "AOTC-E109",
                        shown,
                        "more",
                        expected=f"at most {limits.BLOBS_MAX} files",
                        hint="rebuild",
                    )
                members[inside] = path
    return members
