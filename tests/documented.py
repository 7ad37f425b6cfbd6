"""Code blocks of the documentation, and the shell that they run in."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S
)
_SECTION = re.compile(r"^#{2,} (?P<heading>[^\n]+)\n(?P<text>.*?)(?=^#{2,} |\Z)", re.M | re.S)


class Block(NamedTuple):
    """A code block. note: the comment above it, or ""."""

    note: str
    language: str
    code: str


def blocks_of(page: Path, *headings: str) -> list[Block]:
    """Return the blocks of a page, or those directly below some of its headings, in their order."""
    text = page.read_text("utf-8")
    if headings:
        text = "".join(map(sections_of(page).__getitem__, headings))
    return [Block(each["note"] or "", each[2], each["code"]) for each in _BLOCK.finditer(text)]


def sections_of(page: Path) -> dict[str, str]:
    """Return the text directly below each heading of a page."""
    return {each["heading"]: each["text"] for each in _SECTION.finditer(page.read_text("utf-8"))}


def code_of(language: str, page: Path, *headings: str) -> str:
    """Return the blocks of a language as one program."""
    found = [block.code for block in blocks_of(page, *headings) if block.language == language]
    assert found, f"no {language} in {page.name} {headings}"
    return "\n".join(found)


def in_shell(commands: str, folder: Path, **environment: str) -> str:
    """Return what commands print, stdout before stderr, each of which has to succeed.

    environment: beside that of the tests; programs of the tests' Python are found before others.
    """
    done = shell(commands, folder, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def shell(
    commands: str, folder: Path, options: str = "-euo pipefail", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run commands. options: of bash; "+e" goes on after a failure, as a terminal does."""
    return _run(["bash", *options.split(), "-c", commands], folder, environment)


def run_section(
    page: Path, heading: str, folder: Path, options: str = "-euo pipefail", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a section's blocks of shell as one script, then each block of Python alone.

    Return the result of the last that ran, which is the first that failed.
    """
    found = blocks_of(page, heading)
    commands = "".join(block.code for block in found if block.language == "sh")
    programs = [block.code for block in found if block.language == "python"]
    assert commands or programs, f"no code below {heading}"
    done = shell(commands, folder, options, **environment)
    for program in programs:
        if done.returncode:
            break
        done = _run([sys.executable, "-c", program], folder, environment)
    return done


def _run(
    command: list[str], folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **environment}
    path = f"{Path(sys.executable).parent}{os.pathsep}{given['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**given, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
