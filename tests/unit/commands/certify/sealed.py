"""Environments for `aotc certify` that no package index is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from aotc.commands.certify import certify_environments
from aotc_runtime.schema.certified_releases import Release


def seal_packages_of_this(base: Path, release: Release) -> Path:
    """Make `base` a $XDG_CACHE_HOME with a sealed environment that has the packages of this one."""
    place = base / "aotc" / "certify" / certify_environments._name(release)
    for folder in (place.parent.parent, place.parent):
        folder.mkdir(mode=0o700)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "these.pth").write_text("\n".join(path for path in sys.path if path))
    sealed = msgspec.json.encode(certify_environments._digests(place), order="sorted")
    (place / certify_environments.SEAL).write_bytes(sealed)
    return base
