"""Tests of the progress of long commands."""

import re
import threading

import pytest

from aotc.cli.command_progress import _Lines, byte_progress, progress
from tests.waiting import SECONDS, until


def test_stage_begin_and_end_are_told_without_terminal(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_running_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    still = _Lines.still

    def tell(lines: _Lines) -> None:
        still(lines)
        told.set()

    monkeypatch.setattr("aotc.cli.command_progress.EVERY_SECONDS", 0.01)
    monkeypatch.setattr(_Lines, "still", tell)
    with progress(quiet=False) as on_stage:
        on_stage("capture", 0, 1)
        on_stage("capture", 1, 1)
        on_stage("reference", 2, 53)
        on_stage("compile", 1, 8)
        capsys.readouterr()
        told.clear()
        assert told.wait(SECONDS)
        line = capsys.readouterr().err.splitlines()[0]
        assert line == "reference: 2 of 53, 0 s; compile: 1 of 8, 0 s"
        on_stage("compile", 8, 8)
        on_stage("reference", 53, 53)
        on_stage("again", 0, 0)
        on_stage("pack", 0, 0)
        capsys.readouterr()
        told.clear()
        assert told.wait(SECONDS)
        assert capsys.readouterr().err.splitlines()[0] == "pack: 0 s"


def test_bytes_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aotc.cli.command_progress.EVERY_SECONDS", 0.01)
    with byte_progress("fetch", quiet=False) as on_bytes:
        on_bytes(1000, 5000)
        until(lambda: "fetch: 1.0 kB of 5.0 kB, 0 s\n" in capsys.readouterr().err, "it is told")
        on_bytes(5000, 5000)
    assert re.search(r"fetch: 5\.0 kB of 5\.0 kB, \d\.\d s\n\Z", capsys.readouterr().err)
