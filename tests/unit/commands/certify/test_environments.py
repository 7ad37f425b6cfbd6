"""Environments are made once, checked before use, and removed when they are too many."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec
import pytest
from homeless import nobody_at_home

from aotc.base.child_processes import Processes
from aotc.commands.certify import certify_environments
from aotc.commands.certify.certify_environments import (
    LOCK,
    SEAL,
    Environments,
    cache_folder,
    is_whole,
    make_room,
)
from aotc_runtime.base.errors import ResourceError
from aotc_runtime.schema.certified_releases import Release

JAXLIB = Release("jaxlib", "0.12.0")


def sealed(folder: Path, name: str, size: int = 1000, used: float = 0.0) -> Path:
    """Something with the shape of an environment."""
    place = folder / name
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to("/bin/sh")
    (place / "lib").mkdir()
    (place / "lib" / "code.py").write_bytes(bytes(size))
    data = msgspec.json.encode(certify_environments._digests(place), order="sorted")
    (place / SEAL).write_bytes(data)
    os.utime(place / SEAL, (used, used))
    return place


def test_an_environment_is_whole_until_a_byte_or_a_name_is_another(tmp_path: Path) -> None:
    def spoil(name: str, how: object) -> None:
        place = sealed(tmp_path / name, "x")
        assert is_whole(place)
        assert callable(how)
        how(place)
        assert not is_whole(place), name

    spoil("changed", lambda p: (p / "lib" / "code.py").write_bytes(bytes(999) + b"x"))
    spoil("cut", lambda p: (p / "lib" / "code.py").write_bytes(bytes(10)))
    spoil("less", lambda p: (p / "lib" / "code.py").unlink())
    spoil("more", lambda p: (p / "lib" / "sitecustomize.py").write_text(""))
    spoil("a link", lambda p: (p / "lib" / "elsewhere").symlink_to("/tmp"))
    spoil("another interpreter", lambda p: relinked(p, "/bin/true"))
    (tmp_path / "copy").write_bytes(Path("/bin/sh").read_bytes())
    spoil("a copy of the interpreter", lambda p: relinked(p, str(tmp_path / "copy")))
    spoil("unsealed", lambda p: (p / SEAL).unlink())
    spoil("another seal", lambda p: (p / SEAL).write_bytes(b"[]"))


def relinked(place: Path, to: str) -> None:
    (place / "bin" / "python").unlink()
    (place / "bin" / "python").symlink_to(to)


def test_an_environment_whose_interpreter_was_removed_is_not_whole(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.write_text("")
    place = sealed(tmp_path, "x")
    relinked(place, str(base))
    data = msgspec.json.encode(certify_environments._digests(place), order="sorted")
    (place / SEAL).write_bytes(data)
    assert is_whole(place)
    base.unlink()
    assert not is_whole(place)


def test_the_least_recently_used_go_until_the_rest_fits(tmp_path: Path) -> None:
    places = [sealed(tmp_path, str(n), size=10_000, used=1000.0 - n) for n in range(4)]
    (tmp_path / ".being-made").mkdir()
    (tmp_path / ".being-made" / "library").write_bytes(bytes(100_000))
    each = certify_environments._size(places[0])
    make_room(tmp_path, 2 * each, keep=places[3])
    assert [place.exists() for place in places] == [True, False, False, True]
    assert (tmp_path / ".being-made").is_dir()


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    places = [sealed(tmp_path, str(n), used=n) for n in range(2)]
    with Path(f"{places[0]}{LOCK}").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        make_room(tmp_path, 0, keep=places[1])
        assert all(place.exists() for place in places)
    make_room(tmp_path, 0, keep=places[1])
    assert [place.exists() for place in places] == [False, True]


def test_the_cache_lies_where_the_user_keeps_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "aotc" / "certify"
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert cache_folder() == tmp_path / ".cache" / "aotc" / "certify"


def test_who_has_no_home_is_told_to_set_one(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_at_home(monkeypatch)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(ResourceError) as caught:
        cache_folder()
    assert caught.value.code == "AOTC-E559"
    assert "XDG_CACHE_HOME" in caught.value.findings[0].hint


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = Environments(tmp_path / "file" / "cache", False, lambda line: None, Processes())
    with pytest.raises(ResourceError) as refused, made.environment(JAXLIB):
        pass
    (found,) = refused.value.findings
    assert (found.code, found.where) == ("AOTC-E559", str(tmp_path / "file"))


@pytest.mark.parametrize("inner", [".", "certify"])
def test_no_code_is_run_from_where_others_may_write(tmp_path: Path, inner: str) -> None:
    made = Environments(tmp_path / "aotc" / "certify", False, lambda line: None, Processes())
    made.folder.mkdir(parents=True)
    folder = tmp_path / "aotc" / inner
    folder.chmod(0o777)
    with pytest.raises(ResourceError) as refused, made.environment(JAXLIB):
        pass
    (found,) = refused.value.findings
    assert (found.code, found.where) == ("AOTC-E559", str(folder))
    assert found.found == "a folder to which everybody may write"


def test_what_was_cut_off_while_it_was_installed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an index: pip fails, and no environment is there that could be taken for one."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    lines: list[str] = []
    made = Environments(tmp_path / "aotc" / "certify", False, lines.append, Processes())
    with pytest.raises(ResourceError) as refused, made.environment(JAXLIB):
        pass
    (found,) = refused.value.findings
    assert (found.code, found.where) == ("AOTC-E557", "jaxlib 0.12.0")
    assert {path.stat().st_mode & 0o777 for path in (made.folder, made.folder.parent)} == {0o700}
    assert "jaxlib==0.12.0" in found.expected
    assert len(lines) == 1 and "jaxlib 0.12.0" in lines[0]
    assert [path.suffix for path in made.folder.iterdir()] == [LOCK]


@pytest.mark.parametrize("kind", ["nothing", "file", "link", "dangling", "folder"])
def test_an_environment_takes_the_place_of_whatever_is_there(tmp_path: Path, kind: str) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    match kind:
        case "file":
            place.touch()
        case "link":
            place.symlink_to(elsewhere)
        case "dangling":
            place.symlink_to(tmp_path / "gone")
        case "folder":
            (place / "bin").mkdir(parents=True)
    certify_environments._clear(place)
    (tmp_path / "made").mkdir()
    (tmp_path / "made").rename(place)
    assert place.is_dir() and not place.is_symlink()
    assert (elsewhere / "kept").is_file()
