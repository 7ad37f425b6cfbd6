"""What a build was made from: revisions of git, and who builds."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from aotc.build.materials import BUILDER_VARIABLE, builder_id, revision_of
from aotc.errors import UsageError
from aotc.signing.provenance import BUILDER_ID

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@needs_git
def test_a_revision_is_the_commit_and_whether_the_folder_has_changes(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    revision = revision_of(tmp_path / "model")
    assert revision is not None
    assert (revision.commit, revision.dirty) == (git(tmp_path, "rev-parse", "HEAD"), False)
    (tmp_path / "outside.py").write_text("1")
    assert not revision_of(tmp_path / "model").dirty  # type: ignore[union-attr]
    (tmp_path / "model" / "b.py").write_text("1")
    assert revision_of(tmp_path / "model").dirty  # type: ignore[union-attr]


def test_a_folder_outside_of_a_repository_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert revision_of(tmp_path) is None
    monkeypatch.setenv("PATH", "")
    assert revision_of(Path(__file__).parent) is None, "no git"


@needs_git
def test_a_repository_cannot_have_programs_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/ran; true")
    assert revision_of(tmp_path) is not None
    assert not (tmp_path / "ran").exists()


def test_who_builds_is_stated_or_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BUILDER_VARIABLE, raising=False)
    assert builder_id(None) == BUILDER_ID
    monkeypatch.setenv(BUILDER_VARIABLE, "https://ci.example.org/7")
    assert builder_id(None) == "https://ci.example.org/7"
    assert builder_id("https://other.example.org") == "https://other.example.org"
    for wrong in ("", "ci", "https://a b"):
        with pytest.raises(UsageError) as caught:
            builder_id(wrong)
        assert caught.value.code == "AOTC-E092"
