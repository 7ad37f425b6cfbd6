"""The catalogues of codes: one row for each code, made use of by the sources, printed in a page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter
from typing import NamedTuple, TypeGuard

import pytest

import aotc.base.codes
import aotc_runtime.base.codes
from aotc_runtime.base.codes import Code
from scripts.error_codes import EXIT_CODES, FAMILIES, PAGE, page

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "runtime" / "aotc_runtime"
SERVE = ROOT / "runtime" / "serve" / "aotc_serve"
TOOLCHAIN = ROOT / "aotc"

ROWS = {code: family.rows[code] for code, family in aotc.base.codes.FAMILY_OF.items()}

OF_COMMANDS = {"AOTC-E001", "AOTC-E003"}
"""The toolchain's, with which the runtime's command refuses its arguments and a closed stdout, too:
no program catches these.
"""

MAKERS = {"finding", "refusal"}
TEXTS = {"expected", "hint"}


def sources(package: Path) -> Iterator[Path]:
    packages = (package, SERVE) if package == RUNTIME else (package,)
    return (path for each in packages for path in each.rglob("*.py") if path.name != "codes.py")


def used(package: Path) -> set[str]:
    return {
        code
        for path in sources(package)
        for code in re.findall(r'"(AOTC-E\d{3})"', path.read_text())
    }


class Found(NamedTuple):
    """sites: where findings are made of a row: the place, the code, the names of what is given.
    of_runtime: files with makers that they import from the runtime.
    """

    sites: list[tuple[str, str, set[str]]]
    of_runtime: set[Path]


@cache
def found() -> Found:
    """In the sources, each of which is parsed once."""
    made, of_runtime = list[tuple[str, str, set[str]]](), set[Path]()
    for path in (*sources(TOOLCHAIN), *sources(RUNTIME)):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in MAKERS and node.args and _is_row(node.args[0]):
                    given = {keyword.arg or "**" for keyword in node.keywords}
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    made.append((place, node.args[0].value, given))
            elif isinstance(node, ast.ImportFrom) and node.module == "aotc_runtime.base.errors":
                of_runtime |= {path for alias in node.names if alias.name in MAKERS}
    return Found(made, of_runtime)


def _is_row(node: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and node.value in ROWS


def sites() -> list[tuple[str, str, set[str]]]:
    return found().sites


def text_of(row: Code, name: str) -> str:
    return row.expected if name == "expected" else row.hint


def values_in(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_the_page_is_made_of_the_catalogues() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_no_code_stands_twice() -> None:
    assert len(ROWS) == sum(len(family.rows) for family in FAMILIES)


def test_every_code_is_one_of_those_that_its_family_is_known_by() -> None:
    known = {
        code: {f.error for f in FAMILIES for some in f.codes.split(", ") if _is_of(code, some)}
        for code in ROWS
    }
    assert known == {code: {family.error} for code, family in aotc.base.codes.FAMILY_OF.items()}


def _is_of(code: str, some: str) -> bool:
    return re.fullmatch(some.replace("x", r"\d"), code.removeprefix("AOTC-")) is not None


def test_every_family_ends_with_an_exit_code_that_the_page_explains() -> None:
    assert {family.error.exit_code for family in FAMILIES} <= EXIT_CODES.keys()


def test_the_runtime_uses_all_of_its_codes_and_no_others() -> None:
    assert used(RUNTIME) - OF_COMMANDS == aotc_runtime.base.codes.FAMILY_OF.keys()


def test_the_toolchain_uses_all_of_its_codes_and_otherwise_the_runtimes() -> None:
    own = {code for family in aotc.base.codes.FAMILIES for code in family.rows}
    assert own <= used(TOOLCHAIN) <= ROWS.keys()


def test_every_row_says_something_that_a_table_can_hold() -> None:
    for code, row in ROWS.items():
        for text in (row.meaning, row.remedy):
            assert text == text.strip() != "", code
            assert not set(text) & {"\n", "|"}, code


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_every_finding_has_words_its_own_or_those_of_its_row(name: str) -> None:
    silent = [
        (place, code)
        for place, code, given in sites()
        if name not in given and not (text_of(ROWS[code], name) or name == "hint")
    ]
    assert not silent


def test_every_finding_gives_the_values_that_the_words_of_its_row_need() -> None:
    for place, code, given in sites():
        words = [text_of(ROWS[code], name) for name in TEXTS - given]
        assert given - TEXTS == set().union(*map(values_in, words)), (place, code)


def test_the_words_of_every_row_are_said_somewhere() -> None:
    said = {(code, name) for _, code, given in sites() for name in TEXTS - given}
    said |= {(code, name) for code in STOPS for name in TEXTS}
    written = {(code, name) for code, row in ROWS.items() for name in TEXTS if text_of(row, name)}
    assert written <= said


STOPS = {"AOTC-E981", "AOTC-E982", "AOTC-E983"}
"""Chosen by a signal, in `aotc.cli.command_group`."""


def test_the_toolchain_makes_findings_of_both_catalogues() -> None:
    assert not [path for path in found().of_runtime if path.is_relative_to(TOOLCHAIN)]
