"""What a long command says while it works."""

from __future__ import annotations

import pytest

from aotc.cli.progress import progress


def test_without_a_terminal_each_stage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(quiet=False) as on_stage:
        for done in range(3):
            on_stage("compile", done, 2)
        on_stage("pack", 0, 0)
        assert capsys.readouterr() == ("", "compile: 0 of 2\npack\n")


def test_a_quiet_command_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(quiet=True) as on_stage:
        on_stage("compile", 0, 2)
    assert capsys.readouterr() == ("", "")
