"""Docstrings are sentences that stand alone, without the name that they stand under."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("aotc", "runtime/aotc_runtime", "runtime/serve/aotc_serve")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

LEANING = re.compile(r'"""((?:As `|As \w+ (?:has|have|does) |Of |Those (?:of|that) |The same\b).*)')
"""Beginnings that need the name, or a neighbour's docstring, to be understood."""


@pytest.mark.parametrize("text", ["Of the file.", "As `load`, later.", "The same, pinned."])
def test_a_docstring_that_leans_on_a_name_is_found(text: str) -> None:
    assert LEANING.findall(f'def size():\n    """{text}\n    """') == [text]


def test_docstrings_can_be_read_alone() -> None:
    found = {str(f.relative_to(ROOT)): LEANING.findall(f.read_text("utf-8")) for f in FILES}
    assert {file: texts for file, texts in found.items() if texts} == {}
