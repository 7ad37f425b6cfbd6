"""Records, in a process that runs the user's code, everything that it reads through Python.

Opened files, listed folders, sockets and processes are seen by an audit hook (PEP 578); imports by
a finder; variables by a stand-in behind `os.environ`; clocks and randomness by
`aotc.pipeline.watching.watched_calls`. Native code can read files unseen: unless all of it belongs
to libraries that are known not to, the result is not kept.
"""

from __future__ import annotations

import os
import platform
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import source_from_cache
from pathlib import Path
from types import FrameType
from typing import Any

from aotc.base.constants import EVERYTHING
from aotc.capture import installed_packages, library_files
from aotc.capture.file_digests import State, state_of
from aotc.pipeline.watching import native_code, sources_only
from aotc.pipeline.watching.import_places import place, steady
from aotc.pipeline.watching.recorded_reads import Reads, kind_of, names_in
from aotc.pipeline.watching.watched_calls import Calls
from aotc.pipeline.watching.watched_environment import Environment, Imports

CALLED = "it called native code by name"
REFUSED = {
    "socket.connect": "it used the network",
    "socket.getaddrinfo": "it used the network",
    "socket.gethostbyname": "it used the network",
    "socket.sendto": "it used the network",
    "socket.gethostname": "it asked for the name of the host",
    "subprocess.Popen": "it started a process",
    "os.system": "it started a process",
    "os.exec": "it started a process",
    "os.posix_spawn": "it started a process",
    "os.fork": "it started a process",
    "os.forkpty": "it started a process",
    "sqlite3.connect": "it opened a database",
    "ctypes.dlopen": "it loaded native code by name",
    "ctypes.dlsym": CALLED,
    "ctypes.dlsym/handle": CALLED,
}
DEVICES = ("/dev/", "/proc/", "/sys/")
HARMLESS_DEVICES = ("/dev/null",)
READ_AT_START = ("/proc/stat",)
"""How long processors have worked, which psutil notes for later when it is imported."""
MEMORY = "/dev/shm/"
"""A folder in memory below /dev, which counts as any other folder does."""

TOOLCHAIN = frozenset(
    {"aotc", "aotc_runtime", "aotc_serve", "jax", "jaxlib", "ml_dtypes"}
    | {"msgspec", "numpy", "opt_einsum", "scipy"}
)
"""Packages that read variables of their own in every program alike."""

NOWHERE = "\0"
"""Begins no path."""

METADATA = ".dist-info/"
NATIVE_CODE = tuple(EXTENSION_SUFFIXES)


