"""Whatever a path leads to, reading it ends: with the bytes, or at once with the reason."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc_runtime.system.bundle_files import read_file
from aotc_runtime.system.regular_files import open_regular

READERS: tuple[Callable[[Path], object], ...] = (open_regular, lambda path: read_file(path, 10))


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("read", READERS)
def test_odd_files_are_unread(tmp_path: Path, read: Callable[[Path], object]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (Path("/dev/zero"), Path("/dev/null"), pipe, tmp_path, tmp_path / "none"):
        before = descriptors()
        with pytest.raises(OSError):
            read(path)
        assert descriptors() == before


@pytest.mark.parametrize("read", READERS)
def test_a_folder_is_called_one(tmp_path: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(IsADirectoryError):
        read(tmp_path)


def test_a_regular_file_is_read_up_to_one_byte_more_than_it_may_have(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789AB")
    assert (read_file(path, 12), read_file(path, 11)) == (b"0123456789AB", b"0123456789AB")
    assert read_file(path, 9) == b"0123456789"
    with open_regular(path) as file:
        assert file.read() == b"0123456789AB"


@pytest.mark.parametrize(("written", "most"), [(20, 10), (20, 100), (300_000, 10**6)])
def test_a_pipe_is_read_while_somebody_writes_into_it(written: int, most: int) -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as stream:
            stream.write(b"x" * written)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_file(f"/dev/fd/{reading}", most) == b"x" * min(written, most + 1)
    writer.join()
    os.close(reading)


def test_a_pipe_whose_writer_has_not_written_yet_is_waited_for() -> None:
    reading, writing = os.pipe()
    timer = threading.Timer(0.2, lambda: (os.write(writing, b"late"), os.close(writing)))
    timer.start()
    assert read_file(f"/dev/fd/{reading}", 10) == b"late"
    os.close(reading)
