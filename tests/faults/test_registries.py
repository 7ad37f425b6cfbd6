"""Pulls that are killed, interrupted, without room or not allowed to write, at every call that
does; and pushes that are killed at every request."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aotc.commands.registry.bundle_push import push
from aotc_runtime.system.streamed_bundle import open_streamed
from tests.faults.registry_sweep import there
from tests.memory_files import folder_in_memory
from tests.registries.conftest import GOLDEN, LAYERS
from tests.registries.oci_server import Handler, OciServer
from tests.waiting import started

REPO = "models/layers"
SWEEP = [sys.executable, "-m", "tests.faults.registry_sweep"]


@pytest.fixture
def server() -> Iterator[OciServer]:
    running = OciServer()
    yield running
    running.close()


@pytest.fixture
def place(server: OciServer) -> str:
    with there(f"oci://{server.address}/{REPO}") as repository:
        return str(push(open_streamed(LAYERS), repository, None, 0.0).place)


def swept(what: str, fault: str, place: str, tmp_path: Path) -> list[dict[str, Any]]:
    with folder_in_memory(tmp_path) as folder:
        command = [*SWEEP, what, fault, place, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    # A Ctrl-C that meets a finalizer is told by Python, which goes on: the command ends with 0.
    within_finalizer = fault == "INTERRUPT" and done.stderr.startswith("Exception ignored in")
    assert done.returncode == 0 and (within_finalizer or not done.stderr), done.stderr
    records: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(records) >= 10
    for record in records:
        assert record["state"] in ("none", "new"), record
        assert (record["again"], record["then"], record["left"]) == (0, "new", []), record
    return records


WHAT = ("file", "folder", "store")


@pytest.mark.parametrize("what", WHAT)
def test_killed_pull_leaves_nothing_or_all_of_it(what: str, place: str, tmp_path: Path) -> None:
    records = swept(what, "KILL", place, tmp_path)
    assert {record["code"] for record in records} <= {-9, 0}
    assert {record["state"] for record in records} == {"none", "new"}, "each was met"
    assert any(record["litter"] for record in records)


@pytest.mark.parametrize("what", WHAT)
def test_ctrl_c_leaves_nothing_or_all_of_it(what: str, place: str, tmp_path: Path) -> None:
    for record in swept(what, "INTERRUPT", place, tmp_path):
        assert record["code"] in (0, 130), record
        if what != "store":  # which keeps what is there of a blob, for the next pull
            assert record["litter"] == [], record


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("fault", ["FULL", "READ_ONLY"])
def test_unwritable_place_is_an_error(what: str, fault: str, place: str, tmp_path: Path) -> None:
    records = swept(what, fault, place, tmp_path)
    for record in records:
        assert (record["said"] != "") == (record["code"] != 0), record
        assert record["said"] in ("", "AOTC-E003", "AOTC-E560"), record
        if record["code"] == 0:
            assert record["state"] == "new", record
    assert sum(record["code"] != 0 for record in records) > 3


def test_killed_push_leaves_tag_and_can_be_repeated(server: OciServer, tmp_path: Path) -> None:
    place = f"oci://{server.address}/{REPO}:live"
    with there(place) as repository:
        push(open_streamed(GOLDEN / "digits.aotb"), repository, None, 0.0)
    old = server.manifests[REPO, "live"]
    before = dict(server.blobs), dict(server.manifests)
    victim, left = 0, 0

    def kill(handler: Handler) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(victim, signal.SIGKILL)
        return False

    server.faults.append(kill)
    command = [*SWEEP, "push", str(LAYERS), place]
    met = set()
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdin and driver.stdout

        def pushed(at: int) -> int:
            nonlocal victim, left
            assert driver.stdin and driver.stdout
            driver.stdin.write("\n")
            driver.stdin.flush()
            victim, left = int(driver.stdout.readline()), at
            os.kill(victim, signal.SIGCONT)
            return int(driver.stdout.readline())

        code, at = -signal.SIGKILL, 0
        while code == -signal.SIGKILL:
            at += 1
            server.blobs.clear()
            server.manifests.clear()
            server.blobs.update(before[0])
            server.manifests.update(before[1])
            code = pushed(at)
            found = server.manifests[REPO, "live"]
            met.add(found == old)
            if found != old:
                whole(server, found[0])
            assert code == 0 or pushed(0) == 0
            whole(server, server.manifests[REPO, "live"][0])
        driver.stdin.close()
    assert at > 10 and met == {True, False}


def whole(server: OciServer, index: bytes) -> None:
    """All that a bundle's index names is there."""
    for entry in json.loads(index)["manifests"]:
        manifest = json.loads(server.manifests[REPO, entry["digest"]][0])
        for each in (manifest["config"], *manifest["layers"]):
            assert (REPO, each["digest"]) in server.blobs
