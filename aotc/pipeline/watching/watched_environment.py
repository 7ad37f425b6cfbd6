"""A stand-in for the variables of the process, and a finder of imports, that note what they are
asked for.
"""

from __future__ import annotations

import os
import posix
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import wraps
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import Any

from aotc.base.constants import EVERYTHING


class Environment(MutableMapping[bytes, bytes]):
    """The variables of this process behind `os.environ`, `os.environb` and `posix.environ`, that
    notes which were asked for; EVERYTHING if all were.

    heard: told of each, and of the frame that asks.
    """

    def __init__(self, heard: Callable[[str, FrameType], None]) -> None:
        self.asked: set[str] = set()
        self._heard, self._variables = heard, posix.environ
        posix.environ = self  # type: ignore[assignment]
        for shown in (os.environ, os.environb):
            vars(shown)["_data"] = self

    def _note(self, name: str) -> None:
        self.asked.add(name)
        self._heard(name, sys._getframe(2))

    def __getitem__(self, key: bytes) -> bytes:
        self._note(os.fsdecode(key))
        return self._variables[key]

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._variables[key] = value

    def __delitem__(self, key: bytes) -> None:
        del self._variables[key]

    def __iter__(self) -> Iterator[bytes]:
        self._note(EVERYTHING)
        return iter(self._variables)

    def __len__(self) -> int:
        self._note(EVERYTHING)
        return len(self._variables)

    def copy(self) -> dict[bytes, bytes]:
        """A dictionary of all variables, which counts as looking at everything."""
        self._note(EVERYTHING)
        return dict(self._variables)


class Imports:
    """A finder that notes every name, since `importlib` raises no audit event, and leaves it to
    others to find them.

    watched: modules to functions of theirs; None for all.  heard: told of each call of one.
    """

    def __init__(
        self,
        watched: Mapping[str, frozenset[str] | None],
        heard: Callable[[str, FrameType], None],
    ) -> None:
        self.names: set[str] = set(sys.modules)
        self.heard_in: set[str] = set()
        """Modules whose functions tell of their calls."""
        self._watched, self._heard = watched, heard

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        """Note a module's name, and find the module if its functions are watched; None leaves the
        search to others.
        """
        self.names.add(name)
        if name not in self._watched:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._watch(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _watch(self, module: ModuleType) -> None:
        """Put functions that tell of their calls in the place of those that are watched."""
        functions = self._watched[module.__name__]
        for key in sorted(vars(module) if functions is None else functions):
            within, _, name = key.rpartition(".")
            holder = getattr(module, within, None) if within else module
            function = getattr(holder, name, None)
            if callable(function) and not isinstance(function, type):
                setattr(holder, name, self._telling(f"{module.__name__}.{key}", function))
        self.heard_in.add(module.__name__)

    def _telling(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._heard(name, sys._getframe(1))
            return function(*args, **kwargs)

        return call
