"""Which installed packages a process has imported."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Set
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from inspect import getmodulename

from msgspec import UNSET

from aotc.stages import Package
from aotc_runtime.digest import sha256
from aotc_runtime.schema.manifest import BundleManifest

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
    found: dict[str, Package] = {}
    for name in {*owners(modules), *also}:
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found[normalized(package.name)] = Package(package.version, files_digest(package))
    return dict(sorted(found.items()))


def packages_behind(built: Iterable[BundleManifest]) -> dict[str, Package]:
    """The distributions beside jaxlib that made the executables of targets, and those that run
    them, as far as they are installed here in a version that these targets name.
    """
    named: set[tuple[str, str]] = set()
    for manifest in built:
        named.update(manifest.built_with.tools.items())
        if (needs := manifest.requires.device) is not UNSET:
            named.update((needs.plugin, version) for version in needs.accepts_plugin)
    found: dict[str, Package] = {}
    for name, version in sorted(named):
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        if package.version == version:
            found[normalized(package.name)] = Package(version, files_digest(package))
    return found


def owners(modules: Set[str]) -> Iterator[str]:
    """Names of the distributions that provide one of these modules, as
    `importlib.metadata.packages_distributions` tells them: it asks the system for every file of
    every distribution, which took a sixth of the time of a small build.
    """
    for each in distributions():
        stated = each.read_text("top_level.txt")
        if not modules.isdisjoint(stated.split() if stated else _top_level(each)):
            yield each.name


def _top_level(each: Distribution) -> Iterator[str]:
    record = each.read_text("RECORD")
    files = (
        [str(file) for file in each.files or ()]
        if record is None
        else [line.partition(",")[0].strip('"') for line in record.splitlines()]
    )
    for file in files:
        folder, slash, _ = file.partition("/")
        name = folder if slash else getmodulename(file)
        if name and "." not in name:
            yield name


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
