"""The version that policies are asked about is that of all three distributions."""

import tomllib
from pathlib import Path

import pytest

from aotc_runtime.schema.host_facts import VERSION

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("folder", ["", "runtime", "runtime/serve"])
def test_the_version_is_that_of_the_distribution(folder: str) -> None:
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == VERSION
    ours = [each for each in project["dependencies"] if each.startswith("aotc-")]
    assert all(each.endswith(f" == {VERSION}") for each in ours)
