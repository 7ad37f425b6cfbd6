"""Command lines of aotc in a file system of their own, which is small or read-only:
`python -m tests.faults.mounted SIZES MODE`, with (work folder, command lines) as JSON on stdin.

Run in namespaces of its own (unshare(1)), where mounting needs no rights and nobody else sees it.
Prints, for each of the sizes, which do not decrease, what each command line ended with, and the
names that lie there afterwards.
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from aotc.cli.main import main

UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def run(arguments: list[str]) -> tuple[int, dict[str, Any]]:
    """One command line in this process: its exit code and the document it printed."""
    sys.argv = ["aotc", *arguments, "--json"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            main()
        except SystemExit as stopped:
            assert isinstance(stopped.code, int)
            return stopped.code, json.loads(printed.getvalue())
    raise AssertionError("a command ends the process")


def start(sizes: str, mode: str) -> None:
    work, commands = json.load(sys.stdin)
    place = Path(work, "mounted")
    place.mkdir()
    first, *_ = sizes.split(",")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={first}", "none", place], check=True)
    shutil.copytree(Path(work, "contents"), place, dirs_exist_ok=True)
    before = names(place)
    os.chdir(place)
    answers = []
    for size in sizes.split(","):
        subprocess.run(["mount", "-o", f"remount,{mode},size={size}", place], check=True)
        ended = [dict(zip(("code", "document"), run(each), strict=True)) for each in commands]
        answers.append({"ended": ended, "litter": sorted(names(place) - before)})
    print(json.dumps(answers))


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


if __name__ == "__main__":
    start(*sys.argv[1:])
