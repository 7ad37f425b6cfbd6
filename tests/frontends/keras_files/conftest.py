"""Tests that need Keras, and what it computes on TensorFlow: `make test-keras` has both."""

import os

import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every test of this folder."""
    item.add_marker(pytest.mark.keras)
