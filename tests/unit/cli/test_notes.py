from __future__ import annotations

import pytest

from aotc.cli.command_output import print_notes


def test_a_note_is_one_line_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_notes(["HTTP 500 \x1b[31mno\nnote: the bundle is signed", "\udcff"])
    assert capsys.readouterr().err == (
        "note: HTTP 500 \\x1b[31mno\\nnote: the bundle is signed\nnote: \\udcff\n"
    )
