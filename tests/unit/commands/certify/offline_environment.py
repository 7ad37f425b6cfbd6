"""An environment for `aotc certify` that no package index is asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from aotc.commands.certify import certify_bundle


def install_packages_of_this(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `aotc certify` in this process take the packages of this environment."""

    def install(folder: Path, *_: object) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "these.pth").write_text("\n".join(path for path in sys.path if path))

    monkeypatch.setattr(certify_bundle, "install", install)
