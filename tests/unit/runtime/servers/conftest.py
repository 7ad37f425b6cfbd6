"""Servers of the examples, started once for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from served import Served, serving

import aotc_runtime
from aotc_runtime import LoadedBundle

Bundle = tuple[Path, Path]


@pytest.fixture(scope="module")
def digits(digits_bundle: Bundle) -> Iterator[LoadedBundle]:
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        yield bundle


@pytest.fixture(scope="module")
def served(digits_bundle: Bundle, encoder_bundle: Bundle, train_bundle: Bundle) -> Iterator[Served]:
    """A server of three bundles, with limits that tests can reach."""
    bundles, policies = zip(digits_bundle, encoder_bundle, train_bundle, strict=True)
    limits = ["--max-body", "4M", "--max-tensor", "1M", "--body-seconds", "2"]
    limits += ["--header-seconds", "2", "--max-connections", "300"]
    with serving(bundles, policies, *limits) as server:
        yield server
