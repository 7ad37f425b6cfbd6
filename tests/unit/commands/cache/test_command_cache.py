"""`aotc cache`, and what `aotc build` says of its tasks."""

from pathlib import Path

import pytest

from aotc.pipeline.cache.cache_store import LocalStore
from aotc_runtime.base.digest import sha256
from tests.conftest import Run
from tests.small_manifests import one_function

MANIFEST = one_function("tiny", "[8]")


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A cache of three entries of 1000 bytes."""
    folder = tmp_path / "cache"
    store = LocalStore(folder, 10_000)
    for number in range(3):
        store.put(sha256(bytes([number])), bytes(1000))
    return folder


def test_info_shows_where_the_cache_is_and_what_it_holds(aotc: Run, filled: Path) -> None:
    done = aotc("cache", "info", "--cache", filled, "--cache-size", "1 MB", "--json")
    found = done.document
    assert (found["folder"], found["entries"], found["limit_bytes"]) == (str(filled), 3, 10**6)
    assert 3000 < found["bytes"] < 3500
    text = aotc("cache", "info", "--cache", filled).stdout
    assert str(filled) in text and "size     3." in text and " kB of 10.7 GB" in text


def test_clear_removes_everything(aotc: Run, filled: Path) -> None:
    cleared = aotc("cache", "clear", "--cache", filled, "--json").document
    assert (cleared["removed_entries"], cleared["entries"]) == (3, 0)
    assert "size     0 B of" in aotc("cache", "info", "--cache", filled).stdout


def test_what_cannot_be_removed_is_no_success(
    refused: Run, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", forbidden)
    refused(["cache", "clear", "--cache", filled], 2, "AOTC-E060")


def test_variable_or_user_cache(aotc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AOTC_CACHE", str(tmp_path / "named"))
    assert aotc("cache", "info", "--json").document["folder"] == str(tmp_path / "named")
    monkeypatch.delenv("AOTC_CACHE")
    found = aotc("cache", "info", "--json").document["folder"]
    assert found == str(tmp_path / "home" / "aotc")


@pytest.mark.parametrize("command", ["info", "clear"])
def test_a_cache_that_is_off_is_nothing_to_talk_about(refused: Run, command: str) -> None:
    refused(["cache", command, "--cache", "off"], 2, "AOTC-E001")


def test_shared_folder_and_bad_size_are_refused(refused: Run, filled: Path) -> None:
    (filled.parent / "tiny.toml").write_text(MANIFEST)
    refused(["build", "tiny.toml", "--cache", filled, "--cache-size", "big"], 2, "AOTC-E061")
    filled.chmod(0o777)
    refused(["build", "tiny.toml", "--cache", filled], 2, "AOTC-E060")


def test_explain_says_why_each_task_ran(aotc: Run, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(MANIFEST)
    (tmp_path / "tiny.py").write_text("def f(x):\n    return x + 1\n")
    build = ("build", "tiny.toml", "--cache", tmp_path / "cache", "--explain")
    first = aotc(*build).stdout
    assert "tasks       5, 0 of them cached\ncompared    with nothing: no build of this" in first
    assert "\n  run       capture\n            every build does\n" in first
    assert "run       executable f for cpu-x86-64-v3" in first
    again = aotc(*build, "-v")
    assert (
        "tasks       5, 3 of them cached\ncompared    with the last build of this" in again.stdout
    )
    assert "\n  cached    reference\n" in again.stdout
    lines = again.stderr.splitlines()
    assert "executable f for cpu-x86-64-v3: cached" in lines
    assert any(line.startswith("pack: ") and line.endswith(" s") for line in lines)
    (tmp_path / "tiny.py").write_text("def f(x):\n    return x + 2\n")
    document = aotc(*build, "--json").document
    assert document["compared_with"] == "the last build of this manifest"
    tasks = {task["task"]: task for task in document["tasks"]}
    assert tasks["capture"]["reasons"] == ["source file tiny.py changed"]
    executable = tasks["executable f for cpu-x86-64-v3"]
    assert not executable["cached"] and executable["seconds"] > 0
    assert executable["reasons"] == ["module changed: source file tiny.py changed"]
    assert executable["key"].startswith("sha256:")


def test_reproduced_build_says_how_long_plain_jax_ran(aotc: Run, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(MANIFEST)
    (tmp_path / "tiny.py").write_text("def f(x):\n    return x + 1\n")
    build = ("build", "tiny.toml", "--cache", tmp_path / "cache")
    once = aotc(*build, "--json").document
    assert once["reproduced"] is None
    assert list(once["seconds"]) == ["capture", "compile", "reference", "parity", "pack"]
    for task, stage in (("executable f for cpu-x86-64-v3", "compile"), ("reference", "reference")):
        (ran,) = (each["seconds"] for each in once["tasks"] if each["task"] == task)
        assert once["seconds"][stage] == pytest.approx(ran, abs=1e-6) and ran > 0
    twice = aotc(*build, "--check-reproducible")
    assert "reproduced: a second build gave the same root\n" in twice.stdout
    for stage in ("capture: 1 of 1", "compile: 1 of 1", "reference: 8 of 8", "parity: 1 of 1"):
        assert f"{stage}, " in twice.stderr
    assert "again\n" in twice.stderr
    again = aotc(*build, "--check-reproducible", "--json").document
    assert again["reproduced"] is True
    assert list(again["seconds"]) == ["capture", "compile", "reference", "parity", "again", "pack"]
    assert again["seconds"]["again"] > again["seconds"]["capture"], "of which nothing is cached"
