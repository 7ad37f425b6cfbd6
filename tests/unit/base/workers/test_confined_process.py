"""Tests of the sandbox of processes for model files, from inside."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from aotc.base.errors import UsageError
from aotc.base.workers import confined_process, worker_environment
from aotc.base.workers.confined_process import MEMORY_VARIABLE, SECONDS_VARIABLE, ProcessLimits
from tests.running import printed

TRIES = """
import json, os, resource, socket, sys
from aotc.base.workers import confined_process as apart
key, folder, above, without, device = sys.argv[1:6]
if without:
    def missing(hidden, folder):
        raise OSError(38, "not here")
    apart._landlock = missing
apart.keep_secret(key)
said = apart.begin(apart.ProcessLimits(2**30, 0, 30, folder))

def tried(work):
    try:
        return repr(work())
    except (OSError, MemoryError) as error:
        return type(error).__name__

def read(path):
    with open(path, "rb") as file:
        return file.read(6)

def moved():
    os.rename(key, folder + "/moved")
    return read(folder + "/moved")

def linked():
    os.link(key, folder + "/linked")
    return read(folder + "/linked")

def told():
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    os.execv(sys.executable, [sys.executable, "-c", f"print(open({key!r}).read()); exit(7)"])

found = {
    "said": said,
    "key": tried(lambda: read(key)),
    "link": tried(lambda: read(folder + "/link")),
    "moved": tried(moved),
    "linked": tried(linked),
    "memory of the parent": tried(lambda: read(f"/proc/{above}/mem")),
    "variables of the parent": tried(lambda: read(f"/proc/{above}/environ")),
    "by the parent": tried(lambda: read(f"/proc/{above}/root{key}")),
    "beside": tried(lambda: read(folder + "/beside")),
    "socket": tried(lambda: socket.socket().close()),
    "much": tried(lambda: len(bytearray(2**40))),
    "more than it may": tried(lambda: len(bytearray(2**32 + 2**30))),
    "little": tried(lambda: len(bytearray(2**20))),
    "elsewhere": tried(lambda: open(key + ".more", "w").close()),
    "overwritten": tried(lambda: open(folder + "/../others", "r+").close()),
    "removed": tried(lambda: os.remove(folder + "/../others")),
    "shared": tried(lambda: os.rename(folder + "/beside", folder + "/below/beside")),
    "device": tried(lambda: read(device)),
    "device changed": tried(lambda: open(device, "r+").close()),
    "link made": tried(lambda: os.symlink(key, folder + "/model")),
    "pipe made": tried(lambda: os.mkfifo(folder + "/pipe")),
    "discarded": tried(lambda: open("/dev/null", "w").close()),
    "made": tried(lambda: open(folder + "/made", "w").close()),
    "seconds": resource.getrlimit(resource.RLIMIT_CPU)[0] <= 31 * len(os.sched_getaffinity(0)),
}
print(json.dumps(found))
"""


def tried(folder: Path, *, without_landlock: bool = False) -> dict[str, Any]:
    inside = folder / "work"
    inside.mkdir()
    key = folder / "keys" / "release.key"
    key.parent.mkdir()
    key.write_text("secret")
    (inside / "link").symlink_to(key)
    (inside / "beside").write_text("others")
    (inside / "below").mkdir()
    (folder / "others").write_text("others")
    arguments = [str(key), str(inside), str(os.getpid()), "x" if without_landlock else ""]
    # Shared memory stands for a disk, which only root could read anyway.
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as device:
        said = printed(TRIES, *arguments, device.name)
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    assert "secret" not in said
    assert (key.read_text() if key.exists() else "secret") == "secret"
    return found


def require_kept_apart(found: dict[str, Any]) -> None:
    hidden = ("key", "link", "moved", "linked", "by the parent")
    assert {found[name] for name in hidden} <= {"PermissionError", "OSError", "b''"}
    assert found["memory of the parent"] == found["variables of the parent"] == "PermissionError"
    assert found["socket"] == "PermissionError"
    assert found["much"] == found["more than it may"] == "MemoryError"
    assert (found["beside"], found["little"], found["made"]) == ("b'others'", "1048576", "None")
    assert found["seconds"]
    assert found["shared"] == found["discarded"] == "None"


def test_model_file_process_is_limited_without_keys_or_network(tmp_path: Path) -> None:
    found = tried(tmp_path)
    if any("not kept away here" in line for line in found["said"]):
        pytest.skip("; ".join(found["said"]))
    require_kept_apart(found)
    refused = ("elsewhere", "overwritten", "removed", "device", "device changed")
    refused += ("link made", "pipe made")
    assert {found[name] for name in refused} == {"PermissionError"}


def test_without_landlock_the_key_lies_behind_a_mount(tmp_path: Path) -> None:
    found = tried(tmp_path, without_landlock=True)
    if any("not kept away here" in line for line in found["said"]):
        pytest.skip("; ".join(found["said"]))
    assert "files: no keys are read (a mount namespace)" in found["said"]
    require_kept_apart(found)


def test_missing_confinement_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise OSError(38, "Function not implemented")

    held = confined_process._apply({"files": missing, "network": lambda: "no sockets"})
    assert held == ("files: not kept away here (Function not implemented)", "network: no sockets")


def test_limits_come_from_machine_or_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MEMORY_VARIABLE, raising=False)
    monkeypatch.delenv(SECONDS_VARIABLE, raising=False)
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert ProcessLimits.from_env(5, "f") == ProcessLimits(whole, 5, 3600, "f")
    monkeypatch.setenv(MEMORY_VARIABLE, "3 GiB")
    monkeypatch.setenv(SECONDS_VARIABLE, "70")
    assert ProcessLimits.from_env(5, "f") == ProcessLimits(3 * 2**30, 5, 70, "f")
    for variable, wrong in ((MEMORY_VARIABLE, "3 x"), (SECONDS_VARIABLE, "-1")):
        monkeypatch.setenv(variable, wrong)
        with pytest.raises(UsageError):
            ProcessLimits.from_env(5, "f")
        monkeypatch.delenv(variable)


def test_no_child_is_told_what_opens_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in worker_environment.SECRET:
        monkeypatch.setenv(name, "secret")
    children = (
        worker_environment.clean({}),
        worker_environment.inherit(without=()),
        worker_environment.bare(),
    )
    assert all("secret" not in child.values() for child in children)
