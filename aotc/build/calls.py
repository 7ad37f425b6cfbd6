"""What the project's own code asks that no file holds: clocks, chance, the system.

Every call that is made by the code of the project, and none of those that libraries make, is
looked at (PEP 669): it costs the project's code alone.
"""

from __future__ import annotations

import datetime
import getpass
import os
import os.path
import pathlib
import platform
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable
from types import CodeType
from typing import Any

TOOL = 4
"""Of the six tools that Python knows, one that debuggers, coverage and profilers do not take."""

type OnCall = Callable[[str], None]
type OnPath = Callable[[str], None]

CLOCK, CHANCE, SYSTEM = "the clock", "chance", "the system"

_ASKING: dict[str, tuple[Any, ...]] = {
    CLOCK: (
        *(time.time, time.time_ns, time.monotonic, time.monotonic_ns, time.perf_counter),
        *(time.perf_counter_ns, time.process_time, time.localtime, time.gmtime, time.ctime),
        *(time.asctime, time.strftime, os.path.getmtime, os.path.getatime, os.path.getctime),
        *(os.stat, os.lstat, pathlib.Path.stat, pathlib.Path.lstat),
    ),
    CHANCE: (
        *(os.urandom, secrets.token_bytes, secrets.token_hex, secrets.token_urlsafe),
        *(secrets.randbits, secrets.randbelow, secrets.choice, uuid.uuid1, uuid.uuid4),
        random.SystemRandom,
    ),
    SYSTEM: (
        *(os.getpid, os.getppid, os.uname, os.getlogin, os.getcwd, pathlib.Path.cwd),
        *(platform.node, platform.platform, platform.uname, getpass.getuser),
    ),
}
ASKING = {id(function): what for what, functions in _ASKING.items() for function in functions}

LOOKING = {
    id(function)
    for function in (
        *(os.path.exists, os.path.lexists, os.path.isfile, os.path.isdir, os.path.islink),
        *(os.path.getsize, os.access, pathlib.Path.exists, pathlib.Path.is_file),
        *(pathlib.Path.is_dir, pathlib.Path.is_symlink),
    )
}

NOW = frozenset({"now", "utcnow", "today"})
SEEDS = frozenset({"seed", "set_state", "setstate"})
NEED_A_SEED = frozenset({"default_rng", "RandomState", "Random", "SeedSequence", "PCG64"})


_SHARED = random.random.__self__  # type: ignore[attr-defined]
"""The generator behind the functions of `random`."""


class Calls:
    """Watches what code of the project calls, in this process, from now on.

    is_project: of a file name.  refuse: told what was asked and where.  looked: told a path whose
    existence was asked for.
    """

    def __init__(
        self, is_project: Callable[[str], bool], refuse: Callable[[str], None], looked: OnPath
    ) -> None:
        self._is_project, self._refuse, self._looked = is_project, refuse, looked
        self._seeded: set[int] = set()
        monitoring = sys.monitoring
        monitoring.use_tool_id(TOOL, "aotc")
        monitoring.register_callback(TOOL, monitoring.events.PY_START, self._started)
        monitoring.register_callback(TOOL, monitoring.events.CALL, self._called)
        monitoring.set_events(TOOL, monitoring.events.PY_START)

    def _started(self, code: CodeType, offset: int) -> Any:
        if self._is_project(code.co_filename):
            sys.monitoring.set_local_events(TOOL, code, sys.monitoring.events.CALL)
        return sys.monitoring.DISABLE

    def _called(self, code: CodeType, offset: int, function: Any, first: Any) -> None:
        asked = ASKING.get(id(function)) or self._asked_of_owner(function, first)
        if asked:
            name = getattr(function, "__name__", "a function")
            self._refuse(f"it asked {asked}: {name} in {code.co_filename}")
        elif id(function) in LOOKING and isinstance(first, str | bytes | os.PathLike):
            self._looked(os.fsdecode(first))

    def _asked_of_owner(self, function: Any, first: Any) -> str | None:
        """Of a method, by whose it is; of what makes generators, by whether it got a seed."""
        name = getattr(function, "__name__", None)
        if not isinstance(name, str):
            return None
        missing = first is sys.monitoring.MISSING or first is None
        if name in NEED_A_SEED:
            home = str(getattr(function, "__module__", None))
            return CHANCE if missing and home.startswith(("numpy.random", "random")) else None
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
