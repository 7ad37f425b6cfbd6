"""The standard's own node tests: all pass but those that are listed with a reason."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: `make test-onnx-frontend` installs it")

from tests.frontends.onnx_files import standard

LEFT_OUT = tomllib.loads(Path(__file__).with_name("left_out.toml").read_text("utf-8"))
"""Names of tests by the reason why they do not pass."""

TESTED = "1.23.2"
"""The release of onnx whose tests the list is about."""


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.limit(3600)
def test_every_node_test_passes_or_is_listed() -> None:
    import onnx

    if onnx.__version__ != TESTED:
        pytest.skip(f"the list is about the tests of onnx {TESTED}")
    listed = {name for names in LEFT_OUT.values() for name in names}
    cases = standard.cases()
    failed: dict[str, str] = {}
    for number, case in enumerate(cases):
        reason = standard.failure(case)
        if reason is not None:
            failed[case.name] = reason
        if number % 50 == 0:
            jax.clear_caches()
    assert len(cases) == 1404
    assert {name: failed[name] for name in sorted(failed.keys() - listed)} == {}
    assert sorted(listed - failed.keys()) == [], "these pass and are listed as left out"
