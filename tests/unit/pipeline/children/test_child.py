"""Child processes that run the user's code: how their crashes are told."""

import os
from pathlib import Path

import pytest

from aotc.base.child_processes import Processes
from aotc.base.errors import CaptureError
from aotc.base.workers import worker_parent
from aotc.pipeline.children.program_worker import Job
from aotc.pipeline.user_processes import crash_refused
from tests.refusals import error_of


def run(worker: str, folder: Path) -> None:
    """Run a module with this source as a worker."""
    (folder / "a_worker.py").write_text(worker)
    with crash_refused("AOTC-E835", "the capture process", None):
        worker_parent.run(
            worker_parent.module("aotc.pipeline.children.program_worker"),
            Job("a_worker", str(folder), b""),
            type(None),
            within=folder,
            environment=dict(os.environ) | {"PYTHONPATH": str(folder)},
            processes=Processes(),
        )


FULL_DISK = """
import resource, signal
from pathlib import Path

def work(scratch, program, progress):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    Path(scratch.folder, "result").write_bytes(b"x")
"""


def test_child_without_room_to_say_so_is_understood(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device"):
        run(FULL_DISK, tmp_path)


def test_lines_that_a_child_said_are_indented_only_for_people(tmp_path: Path) -> None:
    caught = error_of(CaptureError, run, "def work(*_): raise RuntimeError('boom')", tmp_path)
    (finding,) = caught.findings
    assert (finding.code, finding.where) == ("AOTC-E835", "the capture process")
    said = finding.to_json()["found"].splitlines()[1:]
    assert len(said) > 1 and all(line.startswith("| ") for line in said)
    assert "\n            | RuntimeError: boom\n" in str(caught)


def test_a_file_that_was_cut_while_it_was_mapped_is_asked_for(tmp_path: Path) -> None:
    """As an .npz file is, for its checksums."""
    cut = """
import mmap
from pathlib import Path

def work(scratch, program, progress):
    path = Path(scratch.folder, "file")
    path.write_bytes(bytes(2**16))
    with path.open("r+b") as file:
        data = mmap.mmap(file.fileno(), 0)
        file.truncate(10)
        data[2**15]
"""
    (finding,) = error_of(CaptureError, run, cut, tmp_path).findings
    assert "SIGBUS" in finding.found and "no other program writes" in finding.hint
