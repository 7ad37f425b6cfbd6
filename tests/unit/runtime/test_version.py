"""The version that policies are asked about is the distribution's."""

from __future__ import annotations

import tomllib
from pathlib import Path

from aotc_runtime.schema.host_facts import VERSION


def test_the_version_is_that_of_the_distribution() -> None:
    project = Path(__file__).parents[3] / "runtime" / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == VERSION
