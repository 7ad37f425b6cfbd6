"""Tests that need TensorFlow, in an environment of its own: `make test-tensorflow` has it."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every test of this folder."""
    item.add_marker(pytest.mark.tensorflow)
