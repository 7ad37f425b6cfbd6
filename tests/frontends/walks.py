"""Walks of the documentation: the blocks of a section, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "model-files.md"


def blocks_of(section: str) -> dict[str, str]:
    """The last block of each language, of a section of the page."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"```(python|toml|sh)\n(.*?)```", text, re.DOTALL))


def run(folder: Path, *command: str) -> str:
    """What a command prints, with the programs of this environment before others."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shell(folder: Path, script: str) -> str:
    """What a script prints, which ends at its first command that fails."""
    return run(folder, "bash", "-euo", "pipefail", "-c", script)
