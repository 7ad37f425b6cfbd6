"""Fresh processes that answer with one line of JSON and stay until they are told to end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python process that prints one line and waits for its standard input to end."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> Any:
    """Return what the process printed."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.strip():
        raise SystemExit(f"a process failed with exit status {process.wait()}")
    return json.loads(line)


def finish(processes: Sequence[subprocess.Popen[str]]) -> None:
    """End them."""
    for process in processes:
        process.communicate()


def status(process: subprocess.Popen[str]) -> dict[str, int]:
    """The kernel's account of a process' memory, in bytes by name (VmHWM, RssAnon, ...)."""
    text = Path(f"/proc/{process.pid}/status").read_text("utf-8")
    return {name: int(kib) * 1024 for name, kib in re.findall(r"(\w+):\s+(\d+) kB", text)}


def mapped(process: subprocess.Popen[str], path: Path) -> dict[str, int]:
    """Resident (Rss) and proportional (Pss) bytes of a file's maps in a process."""
    found = {"Rss": 0, "Pss": 0}
    inside = False
    for line in Path(f"/proc/{process.pid}/smaps").read_text("utf-8").splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(str(path.resolve()))
        elif inside and (name := line.partition(":")[0]) in found:
            found[name] += int(line.split()[1]) * 1024
    return found
