"""Pushes and pulls beside others of the same bundle; tests/faults kills them at every step."""

import subprocess
import sys
from pathlib import Path

import pytest

from aotc.bundle.write.bundle_writer import Form
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import ROOT
from tests.registries.conftest import GOLDEN, TAG, Registry

DIGITS = GOLDEN / "digits.aotb"

SCRIPT = """
import sys
import time
from pathlib import Path
from aotc.bundle.write.bundle_writer import Form
from aotc.commands.registry.bundle_pull import pull
from aotc.commands.registry.bundle_push import push
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_serve.oci.oci_references import parse
from aotc_serve.oci.registry_client import Repository
what, place, path, form = sys.argv[1:]
with Repository(parse(place)) as there:
    print("started", flush=True)
    if what == "push":
        push(open_streamed(Path(path)), there, None, time.time())
    else:
        pull(there, Path(path), Form[form])
"""


def both(what: str, place: str, path: Path, form: Form = Form.ARCHIVE) -> list[int]:
    """Run it in two processes at once. Return their statuses."""
    command = [sys.executable, "-c", SCRIPT, what, place, str(path), form.name]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    return [process.wait(timeout=60) for process in processes]


@pytest.mark.parametrize("form", list(Form))
def test_parallel_pulls_leave_a_bundle(form: Form, registry: Registry, tmp_path: Path) -> None:
    registry.push(DIGITS)
    path = tmp_path / "back"
    assert both("pull", f"oci://{registry.server.address}/{TAG}", path, form) == [0, 0]
    read_unverified(open_streamed(path))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_parallel_pushes_leave_a_bundle(registry: Registry, tmp_path: Path) -> None:
    assert both("push", f"oci://{registry.server.address}/{TAG}", DIGITS) == [0, 0]
    registry.pull(tmp_path / "back.aotb")
    assert (tmp_path / "back.aotb").read_bytes() == DIGITS.read_bytes()
