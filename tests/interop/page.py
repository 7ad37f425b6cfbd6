"""signing.md as a program: the code blocks under a heading, run as they stand on the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "signing.md"

_SECTION = re.compile(r"^#{2,} (?P<heading>[^\n]+)\n(?P<text>.*?)(?=^#{2,} |\Z)", re.M | re.S)
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S)

_RUNNERS: dict[str, Callable[[str], list[str]]] = {
    "sh": lambda options: ["bash", *options.split(), "-c"],
    "python": lambda _: [sys.executable, "-c"],
}


def headings() -> list[str]:
    """The headings of the page's sections, in their order."""
    return [match["heading"] for match in _SECTION.finditer(PAGE.read_text())]


def blocks(heading: str) -> list[tuple[str, str]]:
    """Language and code of the blocks directly under a heading, in their order."""
    (text,) = (m["text"] for m in _SECTION.finditer(PAGE.read_text()) if m["heading"] == heading)
    return [(match["language"], match["code"]) for match in _BLOCK.finditer(text)]


def run(
    heading: str, folder: Path, options: str = "-euo pipefail", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a section's blocks in a folder: each Python block alone, its shell blocks as one script.

    options: of the shell; "+e" goes on after a failure, as a terminal does. The result of the last
    one that ran, which is the first that failed.
    """
    found = blocks(heading)
    scripts = [(language, code) for language, code in found if language != "sh"]
    if shell := "".join(code for language, code in found if language == "sh"):
        scripts.insert(0, ("sh", shell))
    assert scripts, f"no code under {heading}"
    environment = {**os.environ, **variables}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    for language, code in scripts:
        done = subprocess.run(
            [*_RUNNERS[language](options), code],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            break
    return done


def require(heading: str, folder: Path, **variables: str) -> None:
    """As `run`, and every command has to succeed."""
    done = run(heading, folder, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
