"""Environments are made once, by the user alone, and take their place when they are whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from homeless import nobody_at_home

from aotc.base.child_processes import Processes
from aotc.commands.certify.certify_environments import LOCK, Environments, cache_folder, put
from aotc_runtime.base.errors import ResourceError
from aotc_runtime.schema.certified_releases import Release

from .cached_environment import packages_of_this

JAXLIB = Release("jaxlib", "0.12.0")


def environments(folder: Path, lines: list[str], *, refresh: bool = False) -> Environments:
    return Environments(folder, refresh, lines.append, Processes())


def refused(made: Environments) -> tuple[str, str, str]:
    with pytest.raises(ResourceError) as caught, made.environment(JAXLIB):
        pass
    (found,) = caught.value.findings
    return found.code, found.where, found.found


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
    with pytest.raises(ResourceError, match="AOTC-E559") as caught:
        cache_folder()
    assert "XDG_CACHE_HOME" in caught.value.findings[0].hint


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = refused(environments(tmp_path / "file" / "cache", []))
    assert found[:2] == ("AOTC-E559", str(tmp_path / "file"))


@pytest.mark.parametrize("inner", [".", "certify"])
def test_no_code_is_run_from_where_others_may_write(tmp_path: Path, inner: str) -> None:
    made = environments(packages_of_this(tmp_path, JAXLIB) / "aotc" / "certify", [])
    folder = tmp_path / "aotc" / inner
    folder.chmod(0o777)
    found = "everybody"
    assert refused(made) == ("AOTC-E559", str(folder), found)


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_index")
def test_what_was_cut_off_while_it_was_installed_leaves_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    made = environments(tmp_path / "aotc" / "certify", lines)
    assert refused(made)[:2] == ("AOTC-E557", "jaxlib 0.12.0")
    assert {path.stat().st_mode & 0o777 for path in (made.folder, made.folder.parent)} == {0o700}
    assert len(lines) == 1 and "jaxlib 0.12.0" in lines[0]
    assert [path.suffix for path in made.folder.iterdir()] == [LOCK]


@pytest.mark.usefixtures("no_index")
def test_an_environment_is_made_anew_if_that_is_asked_for_or_its_interpreter_is_gone(
    tmp_path: Path,
) -> None:
    lines: list[str] = []
    folder = packages_of_this(tmp_path, JAXLIB) / "aotc" / "certify"
    with environments(folder, lines).environment(JAXLIB) as python:
        assert python.exists() and lines == []
    assert refused(environments(folder, lines, refresh=True))[0] == "AOTC-E557"
    assert python.exists() and len(lines) == 1, "one that cannot be had replaces none"
    python.unlink()
    python.symlink_to(tmp_path / "gone")
    assert refused(environments(folder, lines))[0] == "AOTC-E557"


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
            (place / "lib").mkdir(parents=True)
    (tmp_path / "work" / "made" / "bin").mkdir(parents=True)
    put(tmp_path / "work" / "made", place)
    assert [*place.iterdir()] == [place / "bin"] and not place.is_symlink()
    assert (elsewhere / "kept").is_file()
