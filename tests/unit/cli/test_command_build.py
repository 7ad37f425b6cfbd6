"""`aotc build` refusing before it has traced or compiled anything."""

from pathlib import Path

import pytest

from aotc.compile.target_files import builtin_folder
from tests.conftest import Run

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
    assert "--> m.toml:2 nam\n" in done.stderr


def test_an_unknown_target_is_refused_naming_the_option(refused: Run) -> None:
    done = refused(["build", DIGITS, "--target", "nope"], 3, "AOTC-E811")
    assert "  --> --target\n" in done.stderr


def test_a_target_twice_is_refused(refused: Run) -> None:
    v3 = ["--target", "cpu-x86-64-v3"]
    refused(["build", DIGITS, *v3, *v3], 3, "AOTC-E813")


def test_missing_temporary_folder_is_refused(refused: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    done = refused(["build", DIGITS], 2, "AOTC-E003")
    assert "TMPDIR" in done.stderr


def test_tuning_for_a_target_this_host_lacks_is_refused(refused: Run, tmp_path: Path) -> None:
    text = (builtin_folder() / "cpu-x86-64-v3.toml").read_text()
    # Intel's and AMD's own, which no processor has together.
    target = text.replace("features = [", 'features = ["amx-tile", "xop", ')
    (tmp_path / "nowhere.toml").write_text(target.replace("cpu-x86-64-v3", "nowhere"))
    done = refused(
        ["build", DIGITS, "--target", tmp_path / "nowhere.toml", "--tune"], 4, "AOTC-E911"
    )
    assert "--> --tune for nowhere" in done.stderr


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
