"""Which tests run a function: most of those that answer for a module cannot notice what becomes of
one function of it.

Followed by `sys.monitoring` (https://docs.python.org/3/library/sys.monitoring.html), in the process
of the tests alone: what its children run is not seen.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec
import pytest

from .mutants import Mutant

TOOL = sys.monitoring.PROFILER_ID

type Place = tuple[str, int]
"""A function: its file, and the line in which it begins."""


class Following:
    """A plugin that notes, while a test runs, which functions of some files begin."""

    def __init__(self, files: frozenset[str]) -> None:
        self.files = files
        self.seen: dict[str, set[Place]] = {}
        self._now: set[Place] = set()

    def __enter__(self) -> Following:
        events = sys.monitoring.events.PY_START
        sys.monitoring.use_tool_id(TOOL, "mutation")
        sys.monitoring.register_callback(TOOL, events, self._began)
        sys.monitoring.set_events(TOOL, events)
        return self

    def __exit__(self, *_: object) -> None:
        sys.monitoring.set_events(TOOL, 0)
        sys.monitoring.free_tool_id(TOOL)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """With the fixtures that are made for it."""
        self._now = self.seen.setdefault(item.nodeid, set())
        sys.monitoring.restart_events()
        return (yield)

    def _began(self, code: CodeType, _: int) -> object:
        if code.co_filename in self.files:
            self._now.add((code.co_filename, code.co_firstlineno))
        return sys.monitoring.DISABLE  # until the next test


class Only:
    """A plugin that leaves out all tests but these."""

    def __init__(self, tests: frozenset[str]) -> None:
        self.tests = tests

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """In their order."""
        items[:] = [item for item in items if item.nodeid in self.tests]


def write(followed: Following, path: Path) -> None:
    """Leave what was seen for the process that asked for it."""
    path.write_bytes(msgspec.json.encode(followed.seen))


def read(path: Path) -> dict[Place, frozenset[str]]:
    """The tests that run each function. path: as written; none, if there is no such file."""
    if not path.exists():
        return {}
    tests: dict[Place, set[str]] = {}
    for test, places in msgspec.json.decode(
        path.read_bytes(), type=dict[str, list[tuple[str, int]]]
    ).items():
        for place in places:
            tests.setdefault(place, set()).add(test)
    return {place: frozenset(names) for place, names in tests.items()}


def place_of(mutant: Mutant) -> Place | None:
    """The function in which something is changed; None if that runs when the module is imported."""
    around = [
        min([node.lineno, *(each.lineno for each in node.decorator_list)])
        for node in ast.walk(ast.parse(mutant.file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.lineno <= mutant.line <= _end(node)
    ]
    return (str(mutant.file), max(around)) if around else None


def files_of(found: Sequence[Mutant]) -> frozenset[str]:
    """The files in which something is changed."""
    return frozenset(str(mutant.file) for mutant in found)


def _end(node: ast.FunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno
