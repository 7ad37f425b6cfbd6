"""Running `aotc` in this process, as the console script runs it."""

import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aotc.cli.main import main


@dataclass(frozen=True)
class Done:
    """A finished command."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        return json.loads(self.stdout)

    @property
    def codes(self) -> list[str]:
        """The codes of its findings, from the text on stderr; usage errors show none there."""
        found = re.findall(r"^error(?:\[(AOTC-E\d{3})\])?: ", self.stderr, re.MULTILINE)
        return [code or "AOTC-E001" for code in found]


Aotc = Callable[..., Done]


@pytest.fixture
def aotc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Aotc:
    """Run a command line in an empty folder, without a terminal and without a passphrase."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AOTC_KEY_PASSPHRASE", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def run(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["aotc", *map(os.fspath, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        code = stopped.value.code
        assert isinstance(code, int)
        assert "Traceback" not in captured.err or {"-v", "--verbose"} & set(arguments)
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def refused(aotc: Aotc) -> Callable[[Sequence[str | Path], int, str], Done]:
    """Run a command that has to be refused: the same code and exit code as text and as JSON."""

    def run(arguments: Sequence[str | Path], exit_code: int, code: str) -> Done:
        text = aotc(*arguments)
        assert (text.exit_code, text.stdout, text.codes[:1]) == (exit_code, "", [code])
        as_json = aotc(*arguments, "--json")
        assert (as_json.exit_code, as_json.stderr) == (exit_code, "")
        document = as_json.document
        assert (document["ok"], document["exit_code"]) == (False, exit_code)
        assert [finding["code"] for finding in document["findings"]] == text.codes
        assert all(finding["title"] and finding["where"] for finding in document["findings"])
        return text

    return run
