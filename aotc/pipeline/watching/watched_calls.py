"""Watches the project's own calls for what no opened file shows: clocks, randomness, the system,
and questions about paths.

By PEP 669 events, every call made by the project's code is looked at, and none made by libraries:
only the project's code becomes slower. A function that the project hands to somebody else, as in
`max(paths, key=os.path.getmtime)`, or that the standard library calls on its behalf, as `glob`
does, is seen when it starts, provided it is written in Python. One that is written in C is seen
when the project hands it on as the first argument, as in `map(os.stat, paths)`, or to a pool of
threads.
"""

from __future__ import annotations

import datetime
import getpass
import glob
import os
import os.path
import pathlib
import platform
import random
import resource
import secrets
import shutil
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import unwrap
from multiprocessing.process import BaseProcess
from types import BuiltinFunctionType, CodeType, FrameType, MethodType
from typing import Any, Protocol

TOOL = 4
"""A tool id of `sys.monitoring` that is not reserved for debuggers, coverage or profilers."""


class Listener(Protocol):
    """What is told of the calls, and knows whose code is the project's."""

    def is_project(self, filename: str) -> bool:
        """Whether code of this file is the project's."""

    def asked_by_project(self, frame: FrameType | None) -> bool:
        """Whether the standard library runs this frame on behalf of the project's code."""

    def refuse(self, why: str) -> None:
        """The project asked for the time, a random number or a fact about the system."""

    def heard_look(self, path: str) -> None:
        """It asked whether something exists."""

    def heard_size(self, path: str) -> None:
        """It asked for the size of a file."""

    def heard_link(self, path: str) -> None:
        """It asked where a link leads."""

    def heard_relative(self, path: str) -> None:
        """It made a path absolute."""


CLOCK, CHANCE, SYSTEM = "the clock", "chance", "the system"

_ASKING: dict[str, tuple[Any, ...]] = {
    CLOCK: (
        *(time.time, time.time_ns, time.monotonic, time.monotonic_ns, time.perf_counter),
        *(time.perf_counter_ns, time.process_time, time.localtime, time.gmtime, time.ctime),
        *(time.asctime, time.strftime, os.path.getmtime, os.path.getatime, os.path.getctime),
        *(os.stat, os.lstat, os.fstat, pathlib.Path.stat, pathlib.Path.lstat, os.DirEntry.stat),
        *(time.process_time_ns, time.thread_time, time.thread_time_ns, time.clock_gettime),
        *(time.clock_gettime_ns, os.times),
    ),
    CHANCE: (
        *(
            os.urandom,
            os.getrandom,
            tempfile.mktemp,
            secrets.token_bytes,
            secrets.token_hex,
            secrets.token_urlsafe,
        ),
        *(secrets.randbits, secrets.randbelow, secrets.choice, uuid.uuid1, uuid.uuid4),
        random.SystemRandom,
    ),
    SYSTEM: (
        *(os.getpid, os.getppid, os.uname, os.getlogin, os.getcwd, os.getcwdb),
        *(platform.node, platform.platform, platform.uname, getpass.getuser, uuid.getnode),
        *(os.getuid, os.geteuid, os.getgid, os.getegid, os.getloadavg, os.statvfs),
        *(shutil.disk_usage, pathlib.Path.owner, pathlib.Path.group, resource.getrusage),
        *(threading.get_native_id, BaseProcess.ident.fget),  # type: ignore[attr-defined]
    ),
}
ASKING = {id(function): what for what, functions in _ASKING.items() for function in functions}

ASKING_CODE = {
    unwrap(function).__code__: (what, function.__name__)
    for what, functions in _ASKING.items()
    for function in functions
    if hasattr(function, "__code__")
} | {pathlib.Path.cwd.__func__.__code__: (SYSTEM, "cwd")}  # type: ignore[attr-defined]
"""Asking functions that are written in Python, by code object: what they ask for, and their name.
"""

LOOKING = frozenset(
    function.__code__
    for function in (
        *(os.path.exists, os.path.lexists, os.path.isfile, os.path.isdir),
        *(pathlib.Path.exists, pathlib.Path.is_file, pathlib.Path.is_dir),
    )
)
SIZES = frozenset({os.path.getsize.__code__})
LINKS = frozenset(
    function.__code__
    for function in (
        *(os.path.islink, os.path.realpath, os.path.samefile, os.path.ismount),
        *(pathlib.Path.is_symlink, pathlib.Path.resolve, pathlib.Path.readlink),
        pathlib.Path.samefile,
    )
)
MADE_ABSOLUTE = frozenset({os.path.abspath.__code__, pathlib.Path.absolute.__code__})
PATHS = LOOKING | SIZES | LINKS | MADE_ABSOLUTE
"""Functions of the standard library, written in Python, whose first argument is a path."""

POOLED = ThreadPoolExecutor.submit.__code__
SEEDED = random.Random.seed.__code__
WATCHED = PATHS | ASKING_CODE.keys() | {POOLED, SEEDED}
SECOND_PATHS = frozenset({os.path.samefile.__code__, pathlib.Path.samefile.__code__})

