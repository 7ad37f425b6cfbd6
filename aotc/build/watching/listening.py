"""Objects of Python that tell what they are asked: the variables, and the finders of imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import ClassVar

from aotc.build.watching.reads import EVERYTHING


class Environment(type(os.environ)):  # type: ignore[misc]
    """`os.environ`, telling which variables were asked for."""

    asked: ClassVar[set[str]] = set()

    def __getitem__(self, key: str | bytes) -> str:
        self.asked.add(os.fsdecode(key))
        return super().__getitem__(key)  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        self.asked.add(EVERYTHING)
        return super().__iter__()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        self.asked.add(EVERYTHING)
        return super().__len__()  # type: ignore[no-any-return]

    def copy(self) -> dict[str, str]:
        self.asked.add(EVERYTHING)
        return super().copy()  # type: ignore[no-any-return]


class Imports:
    """A finder that finds nothing, and hears every name; `importlib` raises no audit event."""

    def __init__(self) -> None:
        self.names: set[str] = set(sys.modules)

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """As `importlib.abc.MetaPathFinder`."""
        self.names.add(name)
