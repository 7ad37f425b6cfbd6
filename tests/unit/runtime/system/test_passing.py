"""Reading through a mapped file in little memory, and how far that is."""

import hashlib
import io
import os
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc_runtime.base.digest import chunks_of, sha256, sha256_each
from aotc_runtime.system.bundle_files import map_file, open_bundle
from aotc_runtime.system.read_progress import LARGE_BYTES, bytes_at, line_of_progress
from aotc_runtime.system.streamed_bundle import (
    CHUNK_BYTES,
    ignore_progress,
    open_streamed,
    pass_file,
)

from .test_store import as_archive, as_folder

SIZE = 4 * CHUNK_BYTES + 12_345
SLACK = 2**18
"""The system maps a few pages around one that is asked for."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(random.Random(0).randbytes(SIZE))
    return path


def resident(path: Path) -> int:
    """Bytes of a file that its maps hold in this process' memory."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text("utf-8").splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found


def test_one_piece_at_a_time_is_in_memory(file: Path) -> None:
    data = pass_file(file)
    most = [resident(file) for piece in chunks_of(data) if bytes(piece)]
    assert len(most) == 5
    assert max(most) <= CHUNK_BYTES + SLACK
    assert resident(file) <= SLACK


def test_hashing_leaves_nothing_in_memory_unless_the_bytes_are_to_be_used(file: Path) -> None:
    passed, kept = pass_file(file), map_file(file)
    assert sha256(passed) == "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
    assert resident(file) <= SLACK
    sha256(kept)
    assert resident(file) >= SIZE


def test_what_the_system_reads_around_a_piece_is_given_back_too(tmp_path: Path) -> None:
    """However many pieces there are: these begin within a page at the end of 16."""
    path, count, begin = tmp_path / "large", 24, 14 * 4096 + 512
    path.write_bytes(bytes((count + 1) * CHUNK_BYTES))
    view = pass_file(path)[begin : begin + count * CHUNK_BYTES]
    for piece in chunks_of(view):
        bytes(piece)
    assert resident(path) <= SLACK


@pytest.mark.parametrize("start", [0, 1, 4095, 4096, CHUNK_BYTES - 1, SIZE - 1, SIZE])
@pytest.mark.parametrize("size", [0, 1, 4096, CHUNK_BYTES, CHUNK_BYTES + 1, SIZE])
def test_views_are_read_wherever_they_begin_and_end(file: Path, start: int, size: int) -> None:
    view = pass_file(file)[start : start + size]
    assert b"".join(chunks_of(view)) == file.read_bytes()[start : start + size]


def test_views_of_one_file_are_hashed_side_by_side(file: Path) -> None:
    data = pass_file(file)
    views = [data[start : start + 777_777] for start in range(0, SIZE, 777_777)]
    assert sha256_each(views) == [sha256(bytes(view)) for view in views]


def test_an_empty_file_has_no_pieces(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert b"".join(chunks_of(pass_file(tmp_path / "empty"))) == b""


@pytest.mark.parametrize("write", [as_archive, as_folder])
def test_inspected_bundle_holds_little(write: Callable[[Path], Path], tmp_path: Path) -> None:
    path = write(tmp_path)
    assert dict(open_streamed(path).members) == dict(open_bundle(path).members)


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


def test_terminal_shows_progress_and_is_clean(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
            assert told is ignore_progress
    monkeypatch.setattr(sys, "stderr", Terminal())
    os.truncate(large / "blobs" / "one", 0)
    with line_of_progress("hash", large, quiet=False) as told:
        assert told is ignore_progress


def test_the_size_of_a_bundle_is_that_of_its_files(large: Path) -> None:
    assert bytes_at(large) == LARGE_BYTES
    assert bytes_at(large / "index.json") == 1
    assert bytes_at(large / "nothing") == 0
