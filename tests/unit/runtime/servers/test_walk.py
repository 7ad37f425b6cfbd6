"""The walk through a server in docs/serving.md, run as it stands there, at another port."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from served import serving
from shell import in_shell

PAGE = Path(__file__).parents[4] / "docs" / "serving.md"


def walk(language: str) -> str:
    """The block of a language in the section on the server."""
    section = PAGE.read_text("utf-8").partition("\n## A server\n")[2].partition("\n## ")[0]
    (block,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return str(block)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_work_as_they_stand(digits_bundle: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copy(digits_bundle[0], tmp_path / "digits.aotb")
    shutil.copy(digits_bundle[1], tmp_path / "trust.toml")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    said = in_shell(walk("sh").replace("8000", port), tmp_path)
    assert '"profile":"predict[batch=1]"' in said
    assert "aotc_call_seconds" in (tmp_path / "metrics.txt").read_text("utf-8")
    assert "\nended\n" in said


def test_the_client_works_as_it_stands(digits_bundle: tuple[Path, Path]) -> None:
    with serving(digits_bundle[:1], digits_bundle[1:]) as served:
        code = walk("python").replace("8000", str(served.port))
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
    assert done.stdout == "{'profile': 'predict[batch=8]', 'path': 'exact'}\n"
