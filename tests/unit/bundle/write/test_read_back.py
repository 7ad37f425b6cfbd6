"""What is written is hashed while more is written, from the file that it is written to."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

from aotc.bundle.write.read_back import PIECE_BYTES, ReadBack
from aotc_runtime.base.digest import sha256
from tests.waiting import until

SIZES = (0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 12_345)


@dataclass
class Pieces:
    """Bytes that are written in these pieces."""

    pieces: tuple[bytes, ...]

    def __call__(self, file: BinaryIO) -> Iterator[int]:
        for piece in self.pieces:
            file.write(piece)
            file.flush()
            yield len(piece)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[BinaryIO]:
    with os.fdopen(os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT), "wb") as opened:
        yield opened


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_every_part_is_found_that_has_its_digest(tmp_path: Path, file: BinaryIO) -> None:
    parts = [os.urandom(size) for size in SIZES]
    before, heard = descriptors(), list[int]()
    with ReadBack(heard.append) as read_back:
        for part in parts:
            file.write(b"between")
            cut = (part[: len(part) // 3], part[len(part) // 3 :])
            read_back.append(Pieces(cut), len(part), sha256(part), file)
        assert read_back.finish() == {sha256(part): len(part) for part in parts}
    file.flush()
    assert (tmp_path / "file").read_bytes() == b"".join(b"between" + part for part in parts)
    assert sum(heard) == sum(SIZES)
    assert descriptors() == before


@pytest.mark.parametrize("at", [0, PIECE_BYTES, 2 * PIECE_BYTES - 1])
def test_a_part_of_other_bytes_is_not(file: BinaryIO, at: int) -> None:
    part = bytes(2 * PIECE_BYTES)
    spoiled = part[:at] + b"x" + part[at + 1 :]
    with ReadBack() as read_back:
        read_back.append(Pieces((spoiled,)), len(part), sha256(part), file)
        read_back.append(Pieces((b"good",)), 4, sha256(b"good"), file)
        assert read_back.finish() == {sha256(b"good"): 4}


def test_what_counts_is_what_the_file_holds(tmp_path: Path, file: BinaryIO) -> None:
    """Another process writes into it behind the copying, before it is read again."""
    part = bytes(4 * PIECE_BYTES)

    class Spoiled(Pieces):
        def __call__(self, file: BinaryIO) -> Iterator[int]:
            yield from super().__call__(file)
            with (tmp_path / "file").open("r+b") as other:
                other.seek(-1, os.SEEK_END)
                other.write(b"x")

    with ReadBack() as read_back:
        read_back.append(Spoiled((part,)), len(part), sha256(part), file)
        assert read_back.finish() == {}


def test_what_was_not_written_does_not_count_as_zeros(file: BinaryIO) -> None:
    with ReadBack() as read_back:
        whole = bytes(PIECE_BYTES)
        read_back.append(Pieces((bytes(10),)), PIECE_BYTES, sha256(whole), file)
        assert read_back.finish() == {}


def test_whoever_leaves_does_not_wait_until_the_rest_is_hashed(file: BinaryIO) -> None:
    begun, heard, size = threading.Event(), list[int](), 500 * PIECE_BYTES

    def slowly(count: int) -> None:
        heard.append(count)
        begun.set()
        time.sleep(0.02)

    class Sparse(Pieces):
        def __call__(self, file: BinaryIO) -> Iterator[int]:
            file.truncate(size)
            yield size

    with ReadBack(slowly) as read_back:
        read_back.append(Sparse(()), size, "sha256:none", file)
        assert begun.wait(60)
    assert sum(heard) < size


def test_a_process_without_standard_input_has_a_file_open_there(file: BinaryIO) -> None:
    stdin = os.dup(0)
    os.close(0)
    try:
        before = descriptors()
        with ReadBack() as read_back:
            for part in (b"one", b"two"):
                read_back.append(Pieces((part,)), 3, sha256(part), file)
                assert descriptors() == before + 1
            assert len(read_back.finish()) == 2
        assert descriptors() == before
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)


def test_when_writing_fails_nothing_more_is_hashed(file: BinaryIO) -> None:
    class Full(Pieces):
        def __call__(self, file: BinaryIO) -> Iterator[int]:
            yield from super().__call__(file)
            raise OSError(28, "full")

    before, running = descriptors(), threading.active_count()
    with pytest.raises(OSError, match="full"), ReadBack() as read_back:
        read_back.append(Full((b"x",)), 2 * PIECE_BYTES, "sha256:none", file)
    until(lambda: threading.active_count() <= running, "its threads end")
    assert descriptors() == before


def test_without_threads_all_of_it_is_hashed_at_the_end(
    file: BinaryIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    part = os.urandom(2 * PIECE_BYTES)
    with ReadBack() as read_back:
        read_back.append(Pieces((part,)), len(part), sha256(part), file)
        assert read_back.finish() == {sha256(part): len(part)}
