"""Tests of `aotc explain CODE`."""

from collections.abc import Callable
from typing import Any

import pytest

from aotc.commands.explain.code_explanation import code_document, code_lines, code_named
from aotc_runtime.base.codes import codes


@pytest.mark.parametrize("text", ["AOTC-E806", "aotc-e806", "E806", "e806"])
def test_code_named_accepts_short_and_lower_case(text: str) -> None:
    assert code_named(text) == "AOTC-E806"


@pytest.mark.parametrize("text", ["AOTC-E999", "E8066", "digits.aotb", ""])
def test_code_named_rejects_other_texts(text: str) -> None:
    assert code_named(text) is None


def test_code_lines_have_title_explanation_hint_and_causes() -> None:
    entry = codes()["AOTC-E806"]
    text = " ".join(" ".join(code_lines("AOTC-E806")).split())
    for row in (entry, *entry.causes.values()):
        assert f"AOTC-E806: {row.title} {row.explanation}" in text
    assert "hint: correct the name, or declare it" in text
    assert "exit code 3" in text


def test_every_code_is_explained_in_lines_that_fit() -> None:
    for code in codes():
        assert all(len(line) <= 100 for line in code_lines(code)), code
        assert code_document(code)["title"]


def test_explain_of_a_code_needs_no_bundle(aotc: Callable[..., Any]) -> None:
    done = aotc("explain", "AOTC-E806")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("AOTC-E806: unknown name\n")
    document = aotc("explain", "AOTC-E806", "--json").document
    assert document["causes"]["unknown-dimension"]["title"] == "unknown dimension"


def test_explain_of_a_bundle_alone_asks_for_the_entry_point(aotc: Callable[..., Any]) -> None:
    done = aotc("explain", "digits.aotb")
    assert done.exit_code == 2
    assert "missing argument 'ENTRY_POINT'" in done.stderr


# FIXME
