"""Lines of keys: right for real files, and some answer for any text."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotc_runtime.formats.toml_source import KeyPath, key_lines, line_of, redefinitions, render_path

ROOT = Path(__file__).parents[4]

SAMPLE = '''\
# a comment = 1
title = "x = [1]"  # key = 2
"quoted key" = 1
long = """
not = "a key"
"""
literal = \'\'\'
nor = 1
\'\'\'

[a.b]
c.d = [
    1,
    { e = 2 },
]
[[items]]
name = 1
[[items]]
name = 2
[items.sub]
deep = true
'''

PIECES = st.sampled_from(
    [*"[]{}=,.\"'#\n\\ ", '"""', "'''", "[[", "]]", "a", "b.c", "1", "\\u00e9", "\r\n", "é", "\0"]
)
ODD_TEXT = st.one_of(st.text(), st.lists(PIECES, max_size=60).map("".join))


def paths_of(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Every key path of parsed TOML."""
    items: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    for key, item in items:
        yield (*path, key)
        yield from paths_of(item, (*path, key))


def test_keys_are_found_and_text_that_looks_like_keys_is_not() -> None:
    lines = key_lines(SAMPLE)
    assert {path: lines[path] for path in lines if len(path) == 1} == {
        ("title",): 2,
        ("quoted key",): 3,
        ("long",): 4,
        ("literal",): 7,
        ("a",): 11,
        ("items",): 16,
    }
    assert lines["a", "b", "c", "d"] == 12
    assert lines["a", "b", "c", "d", 1, "e"] == 14
    assert (lines["items", 0, "name"], lines["items", 1, "name"]) == (17, 19)
    assert lines["items", 1, "sub", "deep"] == 21


@pytest.mark.parametrize(
    "path",
    [*(ROOT / "manifests").glob("*.toml"), *(ROOT / "targets").glob("*.toml")],
    ids=lambda p: p.stem,
)
def test_every_key_of_our_own_files_has_a_line_that_holds_it(path: Path) -> None:
    text = path.read_text("utf-8")
    lines = key_lines(text)
    assert set(paths_of(tomllib.loads(text))) <= set(lines)
    for keys, line in lines.items():
        if isinstance(keys[-1], str):
            assert keys[-1] in text.splitlines()[line - 1]


def test_a_path_without_a_line_has_that_of_what_holds_it() -> None:
    lines = key_lines("x = 1\n[a]\nb = 2\n")
    assert line_of(lines, ("a", "gone", 3)) == 2
    assert line_of(lines, ("gone",)) == 1


def test_both_lines_of_a_redefinition_are_told() -> None:
    (again,) = redefinitions("a = 1\nb = 2\na = 3\n")
    assert (again.path, again.first, again.second) == (("a",), 1, 3)
    (table,) = redefinitions("[a]\nx = 1\n[b]\n[a]\n")
    assert (table.path, table.first, table.second) == (("a",), 1, 4)


def test_paths_are_written_as_toml_would() -> None:
    assert render_path(("a", "b-c", 0, "d e", "")) == 'a.b-c[0]."d e".""'


@settings(deadline=None)
@given(ODD_TEXT)
def test_any_text_has_lines(text: str) -> None:
    lines = key_lines(text)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())
    redefinitions(text)


@settings(deadline=None)
@given(ODD_TEXT)
def test_valid_toml_has_a_line_for_every_key(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except ValueError:
        return
    assert set(paths_of(data)) <= set(key_lines(text.replace("\r\n", "\n")))


def test_deep_nesting_needs_no_deep_stack() -> None:
    assert len(key_lines("x = " + "[" * 3000)) == 3000
