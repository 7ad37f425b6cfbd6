"""Pushes and pulls that are killed at any moment, beside others of the same bundle."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aotc.bundle.write.bundle_writer import Form
from aotc_runtime.system.streamed_bundle import look_into
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import ROOT
from tests.registries.conftest import GOLDEN, REPO, TAG, Registry

DIGITS = GOLDEN / "digits.aotb"
ROUNDS = 6

SCRIPT = """
import sys
import time
from pathlib import Path
from aotc.bundle.write.bundle_writer import Form
from aotc.commands.registry.bundle_pull import pull
from aotc.commands.registry.bundle_push import push
from aotc_runtime.system.streamed_bundle import look_into
from aotc_serve.oci.oci_references import parse
from aotc_serve.oci.registry_client import Repository
what, place, path, form = sys.argv[1:]
with Repository(parse(place)) as there:
    print("started", flush=True)
    if what == "push":
        push(look_into(Path(path)), there, None, time.time())
    else:
        pull(there, Path(path), Form[form])
"""


def started(
    what: str, place: str, path: Path, form: Form = Form.ARCHIVE
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", SCRIPT, what, place, str(path), form.name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None and process.stdout.readline() == b"started\n"
    return process


def ended(process: subprocess.Popen[bytes], after: float | None = None) -> int:
    """Kill it after so many seconds, or wait for its end. Return its status."""
    if after is not None:
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    return process.returncode


def require_whole(path: Path) -> None:
    """Require that every blob of a bundle is there and has its digest."""
    read_unverified(look_into(path))


@pytest.mark.parametrize("form", list(Form))
def test_killed_pulls_leave_whole_or_none(form: Form, registry: Registry, tmp_path: Path) -> None:
    registry.push(DIGITS)
    place, path = f"oci://{registry.server.address}/{TAG}", tmp_path / "back"
    moments = random.Random(0)
    for _ in range(ROUNDS):
        pulls = [started("pull", place, path, form) for _ in range(2)]
        for pull in pulls:
            ended(pull, moments.uniform(0, 0.03))
        if path.exists():
            require_whole(path)
    assert [ended(started("pull", place, path, form)) for _ in range(2)] == [0, 0]
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_killed_pushes_leave_whole_bundle_or_no_tag(registry: Registry, tmp_path: Path) -> None:
    server, moments = registry.server, random.Random(0)
    place = f"oci://{server.address}/{TAG}"
    for _ in range(ROUNDS):
        pushes = [started("push", place, DIGITS) for _ in range(2)]
        for push in pushes:
            ended(push, moments.uniform(0, 0.03))
        if (REPO, "1.0.0") in server.manifests:
            registry.pull(tmp_path / "back.aotb")
            server.manifests.pop((REPO, "1.0.0"))
    both = [started("push", place, DIGITS) for _ in range(2)]
    assert [ended(push) for push in both] == [0, 0]
    registry.pull(tmp_path / "back.aotb")
    assert (tmp_path / "back.aotb").read_bytes() == DIGITS.read_bytes()
