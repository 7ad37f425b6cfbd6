"""Bundles of the examples, loaded once for the tests of a module."""

from collections.abc import Iterator

import pytest

import aotc_runtime
from aotc_runtime import LoadedBundle
from tests.conftest import Bundle


@pytest.fixture(scope="module")
def digits(digits_bundle: Bundle) -> Iterator[LoadedBundle]:
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        yield bundle


@pytest.fixture(scope="module")
def train(train_bundle: Bundle) -> Iterator[LoadedBundle]:
    with aotc_runtime.load(train_bundle[0], trust=train_bundle[1]) as bundle:
        yield bundle
