"""Every primitive of jax as jax's own tests use it, in bundles: `make test-harnesses`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from .roundtrip import HERE, Made, Places, round_trip

pytestmark = [
    pytest.mark.harnesses,
    pytest.mark.skipif(
        "AOTC_PROGRAMS" not in os.environ, reason="half an hour: `make test-harnesses`"
    ),
]

BUNDLES = 25
"""As many as the harnesses of jax 0.12 need."""

ENTRY_POINTS = 150
"""Of a bundle, at most."""


type Selected = tuple[list[str], Mapping[str, str]]


@pytest.fixture(scope="session")
def selected(tmp_path_factory: pytest.TempPathFactory) -> Selected:
    """Names of the entry points to build, and the environment that knows those that are the same.

    HARNESSES: a part of their names.
    """
    out = tmp_path_factory.mktemp("harnesses") / "selected.json"
    command = [sys.executable, HERE / "harnesses.py", os.environ.get("HARNESSES", ""), out]
    subprocess.run(command, check=True)
    names = list(json.loads(out.read_text()))
    assert names, "no harness has such a name"
    return names, {"AOTC_HARNESSES": str(out)}


def manifest_of(names: list[str]) -> str:
    lines = ["schema = 1", 'name = "harnesses"', 'version = "1.0.0"']
    lines += ['targets = ["cpu-x86-64-v3"]', "enable_x64 = true"]
    for name in names:
        number = name.rpartition("_")[2]
        lines.append(f"[entry_points.{name}]")
        lines.append(f'function = "harnesses:harness_{number}"')
        lines.append(f'inputs.arguments = {{ like = "harnesses:arguments_{number}" }}')
    return "\n".join(lines)


@pytest.mark.parametrize("bundle", range(BUNDLES))
def test_harnesses_give_without_jax_what_they_give_with_it(
    bundle: int,
    selected: Selected,
    places: Places,
    tmp_path: Path,
    told: Callable[[str, Made], None],
) -> None:
    every, environment = selected
    bundles = -(-len(every) // ENTRY_POINTS)
    assert bundles <= BUNDLES, f"{len(every)} harnesses need BUNDLES = {bundles}"
    names = every[bundle::bundles] if bundle < bundles else []
    if not names:
        pytest.skip("other bundles hold all that HARNESSES selects")
    made = round_trip("harnesses", manifest_of(names), environment, places, tmp_path)
    told(f"harnesses {bundle}", made)
    wrong = {name: found.differences for name, found in made.compared.items() if found.differences}
    assert not wrong
