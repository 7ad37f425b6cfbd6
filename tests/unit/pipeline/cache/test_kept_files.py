"""Files in a cache: given back as they were put there, or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from aotc.base.constants import FULL
from aotc.pipeline.cache.cache_store import LocalStore
from aotc_runtime.base.digest import sha256

DATA = b"weights" * 1000
DIGEST = sha256(DATA)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "cache", 10**6)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    return path


def kept(store: LocalStore) -> list[Path]:
    return [path for path in (store.folder / "files").rglob("*") if path.is_file()]


def test_a_file_is_given_back_under_another_name_and_is_the_same_file(
    store: LocalStore, file: Path, tmp_path: Path
) -> None:
    assert not store.get_file(DIGEST, tmp_path / "new")
    for _ in range(2):
        store.put_file(DIGEST, file)
    assert store.get_file(DIGEST, tmp_path / "new") and (tmp_path / "new").samefile(file)
    assert (store.notes(), store.contents().bytes >= len(DATA)) == ((), True)
    assert store.remove_damaged() == 0


def test_where_there_are_no_links_it_is_copied(
    store: LocalStore, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*given: object, **options: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "link", link)
    store.put_file(DIGEST, file)
    assert store.get_file(DIGEST, tmp_path / "new")
    assert (tmp_path / "new").read_bytes() == DATA and not (tmp_path / "new").samefile(file)
    assert [path.read_bytes() for path in kept(store)] == [DATA]


def damage(path: Path, *, hides: bool) -> None:
    before = path.stat()
    with path.open("r+b") as stream:
        stream.write(b"W")
    if hides:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


def test_one_that_somebody_wrote_into_is_removed(
    store: LocalStore, file: Path, tmp_path: Path
) -> None:
    store.put_file(DIGEST, file)
    damage(file, hides=False)
    assert not store.get_file(DIGEST, tmp_path / "new") and not kept(store)
    assert not (tmp_path / "new").exists()


def test_one_that_was_only_touched_is_hashed_and_given_back(
    store: LocalStore, file: Path, tmp_path: Path
) -> None:
    store.put_file(DIGEST, file)
    os.utime(file)
    assert store.get_file(DIGEST, tmp_path / "new")


def test_one_that_nobody_wrote_into_is_not_read(
    store: LocalStore, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_file(DIGEST, file)
    read: list[Path] = []
    monkeypatch.setattr("aotc.pipeline.cache.cache_files.pass_file", read.append)
    assert store.get_file(DIGEST, tmp_path / "new") and not read
    file.unlink()
    store.put_file(DIGEST, file)  # it is there already, and of another nothing is asked
    assert not store.notes()


@pytest.mark.parametrize("number", FULL)
def test_a_full_disk_is_not_filled_by_a_copy_instead(
    store: LocalStore, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def link(*given: object, **options: object) -> None:
        raise OSError(number, "no room")

    with monkeypatch.context() as full:
        full.setattr(os, "link", link)
        store.put_file(DIGEST, file)
    assert not kept(store) and any("no room" in note for note in store.notes())
    store.put_file(DIGEST, file)
    monkeypatch.setattr(os, "link", link)
    with pytest.raises(OSError, match="no room"):
        store.get_file(DIGEST, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_damage_that_no_time_shows_is_found_by_who_looks_for_it(
    store: LocalStore, file: Path
) -> None:
    store.put_file(DIGEST, file)
    damage(file, hides=True)
    assert (store.remove_damaged(), store.remove_damaged(), kept(store)) == (1, 0, [])


def test_what_is_no_file_of_this_user_is_not_given_back(
    store: LocalStore, file: Path, tmp_path: Path
) -> None:
    store.put_file(DIGEST, file)
    (place,) = kept(store)
    place.unlink()
    place.symlink_to(file)
    assert not store.get_file(DIGEST, tmp_path / "new")
    if os.geteuid() == 0:
        place.unlink()
        place.write_bytes(DATA)
        os.chown(place, 12345, -1)
        assert not store.get_file(DIGEST, tmp_path / "newer")


def test_files_leave_half_of_the_cache_to_everything_else(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "cache", 3 * len(DATA))
    store.put(sha256(b"key"), b"an executable")
    digests = []
    for number in range(4):
        path = tmp_path / f"shard{number}"
        path.write_bytes(DATA[:-1] + bytes([number]))
        digests.append(sha256(path.read_bytes()))
        store.put_file(digests[-1], path)
        os.utime(path, ns=(number, path.stat().st_mtime_ns))
    store.trim()
    assert len(kept(store)) == 1 and store.get(sha256(b"key")) == b"an executable"
    assert store.get_file(digests[-1], tmp_path / "new"), "the one that was used last"
    store.clear()
    assert not kept(store) and (tmp_path / "shard3").read_bytes()
