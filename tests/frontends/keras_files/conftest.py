"""Tests that need Keras, and what it computes on TensorFlow: `make test-keras` has both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent

os.environ.setdefault("KERAS_BACKEND", "jax")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.keras)
