"""`aotc build` refusing before it has traced or compiled anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.compile.target_files import builtin_folder

Run = Callable[..., Any]
DIGITS = Path(__file__).parents[3] / "manifests" / "digits.toml"


@pytest.fixture(autouse=True)
def nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a process would be the beginning of a build."""

    def started(*arguments: object, **options: object) -> None:
        raise AssertionError("a build was started")

    monkeypatch.setattr("subprocess.Popen.__init__", started)


def test_a_manifest_with_problems_is_refused_with_all_of_them(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text("schema = 1\nnam = 3\n")
    done = refused(["build", "m.toml"], 3, "AOTC-E804")
    assert len(done.codes) == 4
    assert "AOTC-E803 m.toml:2 nam\n" in done.stderr


@pytest.mark.parametrize("path", ["gone.toml", ".", "/dev/null/m.toml"])
def test_a_manifest_that_cannot_be_read_is_refused(refused: Run, path: str) -> None:
    refused(["build", path], 3, "AOTC-E801")


@pytest.mark.parametrize("output", ["gone/b.aotb", "."])
def test_a_place_that_cannot_be_written_is_refused(refused: Run, output: str) -> None:
    refused(["build", DIGITS, "-o", output], 2, "AOTC-E003")


@pytest.mark.parametrize("content", ["schema = 1", "-----BEGIN PRIVATE KEY-----"])
def test_a_file_that_is_no_bundle_is_never_replaced(
    refused: Run, tmp_path: Path, content: str
) -> None:
    (tmp_path / "precious").write_text(content)
    refused(["build", DIGITS, "-o", "precious"], 2, "AOTC-E004")
    assert (tmp_path / "precious").read_text() == content


def test_a_folder_with_other_things_in_it_is_never_replaced(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    refused(["build", DIGITS, "--layout", tmp_path], 2, "AOTC-E004")
    assert (tmp_path / "precious").exists()


def test_an_unknown_target_is_refused_naming_the_option(refused: Run) -> None:
    done = refused(["build", DIGITS, "--target", "nope"], 3, "AOTC-E811")
    assert "AOTC-E811 --target\n" in done.stderr


def test_a_target_twice_is_refused(refused: Run) -> None:
    v3 = ["--target", "cpu-x86-64-v3"]
    refused(["build", DIGITS, *v3, *v3], 3, "AOTC-E813")


def test_a_key_that_cannot_sign_is_refused(refused: Run) -> None:
    refused(["build", DIGITS, "--key", "gone.key"], 2, "AOTC-E006")


def test_a_missing_folder_for_temporary_files_is_refused(
    refused: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    done = refused(["build", DIGITS], 2, "AOTC-E003")
    assert "TMPDIR" in done.stderr


@pytest.mark.parametrize(
    "options",
    [["--tune", "--tuning", "t.json"], ["--save-tuning", "t.json"]],
    ids=["measured and repeated", "nothing to save"],
)
def test_options_of_tuning_that_make_no_sense_are_refused(refused: Run, options: list[str]) -> None:
    refused(["build", DIGITS, *options], 2, "AOTC-E001")


def test_choices_are_written_in_place_of_older_ones_only(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "precious.json").write_text('{"precious": 1}')
    refused(["build", DIGITS, "--tune", "--save-tuning", "precious.json"], 2, "AOTC-E004")


def test_a_tuning_file_that_cannot_be_read_is_refused(refused: Run) -> None:
    refused(["build", DIGITS, "--tuning", "gone.json"], 2, "AOTC-E030")


def test_tuning_for_a_target_that_this_host_cannot_run_is_refused(
    refused: Run, tmp_path: Path
) -> None:
    text = (builtin_folder() / "cpu-x86-64-v3.toml").read_text()
    # Intel's and AMD's own, which no processor has together.
    target = text.replace("features = [", 'features = ["amx-tile", "xop", ')
    (tmp_path / "nowhere.toml").write_text(target.replace("cpu-x86-64-v3", "nowhere"))
    done = refused(
        ["build", DIGITS, "--target", tmp_path / "nowhere.toml", "--tune"], 4, "AOTC-E911"
    )
    assert "not tuned: this host cannot run target nowhere" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["-o", "new.aotb", "--sbom", "new.aotb"],
        ["-o", "new.aotb", "--sbom", "../here/new.aotb"],
        ["--sbom", "digits-1.0.0.aotb"],
        ["--layout", "new", "--sbom", "new"],
        ["--layout", "empty", "--sbom", "empty/bill.json"],
        ["-o", "new.aotb", "--tune", "--save-tuning", "other", "--sbom", "other"],
        ["-o", "new.aotb", "--tune", "--save-tuning", "new.aotb"],
    ],
)
def test_results_of_one_build_never_replace_each_other(
    refused: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    (tmp_path / "here" / "empty").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    refused(["build", DIGITS, *arguments], 2, "AOTC-E004")


@pytest.mark.parametrize("option", ["-o", "--layout", "--sbom"])
def test_a_name_too_long_for_its_temporary_neighbour_is_refused_first(
    refused: Run, option: str
) -> None:
    refused(["build", DIGITS, option, "a" * 250], 2, "AOTC-E003")
