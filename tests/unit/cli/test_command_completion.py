"""`aotc completion`, and what a shell is answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.cli.completion_command import complete

Run = Callable[..., Any]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_function_of_a_shell_is_printed(aotc: Run, shell: str) -> None:
    done = aotc("completion", shell)
    assert done.exit_code == 0
    assert f"_AOTC_COMPLETE={shell}_complete" in done.stdout


def test_bash_takes_the_function(aotc: Run, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    (tmp_path / "aotc.bash").write_text(aotc("completion", "bash").stdout)
    command = f"source {tmp_path}/aotc.bash && complete -p aotc"
    shown = subprocess.run([bash, "-c", command], capture_output=True, text=True, check=True)
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
    command = [sys.executable, "-m", "aotc.cli.main"]
    environment = {**os.environ, **asked}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["plain,verify"]


@pytest.mark.parametrize("variables", [{}, {"COMP_WORDS": "aotc bu", "COMP_CWORD": "x"}])
def test_a_question_that_no_shell_asks_has_no_answer_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    monkeypatch.delenv("COMP_WORDS", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert complete("bash_complete") == 1
