"""Compiles the user's modules from their sources, whatever lies in `__pycache__`.

Python trusts bytecode whose source has the same size and modification time in whole seconds. Tools
that set times (checkouts, archives, images) can leave another source with both; a build that ran
the old bytecode would build a program that its provenance does not name.
"""

import os
import sys
from collections.abc import Mapping
from importlib import machinery
from typing import Any

from aotc.capture import project_files
from aotc_runtime.base.digest import sha256


class _SourceLoader(machinery.SourceFileLoader):
    """Loads modules from source, and neither reads nor writes bytecode.

    https://docs.python.org/3/library/importlib.html#importlib.abc.SourceLoader.path_stats
    """

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """Raise OSError, always, which disables bytecode."""
        raise OSError(path)

    def get_data(self, path: str) -> bytes:
        """Return the source, whose digest is then known."""
        data = super().get_data(path)
        IMPORTED.setdefault(path, sha256(data))
        return data


IMPORTED: dict[str, str] = {}
"""Digests of the sources that this process has imported, as it read them, by path."""


_find_in = machinery.FileFinder.path_hook(
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
    (_SourceLoader, machinery.SOURCE_SUFFIXES),
    (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
)


def install() -> None:
    """Install it in this process. Modules of libraries are loaded as usual."""

    def is_library(folder: str) -> bool:
        return os.path.join(folder, "").startswith(project_files.library_folders())

    def hook(path: str) -> Any:
        if is_library(path):
            raise ImportError(path)
        return _find_in(path)

    sys.path_hooks.insert(0, hook)
    for path in list(sys.path_importer_cache):
        if not is_library(path):
            del sys.path_importer_cache[path]