class Recorder:
    """Records from now on what is imported, and the program that `begin` names. There is no way to
    stop an audit hook: one for each process.
    """

    def __init__(self) -> None:
        self._root = self._own = NOWHERE
        self.path = tuple(sys.path)
        self._libraries = library_files.folders()
        self._opened: dict[str, State | None] = {}
        self._written: set[str] = set()
        self._read_again: set[str] = set()
        self._looked: dict[str, str] = {}
        self._links: set[str] = set()
        self._listed: dict[str, str] = {}
        self._searched: set[str] = set()
        self._imports = Imports(library_files.OPENERS, self._heard_opener)
        sys.meta_path.insert(0, self._imports)
        self._refusals: dict[str, None] = {}
        self._variables: set[str] = set()
        self._packages: set[str] = set()
        self._looks_through_distributions = False
        self._owned: set[str] = set()
        self._brought: set[str] = set()
        self._own_thread: int | None = None
        """A thread that does something meanwhile which is not the program's doing."""
        self._uses_current_folder = False
        self._environment = Environment(self._heard_variable)
        sys.addaudithook(self._heard)
        Calls(self)
        sources_only.install(lambda folder: self._is_library(os.path.join(folder, "")))

    def pause(self) -> None:
        """Hear nothing of this thread until the program begins, and find the packages of what was
        loaded by now, which need not be done again for each program.
        """
        self._unowned()
        self._own_thread = threading.get_ident()

    def begin(self, root: Path, own: Path) -> None:
        """A program is about to be run. root: the manifest's folder.  own: the worker's own folder,
        whose files do not count.
        """
        self._root, self._own = os.fspath(root), os.fspath(own)
        native_code.look_anew()
        self._own_thread = None

    def refuse(self, why: str) -> None:
        """Have the result not kept. why: a clause for people, such as "it used the network"."""
        self._refusals[why.replace(self._root + os.sep, "")] = None

    def finish(self) -> Reads:
        """What was read until now."""
        unowned = self._unowned()
        files = {path for path in self._opened if not self._is_library(path)} | unowned
        files |= self._read_again
        for path in sorted(files):
            if path in self._opened and self._opened[path] != state_of(path):
                self.refuse(f"{path} was changed while it was read")
            if _is_special(path):
                self.refuse(f"{path} is a pipe or a device, which gives something else each time")
        for path, kind in sorted(self._looked.items()):
            if kind != kind_of(Path(path)):
                self.refuse(f"{path} came or went after it had asked whether it is there")
        for path, listed in sorted(self._listed.items()):
            if listed != names_in(Path(path)):
                self.refuse(f"names in {path} changed after it had listed them")
        self._searched |= self._import_path()
        names = self._imports.names
        top = {name.partition(".")[0] for name in names}
        within = {name for name in names if name.rpartition(".")[0] in sys.modules}
        absent = {name for name in top | within if name not in sys.modules}
        return Reads(
            files=self._relative(files),
            looked=self._relative(set(self._looked)),
            links=self._relative(self._links),
            folders=self._relative(set(self._listed)),
            searched=self._relative(self._searched),
            modules=tuple(sorted({part for name in names for part in name.split(".")})),
            own=tuple(steady(Path(self._root), self.path, self.is_project)),
            environment=tuple(sorted(self._environment.asked)),
            packages=tuple(sorted(self._packages)),
            absent=tuple(sorted(absent)),
            distributions=self._looks_through_distributions,
            current_folder=self._uses_current_folder,
            refusals=tuple(sorted(self._refusals)),
        )

    def variables(self, environment: Mapping[str, str]) -> dict[str, bool]:
        """Which variables the program read, itself or through its libraries other than the
        toolchain's, and whether each was set. environment: of the process before the program ran.
        """
        asked = sorted(self._variables)
        return {name: name == EVERYTHING or name in environment for name in asked}

    def is_unchanged(self) -> bool:
        """Whether every file still is as it was when it was first opened."""
        return all(state == state_of(path) for path, state in self._opened.items())

    def _heard_opener(self, name: str, frame: FrameType) -> None:
        (module,) = (each for each in library_files.OPENERS if name.startswith(f"{each}."))
        if library_files.OPENERS[module] is not None:
            self.refuse(f"it called {name}, which reads files unseen")
        elif self._by_project(frame) and not self._by_start_of_library(frame):
            self.refuse(f"it asked the system: {name}")

    def _heard_variable(self, name: str, frame: FrameType) -> None:
        # What is read after all of them are may come of going through them.
        is_new = self._variables.isdisjoint((name, EVERYTHING))
        if is_new and self._by_project(frame) and not _is_toolchains(frame):
            self._variables.add(name)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if threading.get_ident() == self._own_thread:
            return
        if event == "open":
            self._heard_open(*args)
        elif event in ("os.listdir", "os.scandir"):
            self._heard_list(args[0], sys._getframe(1))
        elif event in REFUSED and not _is_itself(event, args) and self._wanted(sys._getframe(1)):
            self.refuse(REFUSED[event])

    def _heard_open(self, path: Any, mode: str | None, flags: int) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        name = self._absolute(os.fsdecode(path))
        self._note_current_folder(os.fsdecode(path), sys._getframe(2))
        if name in self._written and flags & os.O_ACCMODE != os.O_WRONLY:
            # In another build, somebody else may have written the file before it is read.
            self._read_again.add(name)
        if name.startswith(self._own) or name in self._written or name in self._opened:
            return
        if name.startswith(DEVICES) and not name.startswith(MEMORY):
            caller = sys._getframe(2)
            is_by_start = name in READ_AT_START and self._by_start_of_library(caller)
            if name not in HARMLESS_DEVICES and not is_by_start and self._by_project(caller):
                self.refuse(f"it read {name}")
            return
        if flags & os.O_TRUNC or flags & os.O_ACCMODE == os.O_WRONLY:
            self._written.add(name)
            return
        if name.endswith(".pyc"):
            name = _source_of(name)
        if METADATA in name and not self.asked_by_project(sys._getframe(2)):
            self._heard_metadata(name, sys._getframe(2))
            return
        state = state_of(name)
        if state is None and name in sys.path:
            return  # an archive of modules that is not there: searched, as folders are
        if state is None and mode is None and not os.path.isabs(os.fsdecode(path)):
            self.refuse(f"it opened {os.fsdecode(path)} in a folder that nobody knows")
        self._opened[name] = state

    def _heard_metadata(self, name: str, frame: FrameType) -> None:
        """Note what a library asks about an installed package for the program; but jax, which looks
        through all of them for plugins, of which a build allows none.
        """
        if self._by_project(frame) and not _is_toolchains(frame):
            self._packages.add(Path(name).parent.name.removesuffix(METADATA[:-1]).partition("-")[0])
            self._looks_through_distributions |= _looks_through_all(frame)

    def _heard_list(self, path: Any, caller: FrameType) -> None:
        self._note_current_folder("." if path is None else path, caller)
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        name = self._absolute(os.fsdecode("." if path is None else path))
        if caller.f_code.co_filename.startswith("<frozen importlib"):
            if not self._is_library(name + os.sep):
                self._searched.add(name)
        elif caller.f_code.co_filename == metadata.__file__:
            if self.asked_by_project(caller):
                self._list(name)
        elif not name.startswith(self._own) and self._by_project(caller):
            self._list(name)

    def _list(self, folder: str) -> None:
        if folder not in self._listed:
            self._listed[folder] = ""  # listing it is heard again
            self._listed[folder] = names_in(Path(folder))

    def heard_look(self, path: str) -> None:
        """Note that the program asked whether a path exists, and what it is."""
        self.heard_relative(path)
        name = self._absolute(path)
        if name not in self._looked and not name.startswith(self._own):
            self._looked[name] = kind_of(Path(name))

    def heard_size(self, path: str) -> None:
        """A size counts as the content that it belongs to."""
        self.heard_relative(path)
        name = self._absolute(path)
        self._opened.setdefault(name, state_of(name))

    def heard_link(self, path: str) -> None:
        """The path counts even if it is no link yet."""
        self.heard_relative(path)
        self._links.add(self._absolute(path))

    def heard_relative(self, path: str) -> None:
        """A relative path depends on the current folder."""
        self._uses_current_folder |= not os.path.isabs(path)

    def _note_current_folder(self, path: Any, frame: FrameType) -> None:
        """Note that a result depends on the current folder if the project used a relative path."""
        if isinstance(path, str | bytes | os.PathLike) and not os.path.isabs(os.fsdecode(path)):
            self._uses_current_folder |= self._by_project(frame)

    def _by_project(self, frame: FrameType | None) -> bool:
        """Whether code of the project is among the callers. In a thread, whose stack does not show
        who started it, everything counts as the project's.
        """
        last = frame
        while frame is not None:
            if self.is_project(frame.f_code.co_filename):
                return True
            last, frame = frame, frame.f_back
        return last is not None and last.f_code.co_filename == threading.__file__

    def _wanted(self, frame: FrameType) -> bool:
        """Whether the project does this, or a library on its behalf; unless a library only asks
        `platform` about the host.
        """
        return self._by_project(frame) and (
            self.asked_by_project(frame) or not _is_about_host(frame)
        )

    def _by_start_of_library(self, frame: FrameType | None) -> bool:
        """Whether a library does this while it is imported, and so for every program alike."""
        while frame is not None and not self.is_project(name := frame.f_code.co_filename):
            if frame.f_code.co_name == "<module>" and self._is_library(name):
                return True
            frame = frame.f_back
        return False

    def asked_by_project(self, frame: FrameType | None) -> bool:
        """Whether the standard library runs this frame for the project and not for a package: jax,
        for one, looks through all installed packages for plugins, of which a build allows none.
        """
        while frame is not None and not self.is_project(name := frame.f_code.co_filename):
            if self._is_library(name) and not library_files.is_of_python_or_ours(name):
                return False
            frame = frame.f_back
        return frame is not None

    def is_project(self, filename: str) -> bool:
        """Whether code of this file is neither a library's nor generated."""
        return not filename.startswith("<") and not self._is_library(filename)

    def _is_library(self, path: str) -> bool:
        return path.startswith(self._libraries)

    def _absolute(self, path: str) -> str:
        joined = os.path.join(os.getcwd(), path)
        name = os.path.normpath(joined)
        # ".." after a link is above the link's target.
        if ".." in path and os.path.realpath(name) != os.path.realpath(joined):
            return joined
        return name

    def _relative(self, paths: set[str]) -> tuple[str, ...]:
        """The places of paths, so that the same program in another folder reads the same names."""
        root = Path(self._root)
        return tuple(sorted(place(path, root) for path in paths))

    def _import_path(self) -> set[str]:
        """Folders that imports search; Python lists them again only where it must."""
        paths = [*sys.path]
        for module in list(sys.modules.values()):
            # `__path__` of a namespace package is not a list.
            paths.extend(getattr(module, "__path__", ()) or ())
        every = {self._absolute(path) for path in paths if isinstance(path, str)}
        # Folders that do not exist yet would be searched once they do.
        return {path for path in every if not self._is_library(path + os.sep)}

    def _unowned(self) -> set[str]:
        """The library files that were loaded and belong to no distribution; notes the distributions
        that others belong to.
        """
        loaded = {path for path in self._opened if self._is_library(path)}
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and self._is_library(file):
                loaded.add(file)
            elif isinstance(file, str) and file.endswith((".py", *NATIVE_CODE)):
                self._opened.setdefault(file, state_of(file))
                self._check_native({file}, Path(file).name)
        new = loaded - self._owned
        left = {path for path in new if not library_files.is_of_python_or_ours(path)}
        every = list(installed_packages.every()) if left or self._brought else []
        for each in every:
            if owned := library_files.owned(each, left):
                self._packages.add(each.name)
                self._owned |= owned
                left -= owned
                if each.name not in library_files.NATIVE:
                    self._check_native(owned, each.name)
        self._check_native(left, "a package that nobody installed")
        # Libraries that native code has brought along, of whatever package or of none.
        for each in every:
            if owned := library_files.owned(each, self._brought):
                self._packages.add(each.name)
                self._brought -= owned
        for path in self._brought:
            self._opened.setdefault(path, state_of(path))
        return left | self._brought

    def _check_native(self, paths: set[str], owner: str) -> None:
        """Refuse the result if native code of modules may have read unseen."""
        self._own_thread = threading.get_ident()
        native = sorted(path for path in paths if path.endswith(NATIVE_CODE))
        self._brought = self._brought.union(*map(native_code.needed, native))
        reached = (native_code.reaches(path) for path in native if not self._is_watched(path))
        if told := next(filter(None, reached), None):
            self.refuse(f"it loaded {owner}, whose native code may read unseen: {told}")
        self._own_thread = None

    def _is_watched(self, path: str) -> bool:
        """Whether a module reaches files only through functions that tell of their calls."""
        if not self._is_library(path):
            return False
        names = [n for n, m in list(sys.modules.items()) if getattr(m, "__file__", None) == path]
        return any(
            library_files.OPENED_THROUGH.get(name.partition(".")[0], name) in self._imports.heard_in
            for name in names
        )


