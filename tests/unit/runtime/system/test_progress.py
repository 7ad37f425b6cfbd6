"""How far the reading of a large bundle is."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from aotc_runtime.system.read_progress import LARGE_BYTES, bytes_at, line_of_progress
from aotc_runtime.system.streamed_bundle import nobody


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def large(tmp_path: Path) -> Path:
    (tmp_path / "layout" / "blobs").mkdir(parents=True)
    for name, size in (("blobs/one", LARGE_BYTES - 1), ("index.json", 1)):
        (tmp_path / "layout" / name).touch()
        os.truncate(tmp_path / "layout" / name, size)
    return tmp_path / "layout"


def test_a_terminal_shows_it_and_is_clean_afterwards(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with line_of_progress("hash", large, quiet=False) as told:
        told(LARGE_BYTES // 2)
        assert screen.getvalue() == "\rhash  32 of 64 MiB"
        told(1)  # too soon to be drawn again
    assert screen.getvalue() == "\rhash  32 of 64 MiB\r\x1b[K"


def test_nothing_is_said_where_nobody_sees_it(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, quiet in ((io.StringIO(), False), (None, False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        with line_of_progress("hash", large, quiet=quiet) as told:
            assert told is nobody
    monkeypatch.setattr(sys, "stderr", Terminal())
    os.truncate(large / "blobs" / "one", 0)
    with line_of_progress("hash", large, quiet=False) as told:
        assert told is nobody


def test_the_size_of_a_bundle_is_that_of_its_files(large: Path) -> None:
    assert bytes_at(large) == LARGE_BYTES
    assert bytes_at(large / "index.json") == 1
    assert bytes_at(large / "nothing") == 0
