"""Bundles with much to hash and copy: each byte is hashed once, and a terminal shows how far it
is.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from aotc.bundle.sign.bundle_signing import endorse
from aotc.bundle.sign.signer import LocalSigner, generate_key_pair
from aotc.bundle.trust.trust_text import policy_text
from aotc.bundle.write.bundle_writer import Form
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.commands.extract.extracted_bundle import extract
from aotc.commands.merge.merged_bundle import merge_bundles
from aotc_runtime.base import digest
from aotc_runtime.base.digest import chunks_of
from aotc_runtime.base.errors import IntegrityError
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.streamed_bundle import open_streamed
from tests.conftest import Once
from tests.waiting import SECONDS

ONE, OTHER = "cpu-x86-64-v3", "cpu-x86-64-v2"

MANIFEST = f"""
schema = 1
name = "large"
version = "1.0.0"
targets = ["{ONE}", "{OTHER}"]
[weights.params]
source = "w.safetensors"
[entry_points.f]
function = "program:f"
bind = {{ params = "params" }}
inputs.x = {{ like = "program:x" }}
"""
# Weights are hashed while fixtures are made, and a build looks twice a second how far they are: the
# fixture takes longer than that, so that it cannot miss them.
PROGRAM = """import time
import jax.numpy as jnp
def f(params, x):
    return x + params['a'][0, :4] + params['b'][0, :4]
def x():
    time.sleep(1.2)
    return jnp.ones(4)
"""
SHARD_BYTES = 34 * 2**20


def aotc(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-P", "-m", "aotc.cli.main", *map(str, arguments)]


def on_a_terminal(folder: Path, *arguments: str | Path) -> str:
    """Return what a command writes to a terminal, once it has succeeded."""
    ours, its = os.openpty()
    seen: list[bytes] = []

    def read() -> None:
        while True:
            try:
                data = os.read(ours, 2**16)
            except OSError:  # nobody has the other end any more
                return
            seen.append(data)

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    try:
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        subprocess.run(
            aotc(*arguments),
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=its,
            timeout=SECONDS,
            check=True,
            env=environment,
        )
    finally:
        os.close(its)
    reading.join(SECONDS)
    os.close(ours)
    return b"".join(seen).decode()


@pytest.fixture(scope="module")
def built(once: Once) -> Path:
    """A folder with a bundle of 68 MiB for two targets, and what its build showed on a terminal."""

    def fill(folder: Path) -> None:
        chance = np.random.default_rng(0)
        tensors = {name: chance.random((SHARD_BYTES // 4096, 1024), np.float32) for name in "ab"}
        (folder / "w.safetensors").write_bytes(write_tensors(tensors, where="weights"))
        (folder / "large.toml").write_text(MANIFEST)
        (folder / "program.py").write_text(PROGRAM)
        key = generate_key_pair(folder / "ci", None)
        (folder / "trust.toml").write_text(policy_text("large", [key.public.read_text()]))
        options = ("--cache", "off", "-o", "both.aotb", "--key", "ci.key")
        on_a_terminal(folder, "build", "large.toml", *options)

    return once("large", fill)


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    for name in ("both.aotb", "ci.key", "trust.toml"):
        os.link(built / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Bytes of large data that were hashed, by digest."""
    found: Counter[str] = Counter()
    take = digest._sha256_of

    def counting(data: Iterator[bytes | memoryview]) -> bytes:
        size = 0

        def counted() -> Iterator[bytes | memoryview]:
            nonlocal size
            for piece in data:
                size += len(piece)
                yield piece

        result = take(counted())
        if size >= 2**20:
            found[result.hex()] += 1
        return result

    monkeypatch.setattr(digest, "_sha256_of", counting)
    return found


def shards(bundle: Path) -> list[str]:
    source = open_streamed(bundle)
    return [d[7:] for d in source.digests() if len(source.blob(d) or b"") > 2**20]


