"""Command lines of aotc in a file system of their own, which is small or read-only:
`python -m tests.faults.mounted SIZE MODE`, with (work folder, command lines) as JSON on stdin.

Run in namespaces of its own (unshare(1)), where mounting needs no rights and nobody else sees it.
Prints what each command line ended with, and the names that lie there afterwards.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from aotc.cli.main import main

UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def run(arguments: list[str]) -> dict[str, object]:
    """One command line: its exit code and the document it printed."""
    sys.argv = ["aotc", *arguments, "--json"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            main()
        except SystemExit as stopped:
            return {"code": stopped.code, "document": json.loads(printed.getvalue())}
    raise AssertionError("a command ends the process")


def start(size: str, mode: str) -> None:
    work, commands = json.load(sys.stdin)
    place = Path(work, "mounted")
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], check=True)
    shutil.copytree(Path(work, "contents"), place, dirs_exist_ok=True)
    before = names(place)
    if mode == "ro":
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    os.chdir(place)
    ended = [run(command) for command in commands]
    print(json.dumps({"ended": ended, "litter": sorted(names(place) - before)}))


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


if __name__ == "__main__":
    start(*sys.argv[1:])
