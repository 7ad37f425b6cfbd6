"""A crash at any moment leaves the old file or the new one, never half of one."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aotc.errors import UsageError
from aotc.packing.files import write_atomically, write_folder_atomically

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


def breaking(chunks: list[bytes]) -> Iterator[bytes]:
    yield from chunks
    raise RuntimeError("the disk caught fire")


def test_a_file_is_written_with_the_mode_asked_for(tmp_path: Path) -> None:
    assert write_atomically(tmp_path / "file", [b"one ", memoryview(b"two")], mode=0o600) == 7
    assert contents(tmp_path) == {"file": b"one two"}
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_file_that_replaces_another_keeps_its_mode_unless_one_is_asked_for(
    tmp_path: Path,
) -> None:
    file = tmp_path / "file"
    write_atomically(file, [b"new"])
    assert mode(file) == 0o644
    for kept in (0o600, 0o444, 0o664):
        file.chmod(kept)
        write_atomically(file, [b"newer"])
        assert mode(file) == kept
    write_atomically(file, [b"newest"], mode=0o640)
    assert mode(file) == 0o640


def test_a_file_never_gets_rights_that_only_programs_have(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o4755)
    write_atomically(tmp_path / "file", [b"new"])
    assert mode(tmp_path / "file") == 0o755


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


def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", [b"old"])
    with pytest.raises(RuntimeError):
        write_atomically(tmp_path / "file", breaking([b"new"]))
    assert contents(tmp_path) == {"file": b"old"}


def test_a_reader_that_has_the_old_file_open_keeps_it(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", [b"old"])
    with (tmp_path / "file").open("rb") as reader:
        write_atomically(tmp_path / "file", [b"new"])
        assert reader.read() == b"old"
    assert contents(tmp_path) == {"file": b"new"}


@pytest.mark.parametrize("place", ["missing/file", "file/file", "."])
def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(UsageError) as caught:
        write_atomically(tmp_path / place, [b"new"])
    assert caught.value.code == "AOTC-E003"
    assert contents(tmp_path) == {"file": b"old"}


def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_atomically(tmp_path / "file", [b"old"])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError) as caught:
        write_atomically(tmp_path / "file", [b"new"])
    assert caught.value.code == "AOTC-E003"
    assert contents(tmp_path) == {"file": b"old"}
    with pytest.raises(UsageError):
        write_folder_atomically(tmp_path / "layout", NEW.items())
    assert contents(tmp_path) == {"file": b"old"}


def test_the_data_is_on_disk_before_the_name_points_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut after a rename without fsync leaves an empty file."""
    events: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        is_folder = Path(f"/proc/self/fd/{descriptor}").resolve().is_dir()
        events.append("sync folder" if is_folder else "sync file")
        fsync(descriptor)

    def replaced(self: Path, target: Path) -> Path:
        events.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write_atomically(tmp_path / "file", [b"new"])
    assert events == ["sync file", "rename", "sync folder"]


def test_a_folder_replaces_an_older_layout_as_a_whole(tmp_path: Path) -> None:
    layout = tmp_path / "deep" / "layout"
    write_folder_atomically(layout, OLD.items())
    assert contents(layout) == OLD
    assert write_folder_atomically(layout, NEW.items()) == sum(map(len, NEW.values()))
    assert contents(layout) == NEW
    assert list(layout.parent.iterdir()) == [layout]


def test_a_failure_while_writing_a_folder_leaves_the_old_one(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    write_folder_atomically(layout, OLD.items())

    def members() -> Iterator[tuple[str, bytes]]:
        yield from NEW.items()
        raise RuntimeError("the disk caught fire")

    with pytest.raises(RuntimeError):
        write_folder_atomically(layout, members())
    assert contents(tmp_path) == {f"layout/{name}": data for name, data in OLD.items()}


def test_an_empty_folder_may_be_written_into(tmp_path: Path) -> None:
    (tmp_path / "layout").mkdir()
    write_folder_atomically(tmp_path / "layout", NEW.items())
    assert contents(tmp_path / "layout") == NEW


KILLED = """
import os, signal, sys
from pathlib import Path
from aotc.packing import files
from aotc.packing.files import write_atomically, write_folder_atomically

path, kind, calls = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def counted(function):
    def call(*arguments, **named):
        global calls
        if calls == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        calls -= 1
        return function(*arguments, **named)
    return call

for module, name in ((os, "fsync"), (Path, "replace"), (Path, "rename"), (Path, "chmod")):
    setattr(module, name, counted(getattr(module, name)))
files.exchange = counted((lambda one, other: False) if kind == "in two steps" else files.exchange)
if kind == "file":
    write_atomically(path, [b"new ", b"contents"])
else:
    write_folder_atomically(path, [("oci-layout", b"new"), ("index.json", b"{}")])
"""


@pytest.mark.parametrize("step", range(5))
def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(tmp_path: Path, step: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old contents")
    command = [sys.executable, "-c", KILLED, str(path), "file", str(step)]
    status = subprocess.run(command, check=False).returncode
    assert status == (-signal.SIGKILL if step < 4 else 0)
    assert path.read_bytes() == (b"old contents" if step < 3 else b"new contents")


@pytest.mark.parametrize("step", range(5))
def test_a_kill_at_any_step_leaves_the_old_folder_or_the_new_one(tmp_path: Path, step: int) -> None:
    path = tmp_path / "layout"
    write_folder_atomically(path, OLD.items())
    command = [sys.executable, "-c", KILLED, str(path), "folder", str(step)]
    status = subprocess.run(command, check=False).returncode
    assert status == (-signal.SIGKILL)
    assert contents(path) == (OLD if step < 4 else {"oci-layout": b"new", "index.json": b"{}"})


def test_a_folder_that_was_exchanged_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "layout"
    write_folder_atomically(path, OLD.items())
    command = [sys.executable, "-c", KILLED, str(path), "folder", "5"]
    assert subprocess.run(command, check=False).returncode == 0
    assert contents(tmp_path) == {"layout/oci-layout": b"new", "layout/index.json": b"{}"}


@pytest.mark.parametrize("step", range(8))
def test_where_names_cannot_be_exchanged_a_kill_leaves_a_whole_folder_too(
    tmp_path: Path, step: int
) -> None:
    path = tmp_path / "layout"
    write_folder_atomically(path, OLD.items())
    command = [sys.executable, "-c", KILLED, str(path), "in two steps", str(step)]
    status = subprocess.run(command, check=False).returncode
    assert status == (-signal.SIGKILL if step < 7 else 0)
    new = {"oci-layout": b"new", "index.json": b"{}"}
    # Between the two renames there is no folder; the old one is whole beside its place.
    assert contents(path) == (OLD if step < 5 else {} if step == 5 else new)
    kept = [contents(folder) for folder in tmp_path.glob(".layout.old.*/layout")]
    assert kept == ([OLD] if step == 5 else [])
