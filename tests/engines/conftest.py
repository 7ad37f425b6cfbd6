"""Tests that need the packages of another engine: `make test-iree` installs IREE's in out/iree,
`make test-onnx` those of ONNX Runtime in out/onnx.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

ENGINES = {
    "iree": ("IREE", ("iree.compiler", "iree.runtime")),
    "onnx": ("ONNX Runtime", ("onnx", "onnxruntime")),
}
"""By the marker and the beginning of files: the engine, and what has to be there."""


def has(modules: tuple[str, ...]) -> bool:
    """Whether all of these can be imported."""
    try:
        return all(find_spec(module) is not None for module in modules)
    except ModuleNotFoundError:
        return False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of an engine in this folder, and skip it where the engine is missing."""
    for marker, (name, modules) in ENGINES.items():
        reason = f"{name} is not installed: `make test-{marker}` installs it"
        for item in items:
            if f"tests/engines/test_{marker}" in item.path.as_posix():
                item.add_marker(marker)
                if not has(modules):
                    item.add_marker(pytest.mark.skip(reason=reason))
