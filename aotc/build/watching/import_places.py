"""Where an import leads: what a program read is what the next build would read only if that finds
the program's modules in the same places.

A package that is installed for editing lies where it was installed from, whichever checkout is
built; folders of `PYTHONPATH` and of `.pth` files likewise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

NOWHERE = "nowhere"


def path_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """What `sys.path` will be in a child of this process, and perhaps more behind it. environment:
    of the child.
    """
    return (*stated_path(environment), *sys.path)


def stated_path(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The folders of `PYTHONPATH`, absolute: an empty one is the current folder."""
    stated = environment.get("PYTHONPATH", "")
    entries = stated.split(os.pathsep) if stated else []
    return tuple(os.path.abspath(entry) for entry in entries)  # noqa: PTH100


def place(path: str, root: Path) -> str:
    """From the manifest's folder, if it lies below that."""
    found = Path(path)
    return found.relative_to(root).as_posix() if found.is_relative_to(root) else path


def place_of(name: str, root: Path, path: Sequence[str]) -> str:
    """Where an import of a top-level module leads: a file, or the folders of a package without one;
    from the manifest's folder if they lie below it. path: to search behind that folder.
    """
    spec = PathFinder.find_spec(name, [os.fspath(root), *path])
    for finder in sys.meta_path:
        if spec is None and finder is not PathFinder:  # such as those of editable installations
            spec = finder.find_spec(name, None, None)
    return _place(spec, root)


def steady(root: Path, path: Sequence[str], is_own: Callable[[str], bool]) -> Iterator[str]:
    """Top-level names of the program's modules that this process has imported from where an import
    leads without the program's doing. path: what `sys.path` was before it ran.  is_own: of a file.
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
