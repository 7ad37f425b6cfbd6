"""Servers of caches, in processes of their own."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Serve = Callable[[str, Path, str], str]
"""A script beside this file, where it keeps its files, and its mode, to the HOST:PORT it serves."""


@pytest.fixture
def serve() -> Iterator[Serve]:
    running = []

    def start(script: str, folder: Path, mode: str) -> str:
        command = [sys.executable, str(Path(__file__).with_name(script)), str(folder), mode]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        return f"127.0.0.1:{process.stdout.readline().strip()}"

    yield start
    for process in running:
        process.kill()
        process.communicate()
