"""Full and read-only file systems, and limits of the size of files."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle.sign.signer import KeyType, generate_key_pair
from aotc.bundle.trust.trust_text import write_policy
from tests.conftest import Bundle
from tests.running import python

from .mounted import UNSHARE, run
from .tiny import MANIFEST, PROGRAM


def can_mount() -> bool:
    if not shutil.which("unshare"):
        return False
    command = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(
    not can_mount(), reason="this system lets nobody mount in a namespace of their own"
)


def mounted(
    work: Path, sizes: str, mode: str, commands: Sequence[Sequence[str]], **environment: str
) -> list[dict[str, Any]]:
    """The commands in a file system with the contents of `work/contents`, for each of the sizes."""
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-m", "tests.faults.mounted", sizes, mode],
        input=json.dumps([str(work), commands]),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


WRITING = (
    ("build", "tiny.toml"),
    ("build", "tiny.toml", "--layout", "folder"),
    ("build", "tiny.toml", "-o", "b.aotb", "--tune", "--save-tuning", "tuning.json"),
    ("sign", "b.aotb", "--key", "p256.key"),
    ("keygen", "new", "--plain"),
    ("trust", "init", "--key", "p256.pub", "--name", "x", "-o", "new.toml"),
    ("trust", "add-key", "trust.toml", "--key", "p256.pub"),
    ("trust", "revoke", "trust.toml", "--key", "ci.pub"),
    ("run", "b.aotb", "predict", "--trust", "genuine.toml", "--output", "x.npz"),
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a small program in `contents`."""
    contents = tmp_path / "contents"
    contents.mkdir()
    (contents / "tiny.py").write_text(PROGRAM)
    (contents / "tiny.toml").write_text(MANIFEST)
    return tmp_path


@needs_mounts
def test_writing_commands_name_read_only_places(work: Path, digits_bundle: Bundle) -> None:
    contents = work / "contents"
    shutil.copyfile(digits_bundle[0], contents / "b.aotb")
    shutil.copyfile(digits_bundle[1], contents / "genuine.toml")
    generate_key_pair(contents / "ci", None)
    generate_key_pair(contents / "p256", None, KeyType.ECDSA_P256)
    write_policy(contents / "trust.toml", "digits", [contents / "ci.pub"], 1)
    (answer,) = mounted(work, "10m", "ro", WRITING)
    for command, ended in zip(WRITING, answer["ended"], strict=True):
        (finding,) = ended["document"]["findings"]
        assert (finding["code"], ended["code"]) == ("AOTC-E003", 2), (command, finding)
        assert finding["found"] == "Read-only file system", (command, finding)
    assert answer["litter"] == []


@needs_mounts
def test_without_room_for_a_second_result_there_is_no_first_one(work: Path) -> None:
    build = ["build", "tiny.toml", "-o", str(work / "tiny.aotb"), "--sbom", "bill.json"]
    (answer,) = mounted(work, "12k", "rw", [build], PYTHONDONTWRITEBYTECODE="1")
    (ended,) = answer["ended"]
    (finding,) = ended["document"]["findings"]
    assert (finding["code"], finding["where"], ended["code"]) == ("AOTC-E003", "bill.json", 2)
    assert finding["found"] == "No space left on device"
    assert answer["litter"] == [] and not (work / "tiny.aotb").exists()


SIZES = """
[dimensions.batch]
range = [1, 64]
profiles = [1, 64]
[entry_points.g]
function = "tiny:f"
inputs.x = { shape = ["batch"], dtype = "float32" }
out_of_profile = { batch = "pad" }
fixtures.seed = 0
"""


@needs_mounts
def test_without_room_for_the_manifest_nothing_is_left(work: Path) -> None:
    contents = work / "contents"
    (contents / "tiny.toml").write_text(MANIFEST + SIZES, encoding="utf-8")
    (contents / "log.jsonl").write_text('{"batch": 9}\n' * 9, encoding="utf-8")
    command = ["profiles", "suggest", "tiny.toml", "--traffic", "log.jsonl"]
    writing = [*command, "--entry", "g", "--write"]
    (answer,) = mounted(work, "12k", "rw", [writing], PYTHONDONTWRITEBYTECODE="1")
    (ended,) = answer["ended"]
    (finding,) = ended["document"]["findings"]
    assert (finding["code"], Path(finding["where"]).name) == ("AOTC-E003", "tiny.toml")
    assert answer["litter"] == []


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
from aotc.cli.main import main
main()
"""

TEMPORARY = "the directory for temporary files"


@pytest.mark.parametrize(
    ("limit", "where"),
    [
        pytest.param(0, TEMPORARY, id="before it begins"),
        pytest.param(100_000, TEMPORARY, id="in the capture"),
        pytest.param(200_000, TEMPORARY, id="in plain JAX"),
        pytest.param(330_000, "tiny.aotb", id="in the bundle"),
    ],
)
def test_a_build_that_may_write_no_large_file_says_so_and_leaves_nothing(
    limit: int, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.py").write_text(PROGRAM)
    (tmp_path / "tiny.toml").write_text(MANIFEST)
    temporary, output = tmp_path / "temporary", tmp_path / "tiny.aotb"
    temporary.mkdir()
    cache = tmp_path / "cache"
    arguments = ["build", "tiny.toml", "-o", str(output), "--cache", str(cache)]

    variables = {"TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    done = python("-c", LIMITED, limit, *arguments, "--json", folder=tmp_path, **variables)
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["code"], done.returncode) == ("AOTC-E003", 2), finding
    assert finding["where"] == (where if where == TEMPORARY else str(output))
    assert done.stderr == ""
    assert list(temporary.iterdir()) == [] and not output.exists()
    assert not list(cache.rglob(".*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    code, document = run(arguments)
    assert code == 0, document
    assert not [note for note in document["notes"] if "cache" in note]
