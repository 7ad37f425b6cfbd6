"""Environments for `aotc certify` that no package index is asked for."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

from aotc_runtime.schema.certified_releases import Release


def packages_of_this(base: Path, release: Release) -> Path:
    """Make `base` a $XDG_CACHE_HOME with an environment that has the packages of this one."""
    kind = f"{sys.implementation.cache_tag}-{sys.platform}-{platform.machine()}"
    place = base / "aotc" / "certify" / f"{release.package}-{release.version}-{kind}"
    for folder in (place.parent.parent, place.parent):
        folder.mkdir(mode=0o700)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "these.pth").write_text("\n".join(path for path in sys.path if path))
    return base
