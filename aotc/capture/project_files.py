"""The files of a program and of the libraries below it, and the names of the program's own.

Its own are the files below the build manifest's folder, except for an environment in it, and files
elsewhere that are not installed: in a folder of `PYTHONPATH`, or the sources of an editable
installation. Python, aotc and installed packages are named by their versions and file digests.
"""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from pathlib import Path

import aotc
import aotc_runtime
from aotc.capture.file_digests import digest_of
from aotc_runtime.base.digest import sha256

_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of packages that are not the program, even where an environment lies beside it."""

GIT = ".git"

MAIN = ("__main__", "__mp_main__")
"""The process's main module; multiprocessing uses the second name."""


@cache
def _installed_folders() -> tuple[str, ...]:
    """Return folders with installed distributions, most of them below the standard library's."""
    entries = [entry for entry in sys.path if entry and any(Path(entry).glob("*.dist-info"))]
    paths = sysconfig.get_paths()
    return _ending_in_a_slash([*entries, paths["purelib"], paths["platlib"]])


@cache
def _python_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return _ending_in_a_slash([paths["stdlib"], paths["platstdlib"]])


@cache
def _ours() -> tuple[str, ...]:
    return _ending_in_a_slash([aotc.__path__[0], aotc_runtime.__path__[0]])


def is_of_python_or_ours(path: str) -> bool:
    """Return whether a file belongs to the standard library or to aotc."""
    return path.startswith(_ours()) or is_of_python(path)


def is_of_python(path: str) -> bool:
    """Return whether a file belongs to the standard library."""
    return path.startswith(_python_folders()) and not path.startswith(_installed_folders())


@cache
def library_folders() -> tuple[str, ...]:
    """Return the folders of installed code, which hold no file of the project."""
    return tuple(dict.fromkeys((*_installed_folders(), *_python_folders(), *_ours())))


def _ending_in_a_slash(folders: Iterable[str]) -> tuple[str, ...]:
    return tuple(os.path.join(folder, "") for folder in dict.fromkeys(folders))


@cache
def is_own(file: str, root: Path) -> bool:
    """Return whether a file (absolute path) is the program's; `root` is the manifest's folder."""
    if not file.startswith("/") or is_of_python_or_ours(file):
        return False
    below = os.path.join(root, "")
    inside = file.startswith(below)
    if not _INSTALLED.isdisjoint(file.removeprefix(below).split("/")):
        return False
    return inside or not file.startswith(library_folders())


def own_names(root: Path) -> dict[str, str]:
    """Map each own Python file that was imported to its name.

    It is the path from the manifest's folder or, for a file elsewhere, from its import folder.
    """
    return dict(_own_modules(root))


def name_of(file: str, root: Path, names: dict[str, str]) -> str | None:
    """Return an own file's name from `own_names`; None for one elsewhere that is no module."""
    path = Path(file)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else names.get(file)


def sources(root: Path, imported: Mapping[str, str]) -> dict[str, str]:
    """Map names of imported own Python files and archives to digests.

    `imported` has digests of what was imported from a file, by path.
    """
    found: dict[str, str] = {}
    for file, name in _own_modules(root):
        path = _on_disk(Path(file))
        if path is None:
            continue
        if path != Path(file):
            name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
        if name not in found:
            found[name] = imported.get(str(path)) or sha256(path.read_bytes())
    return dict(sorted(found.items()))


def read_by(opened: Iterable[str], root: Path, manifest: Set[Path]) -> dict[str, str]:
    """Map the names of own files that were opened to digests.

    They lie below the manifest's folder (`root`) or the folder of a module elsewhere, without
    `.git`: provenance names the commit. `opened` are paths from there, or absolute, without "..";
    `manifest` has absolute paths of it and its files, which provenance lists separately.
    """
    folders = {Path(file).parent: Path(name).parent for file, name in _own_modules(root)}
    folders[root] = Path()
    found: dict[str, str] = {}
    for path in (root / text for text in opened):
        above = next((folder for folder in path.parents if folder in folders), None)
        if above is None or not is_own(str(path), root) or not path.is_file():
            continue
        below = path.relative_to(above)
        if GIT not in below.parts and path.resolve() not in manifest:
            found[(folders[above] / below).as_posix()] = digest_of(path)
    return dict(sorted(found.items()))


def _own_modules(root: Path) -> Iterator[tuple[str, str]]:
    for key, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or not is_own(file, root):
            continue
        path = Path(file)
        if path.is_relative_to(root):
            yield file, path.relative_to(root).as_posix()
        elif key not in MAIN:
            named = getattr(getattr(module, "__spec__", None), "name", None) or key
            folder = named.replace(".", "/")
            yield file, f"{folder}/__init__.py" if path.stem == "__init__" else f"{folder}.py"


def _on_disk(path: Path) -> Path | None:
    """Return the file, or the archive it is in; None if it is not there any more."""
    while not path.is_file():
        if path == path.parent:
            return None
        path = path.parent
    return path
