"""Which installed packages a process has imported."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Set
from importlib.metadata import PackageNotFoundError

from msgspec import UNSET

from aotc.base.stages import Package
from aotc.capture import installed_packages
from aotc_runtime.schema.bundle_manifest import BundleManifest


def imported_packages(also: tuple[str, ...] = ()) -> dict[str, Package]:
    """Every distribution of which this process has imported a module, by normalized name, sorted.

    also: names of others, left out where they are not installed.
    """
    modules = {name.partition(".")[0] for name in sys.modules}
    found: dict[str, Package] = {}
    for name in {*owners(modules), *also}:
        try:
            package = installed_packages.named(name)
        except PackageNotFoundError:
            continue
        found[normalized(package.name)] = Package(package.version, package.digest)
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
            package = installed_packages.named(name)
        except PackageNotFoundError:
            continue
        if package.version == version:
            found[normalized(package.name)] = Package(version, package.digest)
    return found


def owners(modules: Set[str]) -> Iterator[str]:
    """Names of the distributions that provide one of these modules."""
    for each in installed_packages.every():
        if not each.modules.isdisjoint(modules):
            yield each.name


def normalized(name: str) -> str:
    """The normalized name of a distribution
    (https://packaging.python.org/en/latest/specifications/name-normalization).
    """
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-"))
