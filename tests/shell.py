"""Commands as pages and files for users have them, run in a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def in_shell(commands: str, folder: Path, **environment: str) -> str:
    """What commands print, stdout before stderr, each of which has to succeed.

    environment: beside that of the tests; programs of the tests' Python are found before others.
    """
    given = {**os.environ, **environment}
    path = f"{Path(sys.executable).parent}{os.pathsep}{given['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env={**given, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
