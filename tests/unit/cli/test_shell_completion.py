"""Completion of command lines in shells."""

import shutil
import subprocess
from pathlib import Path

import pytest

from aotc.cli.main import complete
from tests.running import python


def test_bash_takes_the_function(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    done = python("-m", "aotc.cli.main", _AOTC_COMPLETE="bash_source")
    assert done.returncode == 0
    (tmp_path / "aotc.bash").write_text(done.stdout)
    command = [bash, "-c", f"source {tmp_path}/aotc.bash && complete -p aotc"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "-F _aotc_completion aotc" in shown.stdout


@pytest.mark.parametrize(
    ("words", "answers"),
    [
        ("aotc veri", {"plain,verify"}),
        ("aotc build --lay", {"plain,--layout"}),
        ("aotc build --target nat", {"plain,native"}),
        ("aotc targets sh", {"plain,show"}),
        ("aotc targets show nat", {"plain,native"}),
        ("aotc targets check nat", {"plain,native"}),
        ("aotc extract b.aotb --target nat", {"plain,native"}),
        ("aotc profiles suggest m.toml --target nat", {"plain,native"}),
    ],
)
def test_commands_options_and_targets_are_completed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    answers: set[str],
) -> None:
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert complete("bash_complete") == 0
    found = set(capsys.readouterr().out.split())
    assert found and found <= answers


def test_the_command_answers_a_shell_that_asks() -> None:
    asked = {"_AOTC_COMPLETE": "bash_complete", "COMP_WORDS": "aotc veri", "COMP_CWORD": "1"}
    done = python("-m", "aotc.cli.main", **asked)
    assert (done.returncode, done.stdout.split()) == (0, ["plain,verify"])


@pytest.mark.parametrize("variables", [{}, {"COMP_WORDS": "aotc bu", "COMP_CWORD": "x"}])
def test_odd_question_is_empty(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    monkeypatch.delenv("COMP_WORDS", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert complete("bash_complete") == 1
