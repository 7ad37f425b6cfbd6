"""Lines of the program travel in its provenance, and whatever else stands there is ignored."""

from typing import Any

import pytest

from aotc.base.evidence import FunctionCoverage
from aotc.base.source_locations import (
    Decision,
    EntryPointLines,
    FunctionLines,
    annotations_of,
    read_locations,
)

LINES = {
    "f": EntryPointLines(
        {"model.py": (FunctionLines(name="f", line=3, missed=("5", "7-9")),), "b.py": ()},
        {"n": Decision("model.py", 4)},
        {"net.pt2": {"head": ("net.py:3: return self.head(x)",)}},
    ),
    "g": EntryPointLines({"model.py": (FunctionLines(name="g", line=30),)}),
}


STATED = ("model.py", "b.py", "net.pt2")


def predicate(*files: dict[str, Any]) -> dict[str, Any]:
    return {"buildDefinition": {"buildType": "a", "resolvedDependencies": list(files)}}


def test_what_is_stated_is_read_again() -> None:
    files = [{"name": name, "annotations": annotations_of(LINES, name)} for name in STATED]
    assert read_locations(predicate(*files)) == LINES
    assert annotations_of(LINES, "weights.safetensors") == {}


@pytest.mark.parametrize(
    "stated",
    [
        None,
        [],
        {"buildDefinition": 7},
        predicate({"name": 1}),
        predicate({"name": "jax", "annotations": {"files": "sha256:00"}}),
        predicate({"name": "a.py", "annotations": {"traced": {"f": [{"name": "f"}]}}}),
        predicate({"name": "a.py", "annotations": {"decisions": {"f": {"n": "4"}}}}),
        predicate({"name": "a.pt2", "annotations": {"layers": {"f": {"head": 4}}}}),
    ],
)
def test_anything_else_is_no_lines(stated: Any) -> None:
    assert read_locations(stated) == {}


def test_lines_of_other_functions_are_those_of_no_function() -> None:
    known = [FunctionCoverage(name=name, lines=4, traced=4) for name in ("f", "g")]
    assert LINES["f"].lines_in("model.py", known[:1]) == LINES["f"].functions["model.py"]
    assert LINES["f"].lines_in("model.py", known) == (None, None)
    assert LINES["f"].lines_in("other.py", known) == (None, None)
