"""What a process that ran the user's code read, by name, and what those names hold now.

As long as nothing has changed, looking up the same names gives the same parts of a key: so a build
knows, without running the program, that it would read the same again.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder, all_suffixes
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from msgspec import Struct

from aotc.base.constants import EVERYTHING
from aotc.capture import installed_packages
from aotc.capture.file_digests import digest_of
from aotc.pipeline.cache.cache_keys import Parts
from aotc.pipeline.tasks import code_identity
from aotc.pipeline.watching.import_places import path_at, path_of, place, place_of, stated_path
from aotc_runtime.base.digest import sha256

NATIVE_PREFIXES = (
    "OMP_", "KMP_", "OPENBLAS_", "MKL_", "BLIS_", "NUMEXPR_", "GOTO_", "MALLOC_", "GLIBC_", "LC_",
    "PYTHON",
)  # fmt: skip
NATIVE_NAMES = ("LANG", "TZ")
"""Variables that native code and Python itself read, which no recorder sees."""

ABSENT = "none"
FOLDER = "a folder"
IMPORTED = tuple(all_suffixes())
"""Endings of files that can be imported. Other files may be named like a module, such as a bundle
that lies beside the program."""


class Reads(Struct, frozen=True):
    """The names of everything that was read, sorted. Paths in the checkout are relative to the
    manifest's folder.

    files: opened, whether or not they existed.  looked: asked whether they exist.  links: asked
    where they lead.  folders: listed.  searched: folders that imports searched.  modules: names
    that were imported or looked for.  own: top-level modules of the program that lie where any
    import finds them.  environment: variables, "*" for all of them.  packages: distributions.
    absent: modules that were not found, with dots those of packages that were.  distributions:
    whether all that are installed were looked through.  current_folder: whether a path was relative
    to it.
    refusals: why the result must not be cached; none if it may be.
    """

    files: tuple[str, ...] = ()
    looked: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    distributions: bool = False
    current_folder: bool = False
    refusals: tuple[str, ...] = ()


class Looking:
    """Looks up names of `Reads` as they are now. Each file is read once.

    root: the manifest's folder.  environment: of the process that runs the program.  path: its
    `sys.path` before the program runs; by default, what it is going to be.
    """

    def __init__(
        self, root: Path, environment: Mapping[str, str], path: Sequence[str] | None = None
    ) -> None:
        self._root, self._environment = root, environment
        self._path = path_of(environment) if path is None else path
        self._digests: dict[Path, str] = {}
        self._packages: dict[str, tuple[tuple[str, str], ...]] = {}

    def parts(self, reads: Reads) -> Parts:
        """What these names hold now, as parts of a key."""
        return dict(self._parts(reads))

    def _parts(self, reads: Reads) -> Iterator[tuple[str, str]]:
        for name in reads.files:
            kind = "source file" if name.endswith(".py") else "file"
            yield f"{kind} {name}", self._digest(path_at(name, self._root))
        for name in reads.looked:
            yield f"whether there is {name}", kind_of(path_at(name, self._root))
        for name in reads.links:
            yield f"where {name} leads", _where(path_at(name, self._root), self._root)
        for name in reads.folders:
            yield f"names in folder {name}", names_in(path_at(name, self._root))
        asked = frozenset(reads.modules)
        for name in reads.searched:
            yield f"modules in folder {name}", _names(path_at(name, self._root), asked)
        for name in reads.own:
            yield f"place of module {name}", place_of(name, self._root, self._path)
        for name in reads.environment:
            yield f"environment {name}", variable(name, self._environment)
        for name in reads.packages:
            yield from self._package(name)
        if reads.current_folder:
            yield "current folder", current_folder()
        for name in reads.absent:
            yield f"module {name}", ABSENT if _is_absent(name) else "found"
        if reads.distributions:
            yield "installed distributions", _distributions()

    def _package(self, name: str) -> tuple[tuple[str, str], ...]:
        if name not in self._packages:
            try:
                found = tuple(code_identity.of_distribution(name, installed_packages.named(name)))
            except PackageNotFoundError:
                found = ((f"package {name}", ABSENT),)
            self._packages[name] = found
        return self._packages[name]

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            try:
                self._digests[path] = digest_of(path)
            except OSError:
                self._digests[path] = FOLDER if path.is_dir() else ABSENT
        return self._digests[path]


def native_parts(environment: Mapping[str, str], root: Path) -> Parts:
    """Parts for variables that count whether or not they were seen to be read. Folders of
    PYTHONPATH in the checkout count by their place there, so that a moved checkout is the same.
    """
    parts = {
        f"environment {name}": variable(name, environment)
        for name in sorted(environment)
        if name in NATIVE_NAMES or name.startswith(NATIVE_PREFIXES)
    }
    if "environment PYTHONPATH" in parts:
        folders = "\0".join(place(folder, root) for folder in stated_path(environment))
        parts["environment PYTHONPATH"] = sha256(folders.encode(errors="surrogateescape"))
    return parts


def current_folder() -> str:
    """The digest of its path."""
    return sha256(os.fsencode(Path.cwd()))


def variable(name: str, environment: Mapping[str, str]) -> str:
    """A variable's value as a digest, since it may be a secret; or that it is not set."""
    if name == EVERYTHING:
        text = "\0".join(f"{key}={value}" for key, value in sorted(environment.items()))
    elif name in environment:
        text = environment[name]
    else:
        return ABSENT
    return sha256(text.encode(errors="surrogateescape"))


def kind_of(path: Path) -> str:
    """Whether there is a file or a folder."""
    if path.is_dir():
        return FOLDER
    return "a file" if path.exists() else ABSENT


def _where(path: Path, root: Path) -> str:
    """The digest of a link's text and of where it ends."""
    end = place(os.path.realpath(path), Path(os.path.realpath(root)))
    link = path.readlink() if path.is_symlink() else ABSENT
    return sha256(f"{link}\0{end}".encode(errors="surrogateescape"))


def names_in(folder: Path) -> str:
    """The digest of the names in a folder."""
    return _names(folder, None)


def _names(folder: Path, modules: Collection[str] | None) -> str:
    """The digest of the names in a folder. modules: only what could be one of these."""
    try:
        found = sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return ABSENT
    if modules is not None:
        found = [name for name in found if _could_be_one_of(name, modules)]
    return sha256("\0".join(found).encode(errors="surrogateescape"))


def _could_be_one_of(name: str, modules: Collection[str]) -> bool:
    """Whether an import of one of these modules would take a file or a folder of this name."""
    stem, dot, _ = name.partition(".")
    return stem in modules and (not dot or name.endswith(IMPORTED))


def _is_absent(module: str) -> bool:
    """Whether an import would not find a module. Of a package only the folders are looked into: it
    is not imported.
    """
    top, *parts = module.split(".")
    try:
        found = importlib.util.find_spec(top)
        for end in range(1, len(parts) + 1):
            if found is None or found.submodule_search_locations is None:
                return True
            name = ".".join((top, *parts[:end]))
            found = PathFinder.find_spec(name, [*found.submodule_search_locations])
    except (ImportError, ValueError):
        return True
    return found is None


def _distributions() -> str:
    """The digest of the names, versions and lists of files of all that are installed."""
    told = sorted(
        f"{each.name} {each.version} {each.digest}" for each in installed_packages.every()
    )
    return sha256("\0".join(told).encode(errors="surrogateescape"))
