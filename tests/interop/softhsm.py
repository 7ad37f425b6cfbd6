"""SoftHSM 2, a PKCS#11 token in software: where it is, and one of our own to make keys in."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PIN, SO_PIN = "1234", "5678"
MODULES = (
    "usr/lib/softhsm/libsofthsm2.so",
    "usr/lib/*/softhsm/libsofthsm2.so",
    "usr/lib64/*/libsofthsm2.so",
)


@dataclass(frozen=True)
class Installed:
    """util: the program softhsm2-util.  module: the library that speaks PKCS#11."""

    util: Path
    module: Path


def find(roots: Iterable[Path]) -> Installed | None:
    """Return what is installed on this system, or unpacked under one of the roots."""
    for root in roots:
        util = shutil.which("softhsm2-util", path=f"{root}/usr/bin")
        modules = [file for pattern in MODULES for file in sorted(root.glob(pattern))]
        if util and modules:
            return Installed(Path(util), modules[0])
    return None


@dataclass(frozen=True)
class SoftHsm:
    """A token store. environment: what programs need in order to find it."""

    installed: Installed
    environment: dict[str, str]

    @classmethod
    def in_folder(cls, folder: Path, installed: Installed) -> SoftHsm:
        """An empty store; `bin` in the folder holds a softhsm2-util that knows its library."""
        (folder / "tokens").mkdir()
        (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder / 'tokens'}\n")
        (folder / "bin").mkdir()
        util = folder / "bin" / "softhsm2-util"
        util.write_text(
            f'#!/bin/sh\nexec {installed.util} --module {installed.module} "$@"\n', encoding="utf-8"
        )
        util.chmod(0o755)
        environment = {
            "SOFTHSM2_CONF": str(folder / "softhsm2.conf"),
            "SOFTHSM2_MODULE": str(installed.module),
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        return cls(installed, environment)

    def uri(self, attributes: str, query: str = "") -> str:
        """A key URI with this module."""
        return f"pkcs11:{attributes}?module-path={self.installed.module}{query}"

    def run(self, *arguments: str) -> None:
        subprocess.run(
            ["softhsm2-util", *arguments],
            env={**os.environ, **self.environment},
            check=True,
            capture_output=True,
        )

    def new_token(self, label: str) -> None:
        self.run("--init-token", "--free", "--label", label, "--pin", PIN, "--so-pin", SO_PIN)

    def import_key(self, token: str, label: str, id: str, pem: Path) -> None:
        """A private key of which the token stores both halves."""
        key = ("--label", label, "--id", id, "--pin", PIN)
        self.run("--import", str(pem), "--token", token, *key)
