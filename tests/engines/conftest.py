"""Tests that need IREE's compiler and runtime: `make test-iree` installs both in out/iree."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def has_iree() -> bool:
    """Whether both distributions of IREE are here."""
    try:
        return find_spec("iree.compiler") is not None and find_spec("iree.runtime") is not None
    except ModuleNotFoundError:
        return False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of IREE in this folder, and skip it where IREE is missing."""
    skipped = pytest.mark.skip(reason="IREE is not installed: `make test-iree` installs it")
    for item in items:
        if "tests/engines/test_iree" in item.path.as_posix():
            item.add_marker(pytest.mark.iree)
            if not has_iree():
                item.add_marker(skipped)