NOW = frozenset({"now", "utcnow", "today"})
SEEDS = frozenset({"seed", "set_state", "setstate"})
NEED_A_SEED = frozenset(
    {"default_rng", "RandomState", "Random", "SeedSequence"}
    | {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
)


_SHARED = random.random.__self__  # type: ignore[attr-defined]
"""The generator behind the functions of `random`."""


class Calls:
    """Watches what code of the project calls, in this process, from now on."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._seeded: set[int] = set()
        monitoring = sys.monitoring
        monitoring.use_tool_id(TOOL, "aotc")
        monitoring.register_callback(TOOL, monitoring.events.PY_START, self._started)
        monitoring.register_callback(TOOL, monitoring.events.CALL, self._called)
        monitoring.set_events(TOOL, monitoring.events.PY_START)

    def _started(self, code: CodeType, offset: int) -> Any:
        if code in WATCHED:
            self._started_watched(code, sys._getframe(1))
            return None
        if code.co_filename == glob.__file__ or self._is_project(code, sys._getframe(1)):
            sys.monitoring.set_local_events(TOOL, code, sys.monitoring.events.CALL)
        return sys.monitoring.DISABLE

    def _is_project(self, code: CodeType, frame: FrameType) -> bool:
        """Whether code is the project's, generated code included (`exec`, methods of
        dataclasses).
        """
        if code.co_filename.startswith("<") and not code.co_filename.startswith("<frozen"):
            return self._listener.asked_by_project(frame)
        return self._listener.is_project(code.co_filename)

    def _started_watched(self, code: CodeType, frame: FrameType) -> None:
        if code in ASKING_CODE:
            caller = frame.f_back
            if caller is not None and self._is_project(caller.f_code, caller):
                asked, name = ASKING_CODE[code]
                self._refuse(asked, name, caller.f_code.co_filename)
        elif code is POOLED:
            function = frame.f_locals["fn"]
            asked_for = self._asked_if_called(function)
            if asked_for and self._listener.asked_by_project(frame):
                self._refuse(asked_for, function.__name__, "a pool of threads")
        elif code is SEEDED:
            self._started_seed(frame)
        elif self._listener.asked_by_project(frame):
            count = 2 if code in SECOND_PATHS else 1
            for name in code.co_varnames[:count]:
                path = frame.f_locals[name]
                if isinstance(path, str | bytes | os.PathLike):
                    self._heard(code, os.fsdecode(path))

    def _started_seed(self, frame: FrameType) -> None:
        """A generator of a class of the project's, or one that is seeded again, by chance."""
        caller: FrameType | None = frame
        while caller is not None and caller.f_code.co_filename == random.__file__:
            caller = caller.f_back
        is_by_chance = frame.f_locals["a"] is None
        if is_by_chance and caller is not None and self._is_project(caller.f_code, caller):
            self._refuse(CHANCE, "Random", caller.f_code.co_filename)

    def _heard(self, code: CodeType, path: str) -> None:
        if code in LOOKING:
            self._listener.heard_look(path)
        elif code in SIZES:
            self._listener.heard_size(path)
        elif code in LINKS:
            self._listener.heard_link(path)
        else:
            self._listener.heard_relative(path)

    def _called(self, code: CodeType, offset: int, function: Any, first: Any) -> None:
        if code.co_filename == glob.__file__:
            self._called_by_glob(function, first, sys._getframe(1))
            return
        while type(function) is partial:
            function, first = function.func, (*function.args, first)[0]
        asked = ASKING.get(id(function)) or self._asked_of_owner(function, first)
        if asked:
            self._refuse(asked, getattr(function, "__name__", "a function"), code.co_filename)
        elif asked := self._asked_if_called(first):
            self._refuse(asked, first.__name__, code.co_filename)
        elif isinstance(first, str | bytes | os.PathLike):
            if function is os.access:
                self._listener.heard_look(os.fsdecode(first))
            elif function is os.readlink:
                self._listener.heard_link(os.fsdecode(first))

    def _called_by_glob(self, function: Any, first: Any, frame: FrameType) -> None:
        """`glob` calls `os.lstat` itself for names without a wildcard."""
        if function is os.lstat and self._listener.asked_by_project(frame):
            self._listener.heard_look(os.fsdecode(first))

    def _refuse(self, asked: str, name: str, file: str) -> None:
        self._listener.refuse(f"it asked {asked}: {name} in {file}")

    def _asked_if_called(self, function: Any) -> str | None:
        """What a function asks for if somebody calls it to whom the project hands it."""
        if asked := ASKING.get(id(function)):
            return asked
        # No attribute of anything else is looked up: that might run the project's code.
        if type(function) not in (BuiltinFunctionType, MethodType):
            return None
        return self._asked_of_owner(function, sys.monitoring.MISSING)

    def _asked_of_owner(self, function: Any, first: Any) -> str | None:
        """What is asked by a call that only its arguments tell: a method by the object it belongs
        to, a maker of random generators by whether it was given a seed.
        """
        name = getattr(function, "__name__", None)
        if not isinstance(name, str):
            return None
        missing = first is sys.monitoring.MISSING or first is None
        if name in NEED_A_SEED:
            home = str(getattr(function, "__module__", None))
            return (
                CHANCE
                if missing and home.startswith(("numpy.random", "random", "_random"))
                else None
            )
        owner = getattr(function, "__self__", None)
        if name in SEEDS and getattr(function, "__module__", None) == "numpy.random":
            owner = _shared_by_numpy()
        if name in NOW and isinstance(owner, type) and issubclass(owner, datetime.date):
            return CLOCK
        if owner is not None and (owner is _SHARED or owner is _shared_by_numpy()):
            if name in SEEDS and not missing:
                self._seeded.add(id(owner))
            return None if id(owner) in self._seeded else CHANCE
        return None


def _shared_by_numpy() -> Any:
    """The generator behind the functions of `numpy.random`; None if nobody has imported it."""
    return getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
