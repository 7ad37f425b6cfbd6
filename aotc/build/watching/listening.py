"""Stand-ins for `os.environ` and a finder of imports that note what they are asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import ClassVar

from aotc.constants import EVERYTHING


class Environment(type(os.environ)):  # type: ignore[misc]
    """`os.environ` that notes which variables were asked for; EVERYTHING if all were.

    heard: told of each, and of the frame that asks.
    """

    asked: ClassVar[set[str]] = set()
    heard: ClassVar[staticmethod[[str, FrameType], None]]

    def _note(self, name: str) -> None:
        self.asked.add(name)
        self.heard(name, sys._getframe(2))

    def __getitem__(self, key: str | bytes) -> str:
        self._note(os.fsdecode(key))
        return super().__getitem__(key)  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        self._note(EVERYTHING)
        return super().__iter__()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        self._note(EVERYTHING)
        return super().__len__()  # type: ignore[no-any-return]

    def copy(self) -> dict[str, str]:
        """As `os.environ.copy`."""
        self._note(EVERYTHING)
        return super().copy()  # type: ignore[no-any-return]


class Imports:
    """A finder that finds nothing but notes every name, since `importlib` raises no audit event."""

    def __init__(self) -> None:
        self.names: set[str] = set(sys.modules)

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """As `importlib.abc.MetaPathFinder`."""
        self.names.add(name)
