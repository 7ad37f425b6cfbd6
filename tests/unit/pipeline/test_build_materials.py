"""Tests of the provenance's materials, builder and time."""

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.bundle.sign.build_provenance import BUILDER_ID
from aotc.pipeline.build_materials import (
    BUILDER_VARIABLE,
    builder_id,
    revision_of,
    stated_time,
    time_of_build,
)
from tests.refusals import error_of

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, *files: str) -> str:
    """Make a repository with these files; the commit."""
    git(folder, "init", "-q")
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("1")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return git(folder, "rev-parse", "HEAD")


def is_dirty(folder: Path, *made_from: str) -> bool:
    revision = revision_of(folder, made_from)
    assert revision is not None
    return revision.dirty


@needs_git
def test_a_revision_is_the_commit_and_whether_the_folder_has_changes(tmp_path: Path) -> None:
    head = commit(tmp_path, "model/a.py")
    revision = revision_of(tmp_path / "model", ["a.py"])
    assert revision is not None
    assert (revision.commit, revision.dirty) == (head, False)
    (tmp_path / "model" / "a.py").write_text("2")
    assert is_dirty(tmp_path / "model")


@needs_git
def test_files_that_no_commit_has_count_if_the_build_read_them(tmp_path: Path) -> None:
    """Neither the bundle that was written beside the program nor a key makes it dirty."""
    commit(tmp_path, "deploy/model.toml", "src/model/old.py")
    (tmp_path / "deploy" / "model.aotb").write_text("")
    (tmp_path / "deploy" / "sizes ü.txt").write_text("")
    (tmp_path / "src" / "model" / "new.py").write_text("1")
    read = ["model.toml", "model/old.py"]
    assert not is_dirty(tmp_path / "deploy", *read)
    assert is_dirty(tmp_path / "deploy", *read, "sizes ü.txt")
    assert is_dirty(tmp_path / "deploy", *read, "model/new.py")
    assert is_dirty(tmp_path / "deploy", *read, "../src/model/new.py")
    (tmp_path / "src" / "model" / "old.py").write_text("2")
    assert is_dirty(tmp_path / "deploy", *read)
    assert not is_dirty(tmp_path / "deploy", "model.toml")


def test_outside_folder_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert revision_of(tmp_path, []) is None
    monkeypatch.setenv("PATH", "")
    assert revision_of(Path(__file__).parent, []) is None, "no git"


@needs_git
def test_a_repository_cannot_have_programs_run(tmp_path: Path) -> None:
    commit(tmp_path, "a.py")
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/ran; true")
    assert revision_of(tmp_path, []) is not None
    assert not (tmp_path / "ran").exists()


def test_who_builds_is_stated_or_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BUILDER_VARIABLE, raising=False)
    assert builder_id(None) == BUILDER_ID
    monkeypatch.setenv(BUILDER_VARIABLE, "https://ci.example.org/7")
    assert builder_id(None) == "https://ci.example.org/7"
    assert builder_id("https://other.example.org") == "https://other.example.org"
    for wrong in ("", "ci", "https://a b"):
        assert error_of(UsageError, builder_id, wrong).code == "AOTC-E092"


def test_the_environment_states_the_time_of_a_build_or_else_the_clock_in_whole_seconds() -> None:
    assert stated_time({}) is None
    stated = stated_time({"SOURCE_DATE_EPOCH": "1700000000"})
    assert stated == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC) == time_of_build(stated)
    found = time_of_build(None)
    assert found.microsecond == 0 and found.tzinfo is UTC
    assert timedelta() <= datetime.now(UTC) - found < timedelta(minutes=1)


@pytest.mark.parametrize("text", ["", "now", "-1", "1.5", " 1", "1_0", "١", "9" * 30])
def test_what_is_no_time_is_refused(text: str) -> None:
    assert error_of(UsageError, stated_time, {"SOURCE_DATE_EPOCH": text}).code == "AOTC-E015"
