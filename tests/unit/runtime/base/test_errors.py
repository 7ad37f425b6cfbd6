"""Findings become exceptions and text in one place each."""

import json
import re
import sys
from unittest.mock import Mock

import pytest

from aotc_runtime.base import codes, errors, first_line
from aotc_runtime.base.rendering import render, sentence, usage_text
from tests.refusals import error_of


def finding(code: str, found: str = "f") -> errors.Finding:
    return errors.Finding(code=code, where="w", expected="e", found=found, hint="h", title="t")


@pytest.mark.parametrize(
    ("code", "family", "exit_code"),
    [
        ("AOTC-E101", errors.BundleFormatError, 5),
        ("AOTC-E201", errors.IntegrityError, 5),
        ("AOTC-E301", errors.TrustError, 5),
        ("AOTC-E401", errors.IncompatibleRuntimeError, 6),
        ("AOTC-E501", errors.IncompatibleHostError, 7),
        ("AOTC-E551", errors.ResourceError, 7),
        ("AOTC-E601", errors.ShapeError, 2),
        ("AOTC-E701", errors.ReadinessError, 8),
        ("AOTC-E751", errors.BackendError, 7),
    ],
)
def test_code_decides_family_and_exit(
    code: str, family: type[errors.AotcError], exit_code: int
) -> None:
    assert errors.family_of(code) is family
    raised = error_of(family, errors.raise_if, [finding(code)])
    assert raised.exit_code == exit_code
    assert raised.code == code


def test_all_findings_are_raised_together_as_the_family_of_the_first() -> None:
    findings = (finding("AOTC-E401"), finding("AOTC-E502"), finding("AOTC-E551"))
    raised = error_of(errors.IncompatibleRuntimeError, errors.raise_if, iter(findings))
    assert raised.findings == findings
    assert re.findall(r"^error\[(.*)\]: t$", str(raised), re.MULTILINE) == [
        "AOTC-E401",
        "AOTC-E502",
        "AOTC-E551",
    ]


def test_equal_findings_are_reported_once() -> None:
    first, other = finding("AOTC-E401"), finding("AOTC-E401", found="another")
    error = errors.AotcError(first, other, finding("AOTC-E401"))
    assert error.findings == (first, other) == error.args


def test_errors_need_a_finding_whose_code_has_a_family() -> None:
    errors.raise_if(())
    with pytest.raises(ValueError, match="Finding"):
        errors.AotcError()
    error_of(KeyError, errors.family_of, "AOTC-E999")


BARE = errors.Finding("AOTC-E101", "w", "", "", "", "t")


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (
            render([finding("AOTC-E101")]),
            "error[AOTC-E101]: t\n  --> w\n  expected  e\n  found     f\n  hint: h",
        ),
        (render([BARE]), "error[AOTC-E101]: t\n  --> w"),
        (render([errors.Finding("AOTC-E101", "", "", "f", "")]), "error[AOTC-E101]\n  found     f"),
        (render([BARE, BARE]), "error[AOTC-E101]: t\n  --> w\n\nerror[AOTC-E101]: t\n  --> w"),
        (
            render([finding("AOTC-E101"), finding("AOTC-E102")]),
            "error[AOTC-E101]: t\n  --> w\n  expected  e\n  found     f\n\n"
            "error[AOTC-E102]: t\n  --> w\n  expected  e\n  found     f\n  hint: h",
        ),
        (usage_text(finding("AOTC-E001")), "error: f\nusage: e\nhint: h"),
        (sentence(finding("AOTC-E761")), "AOTC-E761 t: w: expected e, found f; h"),
        (sentence(errors.Finding("AOTC-E761", "w", "", "f", "", "t")), "AOTC-E761 t: w: found f"),
    ],
)
def test_findings_are_written_without_empty_fields(written: str, text: str) -> None:
    assert written == text


def test_long_lines_are_shown_without_their_middle() -> None:
    long = errors.Finding("AOTC-E308", "a" + "b" * 9998 + "c", "", "short\n" + "d" * 1001, "")
    for text in (render([long]), sentence(long)):
        assert f"a{'b' * 499} … 9000 more characters … {'b' * 499}c" in text
        assert len(text) < 3000 and " … 1 more characters … " in render([long])


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\r", "\x00", "\u202e", "\udcff", "\x9b2J"])
def test_what_is_not_printable_is_escaped_in_text(hostile: str) -> None:
    text = render([finding("AOTC-E101", f"a{hostile}b")])
    assert hostile not in text
    text.encode()


def test_a_quoted_line_break_cannot_look_like_a_finding() -> None:
    text = render([finding("AOTC-E101", "a\n\nerror[AOTC-E000]: fine\n  hint: run this")])
    assert sum(line.startswith("error[") for line in text.splitlines()) == 1
    assert sum(line.startswith("  hint") for line in text.splitlines()) == 1


def test_json_keeps_what_json_can_hold_and_escapes_the_rest() -> None:
    document = finding("AOTC-E101", "a\x1b\nb\udcff").to_json()
    assert document == {
        "code": "AOTC-E101",
        "title": "t",
        "where": "w",
        "expected": "e",
        "found": "a\x1b\nb\\udcff",
        "hint": "h",
    }
    json.dumps(document, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("said", "line"), [("out of memory\n  at x", "out of memory"), (" \n", "RuntimeError")]
)
def test_an_engines_error_is_told_in_one_line_even_if_it_says_nothing(said: str, line: str) -> None:
    assert first_line(RuntimeError(said)) == line


@pytest.mark.parametrize("lack", [MemoryError(), OSError(24, "Too many open files")])
def test_errors_without_room_for_the_catalogue_keep_code_and_class(
    lack: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first error imports the texts, and may be that memory has run out."""
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, codes.__name__)
        patch.setattr(sys, "meta_path", [Mock(find_spec=Mock(side_effect=lack))])
        error = errors.refusal("AOTC-E755", "predict", "out of memory")
    assert isinstance(error, errors.BackendError)
    assert (error.code, error.findings[0].found) == ("AOTC-E755", "out of memory")
