"""Installed distributions by what their metadata say, and which of them a process has imported.

A process reads each of them once, and again when an installer has written it anew: one that is
forked for a program finds what was read before it.
"""

import csv
import os
import re
import sys
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from functools import cached_property
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from inspect import getmodulename
from typing import NamedTuple

from msgspec import UNSET

from aotc.base.stages import Package
from aotc.capture.file_digests import State, state_of
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import BundleManifest

_OF_INSTALLATION = re.compile(
    r"\"?(?:\.\./|/|.*__pycache__/"
    r"|[^/]*\.dist-info/(?:INSTALLER|REQUESTED|direct_url\.json|uv_cache\.json|RECORD),)"
)
"""Lines of a RECORD that depend on the installation, not on the wheel."""

_METADATA = ("METADATA", "RECORD", "top_level.txt")
"""The files of a distribution that are read here."""


class Hashed(NamedTuple):
    """A file that RECORD lists with its SHA-256.

    `path` is relative to the folder of the installation; `digest` is base64 for URLs, without
    padding; `size` is empty if it is not stated.
    """

    path: str
    digest: str
    size: str


class Installed:
    """A distribution; `folder` is the one it was installed into, with a slash at the end."""

    def __init__(self, found: Distribution) -> None:
        self._found = found
        self.folder = os.path.join(str(found.locate_file("")), "")

    @cached_property
    def name(self) -> str:
        """The name as its metadata spell it."""
        return self._found.name

    @cached_property
    def version(self) -> str:
        """The version as its metadata spell it."""
        return self._found.version

    @cached_property
    def _lines(self) -> list[str]:
        return (self._found.read_text("RECORD") or "").splitlines()

    @cached_property
    def files(self) -> frozenset[str]:
        """Return all files, relative to the folder."""
        return frozenset(line.partition(",")[0] for line in self._lines)

    @cached_property
    def modules(self) -> frozenset[str]:
        """Return the names of the top-level modules that it provides.

        They equal those of `importlib.metadata.packages_distributions`, which asks the system for
        every file of every distribution: that took a sixth of the time of a small build.
        """
        stated = self._found.read_text("top_level.txt")
        return frozenset(stated.split() if stated else self._top_level())

    def _top_level(self) -> Iterator[str]:
        files = [line.partition(",")[0].strip('"') for line in self._lines]
        for file in files or map(str, self._found.files or ()):
            folder, slash, _ = file.partition("/")
            name = folder if slash else getmodulename(file)
            if name and "." not in name:
                yield name

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the sorted lines of RECORD: paths with the SHA-256 of each file.

        It is the same for pip and uv, wherever the environment lies. Scripts, which name their
        Python, compiled files and notes of the installer are left out, since they differ between
        installations.
        https://packaging.python.org/en/latest/specifications/recording-installed-packages
        """
        kept = sorted(line for line in self._lines if not _OF_INSTALLATION.match(line))
        return sha256("\n".join(kept).encode())

    @cached_property
    def record(self) -> str:
        """The path of RECORD."""
        listed = (path for path in self.files if path.endswith(".dist-info/RECORD"))
        return self.folder + next(listed, "RECORD")

    @cached_property
    def hashed(self) -> tuple[Hashed, ...]:
        """The files in the folder that RECORD has digests of, by path; not what Python compiled."""
        rows = (row for row in csv.reader(self._lines) if len(row) == len(Hashed._fields))
        return tuple(
            Hashed(path, digest.removeprefix("sha256="), size)
            for path, digest, size in sorted(rows)
            if digest.startswith("sha256=") and not path.startswith(("..", "/"))
            if not path.endswith(".pyc")
        )


_KNOWN: dict[str, tuple[tuple[State | None, ...], Installed]] = {}


def every() -> Iterator[Installed]:
    """Return all installed distributions, in the order in which imports find them."""
    return map(package_of, distributions())


def find_package(name: str) -> Installed:
    """Raises PackageNotFoundError."""
    return package_of(distribution(name))


def package_of(found: Distribution) -> Installed:
    """Return a distribution, cached while its metadata stay unchanged."""
    # The folder of its metadata, which has no public name in Python 3.12 to 3.14.
    place = str(getattr(found, "_path", ""))
    if not place.endswith(".dist-info"):
        return Installed(found)
    state = tuple(state_of(f"{place}/{name}") for name in _METADATA)
    if place not in _KNOWN or _KNOWN[place][0] != state:
        _KNOWN[place] = state, Installed(found)
    return _KNOWN[place][1]


def imported_packages(also: tuple[str, ...] = ()) -> dict[str, Package]:
    """Map normalized names to the distributions of imported modules, sorted.

    `also` names others, left out where they are not installed.
    """
    modules = {name.partition(".")[0] for name in sys.modules}
    found: dict[str, Package] = {}
    for name in {*owners(modules), *also}:
        with suppress(PackageNotFoundError):
            package = find_package(name)
            found[normalize_name(package.name)] = Package(package.version, package.digest)
    return dict(sorted(found.items()))


def packages_behind(built: Iterable[BundleManifest]) -> dict[str, Package]:
    """Return the distributions that made and run the executables of targets, besides jaxlib.

    Only those count that are installed here in a version that these targets name.
    """
    stated: set[tuple[str, str]] = set()
    for manifest in built:
        stated.update(manifest.built_with.tools.items())
        if (needs := manifest.requires.device) is not UNSET:
            stated.update((needs.plugin, version) for version in needs.accepts_plugin)
    found: dict[str, Package] = {}
    for name, version in sorted(stated):
        with suppress(PackageNotFoundError):
            package = find_package(name)
            if package.version == version:
                found[normalize_name(package.name)] = Package(version, package.digest)
    return found


def owners(modules: Set[str]) -> Iterator[str]:
    """Yield names of the distributions that provide one of these modules."""
    for each in every():
        if not each.modules.isdisjoint(modules):
            yield each.name


def normalize_name(name: str) -> str:
    """Return the normalized name of a distribution.

    https://packaging.python.org/en/latest/specifications/name-normalization
    """
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-"))
