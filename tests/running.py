"""Processes of Python, beside those that only some tests need."""

import os
import subprocess
import sys
from pathlib import Path


def python(
    *arguments: object, folder: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments. variables: beside those of the tests."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def printed(program: str, *arguments: object, folder: Path | None = None, **variables: str) -> str:
    """Return what a program prints, which has to succeed."""
    done = python("-c", program, *arguments, folder=folder, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
