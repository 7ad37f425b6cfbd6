"""Files that the system begins to write."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from aotc.bundle.write.atomic_files import LARGE_BYTES, begin_to_sync


@pytest.mark.parametrize("size", [0, LARGE_BYTES - 1, LARGE_BYTES])
def test_what_was_written_stays_as_it_is_where_the_system_can_and_where_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(bytes(size))
        file.flush()
        begin_to_sync(file.fileno())
        monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
        begin_to_sync(file.fileno())
        file.write(b"more")
    assert path.read_bytes() == bytes(size) + b"more"


def test_the_system_is_asked_for_all_of_a_large_file_and_for_no_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []

    class System:
        def sync_file_range(
            self, descriptor: int, start: ctypes.c_int64, size: ctypes.c_int64, flags: ctypes.c_uint
        ) -> int:
            asked.append((descriptor, start.value, size.value, flags.value))
            return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda _: System())
    for size in (LARGE_BYTES - 1, LARGE_BYTES):
        with (tmp_path / f"{size}").open("wb") as file:
            file.write(bytes(size))
            file.flush()
            begin_to_sync(file.fileno())
            begin_to_sync(file.fileno(), 17, size)
            descriptor = file.fileno()
    assert asked == [(descriptor, 0, 0, 2), (descriptor, 17, LARGE_BYTES, 2)]
