"""Nothing of a command goes on when the command was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

import aotc

ROOT = Path(aotc.__path__[0])

ENDING = "answer("
"""Of `aotc.base.workers.worker_child`."""

OTHERS = {
    "cli/main.py": "the command itself",
    "base/foreign_python.py": "asks the system for the same before it becomes the command",
    "base/workers/zygote.py": "asks the system for the same before it forks a worker",
    "commands/import_tensorflow/tensorflow_exporter.py": (
        "runs without aotc: asks the system for the same itself"
    ),
    "commands/record_expected/model_recorder.py": (
        "runs without aotc: asks the system for the same itself"
    ),
}

WORKERS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in ROOT.rglob("*.py")
    if '__name__ == "__main__"' in path.read_text()
)


@pytest.mark.parametrize("module", [name for name in WORKERS if name not in OTHERS])
def test_a_worker_process_ends_with_the_process_that_started_it(module: str) -> None:
    text = (ROOT / module).read_text()
    assert "from aotc.base.workers.worker_child import" in text and ENDING in text


def test_every_exception_is_still_there() -> None:
    assert set(OTHERS) <= set(WORKERS)
