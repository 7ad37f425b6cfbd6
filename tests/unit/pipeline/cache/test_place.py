"""Folders that are taken, and others that are refused."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from homeless import nobody_at_home

from aotc.base.errors import UsageError
from aotc.pipeline.cache.cache_folder import LIMIT, default_folder, open_store, size_of
from aotc_runtime.base.digest import sha256
from tests.refusals import error_of


def test_default_is_the_xdg_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/aotc")
    for ignored in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}):
        assert default_folder(ignored) == tmp_path / ".cache" / "aotc"


def test_no_home_needs_a_cache_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_at_home(monkeypatch)
    for environment in ({}, {"XDG_CACHE_HOME": "relative"}):
        caught = error_of(UsageError, open_store, None, None, environment)
        assert caught.code == "AOTC-E060" and "--cache" in caught.findings[0].hint
    assert open_store(str(tmp_path / "named"), None, {}).folder == tmp_path / "named"


def found(place: Path | str) -> str:
    """Return why a folder is refused; empty if it is not."""
    try:
        open_store(str(place), None, {})
    except UsageError as error:
        (finding,) = error.findings
        assert finding.code == "AOTC-E060" and finding.hint
        return finding.found
    return ""


def test_a_new_folder_is_its_users_alone(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "new" / "cache"), None, {})
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert store.limit == LIMIT


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x" * 300, "too long"),
        ("file", "not a directory"),
        ("file/below", "not a directory"),
        ("everybody's", "every user"),
    ],
)
def test_unusable_cache_is_refused_with_reason(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "everybody's").mkdir()
    (tmp_path / "everybody's").chmod(0o777)
    assert why in found(tmp_path / name)


def test_a_folder_without_a_name_is_refused_rather_than_the_current_one() -> None:
    assert found("")


def of_several(folder: Path) -> None:
    """Let a group write there that is not the user's own."""
    others = [4242] if os.geteuid() == 0 else [g for g in os.getgroups() if g != os.getgid()]
    if not others:
        pytest.skip("this user has no other group")
    os.chown(folder, -1, others[0])
    folder.chmod(0o775)


def test_a_folder_that_a_group_may_write_is_refused(tmp_path: Path) -> None:
    of_several(tmp_path)
    assert found(tmp_path).startswith("the group ")


def of_everybody(folder: Path) -> None:
    folder.chmod(0o777)


@pytest.mark.parametrize("inner", ["records", "entries", "entries/ab"])
@pytest.mark.parametrize("shared", [of_several, of_everybody])
def test_shared_folder_refused(tmp_path: Path, inner: str, shared: Callable[[Path], None]) -> None:
    cache = tmp_path / "cache"
    (cache / "entries" / "ab").mkdir(parents=True)
    (cache / "records").mkdir()
    tmp_path.chmod(0o755)
    cache.chmod(0o755)
    shared(cache / inner)
    refused = error_of(UsageError, open_store, str(cache), None, {})
    assert refused.findings[0].where == str(cache / inner)
    cache.chmod(0o700)
    assert found(cache) == "", "which nobody else can reach"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_entry_of_another_user_is_not_used(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "cache"), None, {})
    store.put(sha256(b"key"), b"data")
    store.write_record("ab", b"{}")
    for path in store.folder.rglob("*"):
        if path.is_file():
            os.chown(path, 4242, -1)
    assert (store.get(sha256(b"key")), store.read_record("ab") or b"") == (None, b"")


@pytest.mark.parametrize(("mode", "why"), [(0o755, ""), (0o777, "every user")])
def test_a_link_inside_leads_to_what_counts(tmp_path: Path, mode: int, why: str) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk").chmod(mode)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o755)
    (tmp_path / "cache" / "entries").symlink_to(tmp_path / "disk")
    (tmp_path / "cache" / "records").symlink_to("nowhere")
    assert found(tmp_path / "cache") == why


def test_what_a_build_makes_there_is_its_users_alone(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o755)
    before = os.umask(0)
    try:
        store = open_store(str(tmp_path / "cache"), None, {})
        store.put(sha256(b"key"), b"data")
        store.write_record("ab", b"{}")
        store.trim()
    finally:
        os.umask(before)
    folders = [path for path in (tmp_path / "cache").rglob("*") if path.is_dir()]
    assert len(folders) == 3 and not any(path.stat().st_mode & 0o077 for path in folders)
    assert open_store(str(tmp_path / "cache"), None, {}).get(sha256(b"key")) == b"data"


def test_foreign_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 4242, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: 4242)
    assert found(tmp_path).startswith("another user, ")


def test_a_link_that_leads_elsewhere_later_leads_nobody_there(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to("ours")
    store = open_store(str(link), None, {})
    open_store(str(tmp_path / "theirs"), None, {}).put(sha256(b"key"), b"theirs")
    link.unlink()
    link.symlink_to("theirs")
    assert store.get(sha256(b"key")) is None


@pytest.mark.parametrize("text", ["", "large", "-1 MB", "1 mb", "10 XB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    assert error_of(UsageError, size_of, text).code == "AOTC-E061"
