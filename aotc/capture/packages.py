"""Which installed packages a process has imported."""

from __future__ import annotations

import sys
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    packages_distributions,
)

from aotc.stages import Package
from aotc_runtime.digest import sha256

_NOT_OF_THE_PACKAGE = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")
"""Files beside a package's metadata that installers leave there."""


def imported_packages(also: tuple[str, ...] = ()) -> dict[str, Package]:
    """Each distribution of which this process has imported a module, by its name, sorted. also:
    names of others, which are left out where they are not installed.
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
        found[normalized(package.name)] = Package(package.version, _files_digest(package))
    return dict(sorted(found.items()))


def normalized(name: str) -> str:
    """https://packaging.python.org/en/latest/specifications/name-normalization."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-"))


def _files_digest(package: Distribution) -> str:
    """SHA-256 of the sorted lines of RECORD, each a path with the SHA-256 of that file, but for
    what installers add: the same for pip and uv, wherever the environment lies.

    https://packaging.python.org/en/latest/specifications/recording-installed-packages
    """
    lines = (package.read_text("RECORD") or "").splitlines()
    kept = sorted(line for line in lines if not _added(line.partition(",")[0]))
    return sha256("\n".join(kept).encode())


def _added(path: str) -> bool:
    outside = path.startswith(("../", "/"))
    return outside or path.endswith(".pyc") or path.rpartition("/")[2] in _NOT_OF_THE_PACKAGE
