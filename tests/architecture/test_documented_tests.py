"""The threat model names, for each attack, tests that exist."""

import ast
import re
from pathlib import Path

from hostile.generator import CASES

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "reference" / "trust-policy.md").read_text()
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
CASE = re.compile(r'case "([^"]+)"')


def threats() -> list[list[str]]:
    """The cells of each row of the threat model."""
    section = PAGE[PAGE.index("## Threat model") :]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    assert lines[0] == "| attack | what stops it | test |"
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_attack_has_somebody_a_check_and_a_test() -> None:
    assert len(threats()) >= 20
    for cells in threats():
        assert len(cells) == 3 and all(cells), cells
        assert TEST.search(cells[2]) or CASE.search(cells[2]), cells[0]


def test_every_test_that_the_threat_model_names_exists() -> None:
    for name, test in TEST.findall(PAGE):
        assert test in names_in(TESTS / name), f"{name}::{test}"
    assert set(CASE.findall(PAGE)) <= {case.name for case in CASES}


def test_every_file_that_the_page_names_exists() -> None:
    for name in re.findall(r"`(\w+/test_\w+\.py)", PAGE):
        assert (TESTS / name).is_file(), name
