"""What a long command says while it works."""

from __future__ import annotations

import re

import pytest

from aotc.cli.progress import progress


def test_without_a_terminal_a_stage_says_when_it_begins_and_when_it_has_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress(quiet=False) as on_stage:
        for done in (0, 1):
            on_stage("compile", done, 2)
        assert capsys.readouterr() == ("", "compile: 0 of 2\n")
        for done in (2, 2):
            on_stage("compile", done, 2)
        on_stage("pack", 0, 0)
        out, lines = capsys.readouterr()
    assert out == "" and re.fullmatch(r"compile: 2 of 2, \d+\.\d s\npack\n", lines)


def test_a_quiet_command_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(quiet=True) as on_stage:
        on_stage("compile", 0, 2)
    assert capsys.readouterr() == ("", "")
