"""Programs that use other people's libraries, as their users write them: `make test-programs`.

Each `with_*.py` holds those of one library, and their build manifests. The libraries are installed
in an environment of their own; without them, only the tables are read.
"""

import ast
import os
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from .roundtrip import HERE, Made, Places, round_trip

TOP = """\
schema = 1
name = "{name}"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
"""

LIBRARIES = sorted(HERE.glob("with_*.py"))


def stated(library: Path, name: str) -> Mapping[str, Any]:
    """A constant of a module, without importing it."""
    for node in ast.parse(library.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    return {}


PROGRAMS = [
    pytest.param(library, name, id=f"{library.stem.removeprefix('with_')}-{name}")
    for library in LIBRARIES
    for name in stated(library, "MANIFESTS")
]


def manifest_of(library: Path, name: str) -> str:
    return TOP.format(name=name) + textwrap.dedent(stated(library, "MANIFESTS")[name])


def test_there_are_programs_of_every_library() -> None:
    assert len(LIBRARIES) >= 7 and all(stated(each, "MANIFESTS") for each in LIBRARIES)


@pytest.mark.programs
@pytest.mark.skipif(
    "AOTC_PROGRAMS" not in os.environ, reason="two GB of libraries: `make test-programs`"
)
@pytest.mark.parametrize(("library", "name"), PROGRAMS)
def test_a_program_gives_without_jax_what_it_gives_with_it(
    library: Path, name: str, places: Places, tmp_path: Path, told: Callable[[str, Made], None]
) -> None:
    environment = stated(library, "ENVIRONMENT")
    made = round_trip(library.stem, manifest_of(library, name), environment, places, tmp_path)
    told(f"{library.stem.removeprefix('with_')}-{name}", made)
    for entry_point, found in made.compared.items():
        assert found.leaves > 0, entry_point
        assert not found.differences, entry_point