def _is_itself(event: str, args: tuple[Any, ...]) -> bool:
    """Whether the process opens itself, as `ctypes` does when it is imported: that reads nothing
    until somebody asks for a function by name.
    """
    return event == "ctypes.dlopen" and args[0] is None


def _is_about_host(frame: FrameType | None) -> bool:
    """Whether `platform` runs `uname` to learn of the processor, which is a part of every key."""
    while frame is not None and frame.f_code.co_filename == subprocess.__file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == platform.__file__


def _first_beyond_python(frame: FrameType) -> FrameType:
    """The innermost frame that is neither the standard library's nor generated, such as the one
    for which `os.path.expanduser` reads HOME.
    """
    outer: FrameType | None = frame
    while outer is not None:
        file = outer.f_code.co_filename
        if not file.startswith("<") and not library_files.is_of_python(file):
            return outer
        outer = outer.f_back
    return frame


def _is_toolchains(frame: FrameType) -> bool:
    """Whether jax, or another package of the toolchain, asks this of the standard library."""
    asking = str(_first_beyond_python(frame).f_globals.get("__name__", ""))
    return asking.partition(".")[0] in TOOLCHAIN


def _looks_through_all(frame: FrameType | None) -> bool:
    """Whether `importlib.metadata` reads this for a question about all that are installed, such as
    which of them have an entry point.
    """
    while frame is not None and _first_beyond_python(frame) is not frame:
        is_metadata = frame.f_code.co_filename == metadata.__file__
        if is_metadata and frame.f_code.co_qualname in ("entry_points", "packages_distributions"):
            return True
        frame = frame.f_back
    return False


def _source_of(path: str) -> str:
    try:
        return source_from_cache(path)
    except ValueError:
        return path


def _is_special(path: str) -> bool:
    """Whether it is a pipe, a socket or a device, by whatever name; but the empty one."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return path not in HARMLESS_DEVICES and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
