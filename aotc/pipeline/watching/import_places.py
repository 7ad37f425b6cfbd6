"""Where imports find the program's modules. A cached result is good for the next build only if that
one would import the same files.

An editable installation leads to the folder it was installed from, whichever checkout is built; so
do folders of `PYTHONPATH` and of `.pth` files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

NOWHERE = "nowhere"


def path_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """What `sys.path` will be in a child process with this environment, perhaps with more entries
    at its end.
    """
    return (*stated_path(environment), *sys.path)


def stated_path(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The folders of `PYTHONPATH`, absolute: an empty one is the current folder."""
    stated = environment.get("PYTHONPATH", "")
    entries = stated.split(os.pathsep) if stated else []
    return tuple(os.path.abspath(entry) for entry in entries)  # noqa: PTH100


@lru_cache
def checkout(root: Path) -> Path:
    """The folder that was checked out with the manifest's folder: the nearest one with `.git`, or
    without any with `pyproject.toml`; without either, the manifest's folder itself.
    """
    for marker in (".git", "pyproject.toml"):
        for folder in (root, *root.parents):
            if (folder / marker).exists():
                return folder
    return root


def place(path: str, root: Path) -> str:
    """A path relative to the manifest's folder if it lies below that or in the same checkout, such
    as `../src/model.py`; else as it is. `path_at` is its inverse.
    """
    whole = Path(path)
    if whole.is_relative_to(root):
        return whole.relative_to(root).as_posix()
    # With ".." after a link, a path is not what its text says.
    if os.pardir not in whole.parts and whole.is_relative_to(checkout(root)):
        return Path(os.path.relpath(path, root)).as_posix()
    return path


def path_at(name: str, root: Path) -> Path:
    """The path that has this place. The manifest's folder itself may be a link, so that what is
    beside it is not beside where it leads.
    """
    if name.startswith(os.pardir + "/"):
        return Path(os.path.normpath(root / name))
    return root / name


def place_of(name: str, root: Path, path: Sequence[str]) -> str:
    """Where an import of a top-level module leads: the place of a file, or of the folders of a
    namespace package. path: searched after the manifest's folder.
    """
    spec = PathFinder.find_spec(name, [os.fspath(root), *path])
    for finder in sys.meta_path:
        if spec is None and finder is not PathFinder:  # such as those of editable installations
            spec = finder.find_spec(name, None, None)
    return _place(spec, root)


def steady(root: Path, path: Sequence[str], is_own: Callable[[str], bool]) -> Iterator[str]:
    """Top-level names of the program's modules that lie where any import would find them, not where
    the program itself has led its imports.

    path: `sys.path` before the program ran.  is_own: whether a file is the program's.
    """
    names = {
        key.partition(".")[0]
        for key, module in list(sys.modules.items())
        if isinstance(file := getattr(module, "__file__", None), str) and is_own(file)
    }
    for name in sorted(names - {"__main__"}):
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if spec is not None and place_of(name, root, path) == _place(spec, root):
            yield name


def _place(spec: ModuleSpec | None, root: Path) -> str:
    if spec is None:
        return NOWHERE
    if spec.has_location and spec.origin:
        return place(spec.origin, root)
    return ", ".join(place(folder, root) for folder in spec.submodule_search_locations or ())
