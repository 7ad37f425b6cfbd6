"""The walk through a server in docs/serving.md, run as it stands there, at another port."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from served import serving

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
    folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-e", "-c", walk("sh").replace("8000", port)],
        cwd=tmp_path,
        env=environment,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert '"profile":"predict[batch=1]"' in done.stdout
    assert "aotc_call_seconds" in (tmp_path / "metrics.txt").read_text("utf-8")
    assert done.stdout.rstrip().endswith("ended")


def test_the_client_works_as_it_stands(digits_bundle: tuple[Path, Path]) -> None:
    with serving(digits_bundle[:1], digits_bundle[1:]) as served:
        code = walk("python").replace("8000", str(served.port))
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
    assert done.stdout == "{'profile': 'predict[batch=8]', 'path': 'exact'}\n"
