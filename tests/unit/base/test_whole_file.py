"""Files that become a part of another: the same bytes, whoever copies them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Never

import pytest

from aotc.base import shared_blocks
from aotc.base.shared_blocks import WholeFile
from aotc.bundle.write.atomic_files import write_atomically
from aotc_runtime.base.errors import AotcError

DATA = os.urandom(2 * shared_blocks.PIECE_BYTES + 17)


@pytest.fixture
def source(tmp_path: Path) -> WholeFile:
    (tmp_path / "source").write_bytes(DATA)
    return WholeFile(tmp_path / "source", len(DATA))


def unable(number: int) -> object:
    def copy_file_range(*_: int) -> Never:
        raise OSError(number, os.strerror(number))

    return copy_file_range


@pytest.mark.parametrize("how", ["by the system", "EXDEV", "ENOSYS", "nothing is copied"])
def test_a_file_stands_where_it_is_put_between_other_bytes(
    how: str, source: WholeFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how.startswith("E"):
        monkeypatch.setattr(os, "copy_file_range", unable(getattr(errno, how)))
    elif how.startswith("nothing"):
        monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    size = write_atomically(tmp_path / "made", [b"before", source.append_to, b"after"])
    assert (tmp_path / "made").read_bytes() == b"before" + DATA + b"after"
    assert size == len(DATA) + len(b"beforeafter")


def test_a_file_that_has_become_shorter_is_refused_and_nothing_is_left(
    source: WholeFile, tmp_path: Path
) -> None:
    os.truncate(source.path, 100)
    with pytest.raises(AotcError) as refused:
        write_atomically(tmp_path / "made", [source.append_to])
    (finding,) = refused.value.findings
    assert (finding.code, finding.where) == ("AOTC-E206", str(source.path)), "not the destination"
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_no_room_is_no_reason_to_copy_in_another_way(
    source: WholeFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "copy_file_range", unable(errno.ENOSPC))
    with pytest.raises(AotcError) as refused:
        write_atomically(tmp_path / "made", [source.append_to])
    assert refused.value.findings[0].found == os.strerror(errno.ENOSPC)


@pytest.mark.parametrize("start", [0, 1, 511, shared_blocks.PIECE_BYTES + 1])
@pytest.mark.parametrize("by_the_system", [True, False])
def test_a_part_of_a_file_may_be_copied(
    source: WholeFile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    start: int,
    by_the_system: bool,
) -> None:
    if not by_the_system:
        monkeypatch.setattr(os, "copy_file_range", unable(errno.ENOSYS))
    monkeypatch.setattr(shared_blocks, "ASKED_BYTES", 100_000)
    size = len(DATA) - start - 7
    with (tmp_path / "made").open("wb") as file, source.path.open("rb") as read:
        file.write(b"before")
        told = [*shared_blocks.appended(read.fileno(), start, size, file, "source")]
        file.write(b"after")
    assert (tmp_path / "made").read_bytes() == b"before" + DATA[start:-7] + b"after"
    assert sum(told) == size and len(told) > 1
