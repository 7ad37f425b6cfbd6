"""Nothing of a command goes on when the command was killed."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import aotc
from aotc.base.foreign_python import _Confined
from aotc.base.workers.confined_process import ProcessLimits

ROOT = Path(aotc.__path__[0])

ENDING = "answer("
"""Of `aotc.base.workers.worker_child`."""

OTHERS = {
    "cli/main.py": "the command itself",
    "base/foreign_python.py": "asks the system for the same before it becomes the command",
    "base/workers/zygote.py": "asks the system for the same before it forks a worker",
    "commands/import_tensorflow/tensorflow_exporter.py": (
        "runs without aotc: aotc.base.foreign_python asks the system for the same"
    ),
    "commands/record_expected/model_recorder.py": (
        "runs without aotc: aotc.base.foreign_python asks the system for the same"
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


def test_a_script_of_a_framework_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys, time\nprint(sys.argv[1], flush=True)\ntime.sleep(60)\n")
    confined = _Confined(ProcessLimits.from_env(2**30, str(tmp_path)), ())
    limits = msgspec.json.encode(confined).decode()
    own = [sys.executable, "-m", "aotc.base.foreign_python", limits]
    command = [*own, sys.executable, "-I", str(script), "job"]
    parent = f"import subprocess; subprocess.run({command!r}, check=False)"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"job\n"
        process.kill()
        assert process.stdout.read() == b"", "the script's end of the pipe closes"
