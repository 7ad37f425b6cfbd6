"""Files that a program opens while it is captured, and environment variables that it asks for.

Provenance lists them, and keys of tasks hold them where callers see classes of the program
(docs/concepts/cache.md). An audit hook (PEP 578) sees opened files, a stand-in behind `os.environ`
sees variables. Files and variables that native code reads by itself are not seen.
"""

import os
import posix
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from importlib.util import source_from_cache
from pathlib import Path
from types import FrameType
from typing import Any

from aotc.base.constants import EVERYTHING
from aotc.capture import project_files

TOOLCHAIN = frozenset(
    {"aotc", "aotc_runtime", "aotc_serve", "jax", "jaxlib", "ml_dtypes"}
    | {"msgspec", "numpy", "opt_einsum", "pydantic", "scipy"}
)
"""Packages that read variables of their own in every program alike."""


class Recorder:
    """Records from now on, in this process: an audit hook cannot be removed.

    Files in `scratch`, the build's scratch folder, do not count.
    """

    def __init__(self, scratch: Path) -> None:
        self._skipped = (*project_files.library_folders(), os.path.join(scratch, ""))
        self._opened: set[str] = set()
        self._variables: set[str] = set()
        self._before = dict(os.environ)
        _Environment(self._on_variable)
        sys.addaudithook(self._on_event)

    def files(self) -> list[str]:
        """Return the absolute paths of files that were read, or mapped as native code is.

        Those of installed packages, Python and aotc are left out. Some may not exist.
        """
        mapped = {path for path in _mapped_files() if not path.startswith(self._skipped)}
        return sorted(self._opened | mapped)

    def variables(self) -> dict[str, bool]:
        """Return the variables that were read, and whether each was set before the program.

        Reads by the toolchain's packages are left out. EVERYTHING stands for all.
        """
        asked = sorted(self._variables)
        return {name: name == EVERYTHING or name in self._before for name in asked}

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if event != "open":
            return
        path, _, flags = args
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a descriptor
        if flags & os.O_TRUNC or flags & os.O_ACCMODE == os.O_WRONLY:
            return
        name = _absolute(os.fsdecode(path))
        if name.endswith(".pyc"):
            with suppress(ValueError):
                name = source_from_cache(name)
        if not name.startswith(self._skipped):
            self._opened.add(name)

    def _on_variable(self, name: str, frame: FrameType) -> None:
        # What is read after all of them are may come of going through them.
        if self._variables.isdisjoint((name, EVERYTHING)) and _package(frame) not in TOOLCHAIN:
            self._variables.add(name)


class _Environment(MutableMapping[bytes, bytes]):
    """The variables of this process behind `os.environ`, `os.environb` and `posix.environ`.

    `on_read` is called with each name that is read, or EVERYTHING if all are read at once, and with
    the frame that reads it.
    """

    def __init__(self, on_read: Callable[[str, FrameType], None]) -> None:
        self._on_read, self._variables = on_read, posix.environ
        posix.environ = self  # type: ignore[assignment]
        for shown in (os.environ, os.environb):
            vars(shown)["_data"] = self

    def __getitem__(self, key: bytes) -> bytes:
        self._on_read(os.fsdecode(key), sys._getframe(1))
        return self._variables[key]

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._variables[key] = value

    def __delitem__(self, key: bytes) -> None:
        del self._variables[key]

    def __iter__(self) -> Iterator[bytes]:
        self._on_read(EVERYTHING, sys._getframe(1))
        return iter(self._variables)

    def __len__(self) -> int:
        self._on_read(EVERYTHING, sys._getframe(1))
        return len(self._variables)

    def copy(self) -> Mapping[bytes, bytes]:
        """Return a dictionary of all variables."""
        self._on_read(EVERYTHING, sys._getframe(1))
        return dict(self._variables)


def _package(frame: FrameType) -> str:
    """Return the package that reads, perhaps through the standard library.

    `os.path.expanduser` reads HOME. In a thread it may be the library, counted as the program.
    """
    outer: FrameType | None = frame
    while outer is not None:
        file = outer.f_code.co_filename
        if not file.startswith("<") and not project_files.is_of_python(file):
            break
        outer = outer.f_back
    return str((outer or frame).f_globals.get("__name__", "")).partition(".")[0]


def _absolute(path: str) -> str:
    joined = os.path.join(os.getcwd(), path)
    name = os.path.normpath(joined)
    # ".." after a link is above the link's target.
    if ".." in path and os.path.realpath(name) != os.path.realpath(joined):
        return os.path.realpath(joined)
    return name


def _mapped_files() -> Iterator[str]:
    """Return files that this process has mapped, such as extension modules."""
    lines = Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines()
    columns = (line.split(maxsplit=5) for line in lines)
    return (each[5] for each in columns if len(each) > 5 and each[5].startswith("/"))
