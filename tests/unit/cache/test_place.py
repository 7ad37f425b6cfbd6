"""Which folder is taken, and which is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotc.cache.place import LIMIT, default_folder, open_store, size_of
from aotc.errors import UsageError


def test_the_default_follows_the_base_directory_specification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/aotc")
    for ignored in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}):
        assert default_folder(ignored) == tmp_path / ".cache" / "aotc"


def test_a_new_folder_is_its_users_alone(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "new" / "cache"), None, {})
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert store.limit == LIMIT


def test_a_folder_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError) as caught:
        open_store(str(tmp_path), None, {})
    assert caught.value.code == "AOTC-E060"
    assert "everybody" in caught.value.findings[0].found


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError) as caught:
        open_store(str(tmp_path / "file"), None, {})
    assert caught.value.code == "AOTC-E060"


@pytest.mark.parametrize(("text", "size"), [("500 MB", 500 * 10**6), ("2GiB", 2 * 2**30)])
def test_sizes_are_read_with_their_units(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "large", "-1 MB", "1 mb", "10 XB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        size_of(text)
    assert caught.value.code == "AOTC-E061"


def test_a_folder_without_a_name_is_refused_rather_than_the_current_one() -> None:
    with pytest.raises(UsageError) as caught:
        open_store("", None, {})
    assert caught.value.code == "AOTC-E060"
