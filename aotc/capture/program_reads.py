"""Records what a program reads while it is captured, for the provenance of its bundle: the files
that it opens, and the names of the environment variables that it asks for.

Nothing depends on this but what provenance lists: every build captures the program, and later tasks
are looked up by the content of what the capture made. Opened files are seen by an audit hook
(PEP 578), variables by a stand-in behind `os.environ`. Native code that opens files or reads
variables by itself is not seen.
"""

from __future__ import annotations

import os
import posix
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib.util import source_from_cache
from pathlib import Path
from types import FrameType
from typing import Any

from aotc.base.constants import EVERYTHING
from aotc.capture import project_files

TOOLCHAIN = frozenset(
    {"aotc", "aotc_runtime", "aotc_serve", "jax", "jaxlib", "ml_dtypes"}
    | {"msgspec", "numpy", "opt_einsum", "scipy"}
)
"""Packages that read variables of their own in every program alike."""


class Recorder:
    """Records from now on, in this process: an audit hook cannot be removed.

    scratch: the build's scratch folder, whose files do not count.
    """

    def __init__(self, scratch: Path) -> None:
        self._libraries = project_files.library_folders()
        self._skipped = (*self._libraries, os.path.join(scratch, ""))
        self._opened: set[str] = set()
        self._variables: set[str] = set()
        self._before = dict(os.environ)
        _Environment(self._on_variable)
        sys.addaudithook(self._on_event)

    def files(self) -> list[str]:
        """Return the absolute paths of the files that were opened to be read, or mapped as native
        code is, without those of installed packages, Python and aotc. Some may not exist.
        """
        mapped = {path for path in _mapped() if not path.startswith(self._skipped)}
        return sorted(self._opened | mapped)

    def variables(self) -> dict[str, bool]:
        """Return the variables that the program asked for, itself or through its libraries other
        than the toolchain's, and whether each was set before it ran. EVERYTHING stands for all.
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
            name = _source_of(name)
        if not name.startswith(self._skipped):
            self._opened.add(name)

    def _on_variable(self, name: str, frame: FrameType) -> None:
        # What is read after all of them are may come of going through them.
        is_new = self._variables.isdisjoint((name, EVERYTHING))
        if is_new and self._is_by_program(frame) and not _is_by_toolchain(frame):
            self._variables.add(name)

    def _is_by_program(self, frame: FrameType | None) -> bool:
        """Whether code of the program is among the callers. In a thread, whose stack does not show
        what started it, everything counts as the program's.
        """
        last = frame
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith(("<", *self._libraries)):
                return True
            last, frame = frame, frame.f_back
        return last is not None and last.f_code.co_filename == threading.__file__


class _Environment(MutableMapping[bytes, bytes]):
    """The variables of this process behind `os.environ`, `os.environb` and `posix.environ`.

    on_read: called with each name that is asked for, EVERYTHING for all at once, and the frame that
    asks.
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


def _is_by_toolchain(frame: FrameType) -> bool:
    """Whether jax, or another package of the toolchain, asks, perhaps through the standard library
    (`os.path.expanduser` reads HOME).
    """
    outer: FrameType | None = frame
    while outer is not None:
        file = outer.f_code.co_filename
        if not file.startswith("<") and not project_files.is_of_python(file):
            break
        outer = outer.f_back
    asking = str((outer or frame).f_globals.get("__name__", ""))
    return asking.partition(".")[0] in TOOLCHAIN


def _absolute(path: str) -> str:
    joined = os.path.join(os.getcwd(), path)
    name = os.path.normpath(joined)
    # ".." after a link is above the link's target.
    if ".." in path and os.path.realpath(name) != os.path.realpath(joined):
        return os.path.realpath(joined)
    return name


def _source_of(path: str) -> str:
    try:
        return source_from_cache(path)
    except ValueError:
        return path


def _mapped() -> Iterator[str]:
    """The files that this process has mapped, such as extension modules and their libraries."""
    lines = Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines()
    columns = (line.split(maxsplit=5) for line in lines)
    return (each[5] for each in columns if len(each) > 5 and each[5].startswith("/"))