COUNTED = r"\d+(\.\d)?/\d+(\.\d)? MB|\d+\.\d [kM]?B of \d+\.\d MB"


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "both.aotb", "--trust", "trust.toml", "--target", OTHER),
        ("sign", "both.aotb", "--key", "new.key"),
        ("extract", "both.aotb", "--target", ONE, "-o", "one.aotb"),
        ("merge", "one.aotb", "two.aotb", "-o", "m.aotb", "--trust", "trust.toml"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_terminal_shows_hash_and_copy_progress(folder: Path, arguments: tuple[str, ...]) -> None:
    if arguments[0] == "sign":
        generate_key_pair(folder / "new", None)
    if arguments[0] == "merge":
        for name, target in (("one", ONE), ("two", OTHER)):
            source = open_streamed(folder / "both.aotb")
            extract(source, [target], folder / f"{name}.aotb", Form.ARCHIVE)
    shown = on_a_terminal(folder, *arguments)
    assert re.search(rf"(hash|copy)\b.*({COUNTED})", shown), shown[-2000:]


def test_without_a_terminal_and_for_machines_there_is_nothing_of_it(folder: Path) -> None:
    for more in ((), ("--json",)):
        command = aotc("verify", "both.aotb", "--trust", "trust.toml", "--target", OTHER, *more)
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=SECONDS
        )
        assert done.stderr == ""
    shown = on_a_terminal(folder, "extract", "both.aotb", "--target", ONE, "-o", "o.aotb", "--json")
    assert "copy" not in shown


def test_signing_hashes_each_shard_once(folder: Path, hashed: Counter[str]) -> None:
    signer = LocalSigner.ephemeral()
    for added in (True, False):  # what is there already is looked at all the same
        assert endorse(folder / "both.aotb", signer).added is added
        assert [hashed[shard] for shard in shards(folder / "both.aotb")] == [1, 1]
        hashed.clear()


def test_extract_and_sign_hash_each_shard_once(folder: Path, hashed: Counter[str]) -> None:
    extract(open_streamed(folder / "both.aotb"), [ONE, OTHER], folder / "layout", Form.LAYOUT)
    assert [hashed[shard] for shard in shards(folder / "layout")] == [1, 1]
    hashed.clear()
    endorse(folder / "layout", LocalSigner.ephemeral())
    assert [hashed[shard] for shard in shards(folder / "layout")] == [1, 1]


def test_merging_hashes_each_shard_of_each_input_once(folder: Path, hashed: Counter[str]) -> None:
    for name, target in (("one", ONE), ("two", OTHER)):
        extract(open_streamed(folder / "both.aotb"), [target], folder / name, Form.ARCHIVE)
    hashed.clear()
    paths = [folder / "one", folder / "two"]
    merge_bundles(paths, folder / "m.aotb", Form.ARCHIVE, None, None, datetime.now(UTC))
    # Both hold the same shards: of one the copy is hashed, of the other what is copied nowhere.
    assert [hashed[shard] for shard in shards(folder / "m.aotb")] == [2, 2]


@pytest.fixture
def damaged(folder: Path) -> Path:
    """The bundle with another last byte in one of its shards."""
    path = Path(shutil.copyfile(folder / "both.aotb", folder / "damaged.aotb"))
    view = bytes(
        next(iter(chunks_of(open_streamed(path).blob("sha256:" + shards(path)[0]) or b"")))
    )
    data = path.read_bytes()
    at = data.index(view[-64:])
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([data[at] ^ 1]))
    return path


@pytest.mark.parametrize("command", ["sign", "extract", "extract the other", "merge"])
def test_damaged_shard_is_named_nothing_written(folder: Path, damaged: Path, command: str) -> None:
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    with pytest.raises(IntegrityError) as refused:
        if command == "sign":
            endorse(damaged, LocalSigner.ephemeral())
        elif command == "merge":
            now = datetime.now(UTC)
            merge_bundles([damaged], folder / "new", Form.ARCHIVE, None, None, now)
        else:
            target = ONE if command == "extract" else OTHER
            extract(open_streamed(damaged), [target], folder / "new", Form.ARCHIVE)
    (found,) = refused.value.findings
    assert found.code == "AOTC-E201" and found.where.startswith(str(damaged))
    assert oci_layout.WEIGHTS_TYPE in found.where
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == before
