"""Tests that need the onnx wheel: `make test-onnx-frontend` installs it in out/onnx-frontend."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every test of this folder."""
    item.add_marker(pytest.mark.onnx)
