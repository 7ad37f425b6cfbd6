"""Tables and pages that name modules, tests and lines of code name what there is."""

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hostile.generator import CASES

from scripts.mutation.mutants import KINDS, LISTED
from tests.hostile.test_mistakes_are_noticed import MISTAKES, Mistake

ROOT = Path(__file__).parents[2]


PACKAGES = (
    *(ROOT, ROOT / "aotc", ROOT / "runtime", ROOT / "runtime" / "aotc_runtime"),
    *(ROOT / "runtime" / "serve", ROOT / "runtime" / "serve" / "aotc_serve"),
)
SHORT = (
    *("aotc/bundle", "aotc/capture", "aotc/check", "aotc/compile", "aotc/pipeline"),
    "runtime/aotc_runtime/serving",
)
"""Folders whose own folders the page of the architecture names by their name alone."""


def test_the_page_of_the_architecture_names_files_that_exist() -> None:
    folders = [*PACKAGES, *(ROOT / folder for folder in SHORT)]
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_/.]+(?:\.py|\.toml|/))`", page))
    missing = [name for name in named if not any((each / name).exists() for each in folders)]
    assert len(named) > 40 and missing == []


def test_modules_from_which_checks_are_removed_exist() -> None:
    listed = [each for kind in KINDS for each in LISTED[kind].items()]
    for folder, names in listed:
        assert [name for name in names.split() if not [*(ROOT / folder).glob(f"{name}.py")]] == []
    files = {path.name for folder, _ in listed for path in (ROOT / folder).glob("*.py")}
    assert {*LISTED["equivalent"]} <= files


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_can_be_made(mistake: Mistake) -> None:
    assert (ROOT / mistake.file).read_text("utf-8").count(mistake.right) == 1


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


def test_every_attack_has_somebody_a_check_and_a_test() -> None:
    assert len(threats()) >= 20
    for cells in threats():
        assert len(cells) == 3 and all(cells), cells
        assert TEST.search(cells[2]) or CASE.search(cells[2]), cells[0]


def test_every_test_that_the_threat_model_names_exists() -> None:
    for name, test in TEST.findall(PAGE):
        tree = ast.parse((TESTS / name).read_text("utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert test in names, f"{name}::{test}"
    assert set(CASE.findall(PAGE)) <= {case.name for case in CASES}


def test_every_file_that_the_page_names_exists() -> None:
    for name in re.findall(r"`(\w+/test_\w+\.py)", PAGE):
        assert (TESTS / name).is_file(), name


FOLDER = Path(__file__).parents[1]


def test_no_folder_with_tests_is_left_out(pytestconfig: pytest.Config) -> None:
    left_out = [str(pattern) for pattern in pytestconfig.getini("norecursedirs")]
    for path in sorted(FOLDER.rglob("test_*.py")):
        for folder in path.relative_to(FOLDER).parts[:-1]:
            assert not any(fnmatch(folder, pattern) for pattern in left_out), path
