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
    assert (store.notes(), store.contents().bytes) == ((), len(DATA))


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


@pytest.mark.parametrize("hidden", [False, True])
def test_one_that_somebody_wrote_into_is_removed(
    store: LocalStore, file: Path, tmp_path: Path, hidden: bool
) -> None:
    store.put_file(DIGEST, file)
    before = file.stat()
    with file.open("r+b") as stream:
        stream.write(b"W")
    if hidden:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not store.get_file(DIGEST, tmp_path / "new") and not kept(store)
    assert not (tmp_path / "new").exists()
    assert store.notes() == ("damaged entries of the cache, made anew: 1",)


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


def test_what_is_no_file_of_this_user_is_not_given_back(
    store: LocalStore, file: Path, tmp_path: Path
) -> None:
    store.put_file(DIGEST, file)
    (place,) = kept(store)
    place.unlink()
    place.symlink_to(file)
    assert not store.get_file(DIGEST, tmp_path / "new")
    if os.geteuid() == 0:
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
        os.utime(path, ns=(number, number))
    store.trim()
    assert len(kept(store)) == 1 and store.get(sha256(b"key")) == b"an executable"
    assert store.get_file(digests[-1], tmp_path / "new"), "the one that was used last"
    store.clear()
    assert not kept(store) and (tmp_path / "shard3").read_bytes()
