"""A crash at any moment leaves the old file or the new one, never half of one."""

import errno
import fcntl
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.base.temporary_files import create_all_or_none, delay_signals
from aotc.bundle.write.atomic_files import write_atomically, write_folder_atomically
from tests.refusals import error_of

OLD = {"oci-layout": b"old", "blobs/a": b"old blob"}
NEW = {"oci-layout": b"new", "index.json": b"{}", "blobs/b": b"new blob"}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomically(file, [b"new"])
    assert mode(file) == 0o644
    for kept in (0o600, 0o444, 0o664):
        file.chmod(kept)
        write_atomically(file, [b"newer"])
        assert mode(file) == kept
    assert write_atomically(file, [b"newest ", memoryview(b"one")]) == 10
    assert (mode(file), file.read_bytes()) == (0o664, b"newest one")
    file.chmod(0o4755)
    write_atomically(file, [b"new"])
    assert mode(file) == 0o755, "never rights that only programs have"


def test_what_replaces_a_folder_keeps_the_modes_of_what_it_replaces(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    before = os.umask(0o077)
    try:
        write_folder_atomically(layout, OLD.items())
        assert (mode(layout), mode(layout / "blobs")) == (0o755, 0o755)
        assert mode(layout / "oci-layout") == 0o644, "whatever the umask"
        layout.chmod(0o750)
        (layout / "blobs").chmod(0o555)
        (layout / "oci-layout").chmod(0o440)
        write_folder_atomically(layout, {**OLD, **NEW}.items())
    finally:
        os.umask(before)
    assert (mode(layout), mode(layout / "blobs")) == (0o750, 0o555)
    assert (mode(layout / "oci-layout"), mode(layout / "index.json")) == (0o440, 0o644)
    assert list(tmp_path.iterdir()) == [layout]


def test_a_reader_that_has_the_old_file_open_keeps_it(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", [b"old"])
    with (tmp_path / "file").open("rb") as reader:
        write_atomically(tmp_path / "file", [b"new"])
        assert reader.read() == b"old"
    assert contents(tmp_path) == {"file": b"new"}


@pytest.mark.parametrize("place", ["missing/file", "file/file", "."])
def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"old")
    assert error_of(UsageError, write_atomically, tmp_path / place, [b"new"]).code == "AOTC-E003"
    assert contents(tmp_path) == {"file": b"old"}


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is brought to disk, by its name, and "rename"."""
    found, fsync = list[str](), os.fsync

    def synced(descriptor: int) -> None:
        found.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
        fsync(descriptor)

    def renaming(rename: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
        def renamed(self: Path, target: Path) -> Path:
            found.append("rename")
            return rename(self, target)

        return renamed

    monkeypatch.setattr(os, "fsync", synced)
    for name in ("rename", "replace"):
        monkeypatch.setattr(Path, name, renaming(getattr(Path, name)))
    return found


def test_data_reaches_disk_before_its_name(tmp_path: Path, events: list[str]) -> None:
    """A power cut after a rename without fsync leaves an empty file."""
    part = list[str]()

    def check(path: Path) -> None:
        part.append(path.name)
        events.append("check")

    write_atomically(tmp_path / "file", [b"new"], check=check)
    assert events == ["check", *part, "rename", tmp_path.name]


def test_folder_content_reaches_disk_before_its_name(tmp_path: Path, events: list[str]) -> None:
    layout = tmp_path / "layout"
    write_folder_atomically(layout, NEW.items(), lambda _: events.append("check"))
    files = [Path(name).name for name in NEW]
    assert events[: len(files) + 1] == ["check", *files]
    assert {"rename", layout.parent.name} <= {*events[len(files) + 1 :]}


def test_a_folder_replaces_an_older_layout_as_a_whole(tmp_path: Path) -> None:
    layout = tmp_path / "deep" / "layout"
    write_folder_atomically(layout, OLD.items())
    assert contents(layout) == OLD
    assert write_folder_atomically(layout, NEW.items()) == sum(map(len, NEW.values()))
    assert contents(layout) == NEW
    assert list(layout.parent.iterdir()) == [layout]


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    left = tmp_path / ".result.abcdefgh.part"
    left.write_bytes(b"half")
    with left.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_atomically(tmp_path / "result", [b"new"])
        assert left.read_bytes() == b"half"


@pytest.mark.parametrize("name", [".result.abc.part", ".other.abcdefgh.part", "result.part"])
def test_other_names_are_nobodys_litter(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"precious")
    write_atomically(tmp_path / "result", [b"new"])
    assert (tmp_path / name).read_bytes() == b"precious"


def test_without_links_file_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no links on FAT")

    monkeypatch.setattr(os, "link", no_links)
    create_all_or_none((tmp_path / "a", b"1", 0o644))
    error_of(FileExistsError, create_all_or_none, (tmp_path / "a", b"2", 0o644))
    assert contents(tmp_path) == {"a": b"1"}


def test_signals_wait_for_steps_that_belong_together(tmp_path: Path) -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt):
        with delay_signals():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("done")
        steps.append("not reached")
    assert steps == ["done"]
