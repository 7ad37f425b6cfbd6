"""A folder gives back what was put there, or nothing; and it does not outgrow its size."""

import os
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.pipeline.cache.cache_folder import require_removed
from aotc.pipeline.cache.cache_store import MAGIC, LocalStore
from aotc_runtime.base.digest import sha256

KEY, OTHER = sha256(b"key"), sha256(b"other")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "cache", 10_000)


def file_of(store: LocalStore, key: str) -> Path:
    digits = key.removeprefix("sha256:")
    return store.folder / "entries" / digits[:2] / digits[2:]


def test_an_entry_is_given_back_to_whoever_opens_the_folder(store: LocalStore) -> None:
    assert store.get(KEY) is None
    store.put(KEY, b"data")
    assert LocalStore(store.folder, 10_000).get(KEY) == b"data"
    assert store.get(OTHER) is None and store.notes() == ()


def test_entry_of_the_cache_size_is_kept_and_a_larger_one_not(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "cache", 100)
    store.put(KEY, b"x" * 100)
    store.put(OTHER, b"x" * 101)
    assert (store.get(KEY), store.get(OTHER)) == (b"x" * 100, None)
    assert store.contents().entries == 1
    assert LocalStore(store.folder, 2**60).get(KEY), "reading takes no memory for what is not there"
    assert LocalStore(store.folder, 99).get(KEY) is None, "it would have to read too much"


@pytest.mark.parametrize("place", ["magic", "digest", "data", "end", "cut"])
def test_damaged_entry_is_removed_with_a_note(store: LocalStore, place: str) -> None:
    store.put(KEY, b"some data")
    path = file_of(store, KEY)
    data = bytearray(path.read_bytes())
    if place == "cut":
        del data[-1]
    elif place == "end":
        data += b"\0"
    else:
        data[{"magic": 0, "digest": len(MAGIC), "data": -1}[place]] ^= 1
    path.write_bytes(data)
    assert store.get(KEY) is None
    assert not path.exists()
    assert store.notes() == ("damaged entries of the cache, made anew: 1",)


def test_an_entry_under_another_key_is_not_used(store: LocalStore) -> None:
    store.put(KEY, b"data")
    file_of(store, OTHER).parent.mkdir(parents=True, exist_ok=True)
    file_of(store, KEY).rename(file_of(store, OTHER))
    assert store.get(OTHER) is None


def test_what_was_not_used_for_the_longest_time_goes_first(store: LocalStore) -> None:
    keys = [sha256(bytes([number])) for number in range(4)]
    for number, key in enumerate(keys):
        store.put(key, bytes(1000))
        os.utime(file_of(store, key), (number, number))
    assert store.get(keys[0]) == bytes(1000)  # used just now
    removed = store.trim(2500)
    assert (removed.entries, store.contents().entries) == (2, 2)
    assert [store.get(key) is not None for key in keys] == [True, False, False, True]


def test_a_place_that_cannot_be_written_costs_a_note_and_no_build(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = LocalStore(tmp_path / "file" / "cache", 10_000)
    store.put(KEY, b"data")
    store.write_record("0", b"{}")
    store.trim()
    assert store.get(KEY) is None and store.read_record("0") is None
    (note,) = store.notes()
    assert "cannot be written" in note


def test_what_a_killed_build_had_begun_to_write_goes_away(store: LocalStore) -> None:
    store.put(KEY, b"data")
    begun = file_of(store, KEY).with_name(f".{file_of(store, KEY).name}.abcdefgh.part")
    begun.write_bytes(b"half")
    store.trim()
    assert not begun.exists() and store.get(KEY) == b"data"


def test_clearing_leaves_nothing_but_names_that_are_not_ours(store: LocalStore) -> None:
    store.put(KEY, b"data")
    store.write_record("0", b"{}")
    (store.folder / "mine.txt").write_bytes(b"")
    theirs = [store.folder / "entries" / name for name in ("ab/cafe", "a/" + "b" * 62)]
    for path in theirs:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    assert store.clear().entries == 1
    assert all(path.exists() for path in theirs)
    assert store.read_record("0") is None and store.contents().entries == 0
    assert (store.folder / "mine.txt").exists()


@pytest.mark.parametrize("kind", ["folder", "link", "endless", "pipe"])
def test_what_is_no_file_is_no_entry_and_makes_room_for_one(store: LocalStore, kind: str) -> None:
    store.put(KEY, b"data")
    path = file_of(store, KEY)
    outside = store.folder.parent / "outside"
    path.rename(outside)
    match kind:
        case "folder":
            (path / "inner").mkdir(parents=True)
        case "link":
            path.symlink_to(outside)
        case "endless":
            path.symlink_to("/dev/zero")
        case _:
            os.mkfifo(path)
    assert store.get(KEY) is None
    store.put(KEY, b"new")
    assert store.get(KEY) == b"new" and outside.exists()
    assert store.notes() == ("damaged entries of the cache, made anew: 1",)


def test_a_record_that_is_no_file_is_none(store: LocalStore) -> None:
    (store.folder / "records").mkdir(parents=True)
    os.mkfifo(store.folder / "records" / "ab")
    assert not store.read_record("ab")


def test_oversized_file_is_not_read_and_leaves_no_room(store: LocalStore) -> None:
    store.put(KEY, b"data")
    store.write_record("ab", b"record")
    os.truncate(file_of(store, KEY), 2**42)  # sparse: it takes no room, and would take memory
    os.truncate(store.folder / "records" / "ab", 2**42)
    assert store.get(KEY) is None
    assert store.read_record("ab") is None
    store.trim()
    assert not file_of(store, KEY).exists()
    store.put(KEY, b"data")
    assert store.get(KEY) == b"data"


def test_unremovable_entry_not_counted(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    store.put(KEY, b"data")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refused)
        assert store.trim(0).entries == 0
        assert store.unwritable == "Permission denied"
        with pytest.raises(UsageError) as caught:
            require_removed(store)
    assert caught.value.code == "AOTC-E060"
    assert store.get(KEY) == b"data"
