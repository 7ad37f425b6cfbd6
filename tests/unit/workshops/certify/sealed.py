"""Environments for `aotc certify` that no package index is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from aotc.workshops.certify import environments
from aotc_runtime.schema.certified import Release


def seal_packages_of_this(base: Path, release: Release) -> Path:
    """Make `base` a $XDG_CACHE_HOME with a sealed environment that has the packages of this one."""
    place = base / "aotc" / "certify" / environments._name(release)
    for folder in (place.parent.parent, place.parent):
        folder.mkdir(mode=0o700)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "these.pth").write_text("\n".join(path for path in sys.path if path))
    sealed = msgspec.json.encode(environments._digests(place), order="sorted")
    (place / environments.SEAL).write_bytes(sealed)
    return base
