"""Tables that name modules, tests and lines of code name what there is: what they stand for would
otherwise be left out without a word.
"""

import re
from pathlib import Path

import pytest

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
