"""Which installed packages a process has imported."""

from __future__ import annotations

import re
import sys
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    packages_distributions,
)

from aotc.stages import Package
from aotc_runtime.digest import sha256

_OF_INSTALLATION = re.compile(
    r"\"?(?:\.\./|/|.*__pycache__/"
    r"|[^/]*\.dist-info/(?:INSTALLER|REQUESTED|direct_url\.json|uv_cache\.json|RECORD),)"
)
"""Lines of a RECORD that depend on the installation, not on the wheel."""


def imported_packages(also: tuple[str, ...] = ()) -> dict[str, Package]:
    """Every distribution of which this process has imported a module, by normalized name, sorted.

    also: names of others, left out where they are not installed.
    """
    modules = {name.partition(".")[0] for name in sys.modules}
    owners = packages_distributions()
    names = {owner for module in modules for owner in owners.get(module, ())} | set(also)
    found: dict[str, Package] = {}
    for name in names:
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found[normalized(package.name)] = Package(package.version, files_digest(package))
    return dict(sorted(found.items()))


def normalized(name: str) -> str:
    """The normalized name of a distribution
    (https://packaging.python.org/en/latest/specifications/name-normalization).
    """
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-"))


def files_digest(package: Distribution) -> str:
    """SHA-256 of the sorted lines of RECORD, each a path with the SHA-256 of that file: the same
    for pip and uv, wherever the environment lies.

    Without what differs between installations of the same wheel: scripts, which name their Python
    and lie outside of the packages, compiled files, and notes of the installer.
    https://packaging.python.org/en/latest/specifications/recording-installed-packages
    """
    lines = (package.read_text("RECORD") or "").splitlines()
    kept = sorted(line for line in lines if not _OF_INSTALLATION.match(line))
    return sha256("\n".join(kept).encode())
