"""A build after a change of the code takes what it knows of weights, and does not read their files;
what it gives is what a clean build gives.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aotc.bundle.write.bundle_writer import Form
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.pipeline.build import Built, build
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_tasks import Kind
from tests.page_cache import forget, read_of
from tests.waiting import until

MANIFEST = """
schema = 1
name = "weighty"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
[weights.params]
source = "w.safetensors"
[entry_points.f]
function = "program:f"
bind = { params = "params" }
inputs.x = { shape = [1, 1024], dtype = "float32" }
"""
PROGRAM = "import jax.numpy as jnp\ndef f(params, x):\n    return jnp.dot(x, params['a'])\n"
OTHER = PROGRAM.replace("jnp.dot(x, params['a'])", "jnp.dot(x, params['a']) + 1")

HEAD_BYTES = 2**20
"""More than the header of the file and what the system reads ahead of it."""


class Project:
    """A program with 24 MiB of weights, and a cache."""

    def __init__(self, folder: Path) -> None:
        self.root, self.cache = folder / "project", folder / "cache"
        self.weights = self.root / "w.safetensors"

    def begin(self) -> None:
        self.root.mkdir(parents=True)
        (self.root / "app.toml").write_text(MANIFEST)
        (self.root / "program.py").write_text(PROGRAM)
        self.write_weights(0)
        written = self.weights.stat().st_ctime
        # A file that was just written may be written again and have the same times.
        until(lambda: time.time() - written > 2, "the file to be old enough")

    def write_weights(self, seed: int) -> None:
        chance = np.random.default_rng(seed)
        tensors = {name: chance.random((1024, 1024), np.float32) for name in "abcdef"}
        self.weights.write_bytes(write_tensors(tensors, where="weights"))

    def build(self, *, cached: bool = True) -> Built:
        return build(
            self.root / "app.toml",
            output=self.root / ("out" if cached else "clean"),
            form=Form.LAYOUT,
            cache=LocalStore(self.cache, 10**9) if cached else None,
        )

    def shards(self) -> list[Path]:
        """Files of weights in the cache."""
        return sorted(path for path in (self.cache / "files").rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The program as it was built first, with a cache that was empty; each test goes on from what
    the one before it has left.
    """
    made = Project(tmp_path_factory.mktemp("weighty"))
    made.begin()
    made.build()
    return made


def ran(built: Built) -> set[Kind]:
    return {done.task.kind for done in built.tasks if not done.cached}


def test_after_a_change_of_code_nobody_reads_the_file(project: Project) -> None:
    (project.root / "program.py").write_text(OTHER)
    forget(project.weights)
    built = project.build()
    assert read_of(project.weights) < HEAD_BYTES
    assert {Kind.CAPTURE, Kind.REFERENCE, Kind.EXECUTABLE} <= ran(built)
    assert built.bundle.root_digest == project.build(cached=False).bundle.root_digest


def rewritten_with_its_old_time(file: Path) -> None:
    """Another byte; size, number and time of modification as they were."""
    before = file.stat()
    with file.open("r+b") as stream:
        stream.seek(-4, os.SEEK_END)
        stream.write(np.float32(7).tobytes())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_ino, after.st_mtime_ns) == (
        before.st_size,
        before.st_ino,
        before.st_mtime_ns,
    )


def weights_in(bundle: Path) -> set[bytes]:
    return {path.read_bytes() for path in (bundle / "blobs" / "sha256").iterdir()}


def test_a_file_with_other_bytes_and_its_old_size_and_time_is_read(project: Project) -> None:
    before = project.weights.read_bytes()
    try:
        rewritten_with_its_old_time(project.weights)
        project.build()
        changed = project.weights.read_bytes()[-(2**20) :]
        assert any(changed in blob for blob in weights_in(project.root / "out"))
    finally:
        project.weights.write_bytes(before)


def test_a_file_that_was_only_touched_is_hashed_and_not_cut_again(project: Project) -> None:
    shards = {path: path.stat().st_ino for path in project.shards()}
    os.utime(project.weights)
    (project.root / "program.py").write_text(PROGRAM + "# another comment\n")
    built = project.build()
    assert Kind.CAPTURE in ran(built)
    assert {path: path.stat().st_ino for path in project.shards()} == shards


def with_its_new_time(file: Path) -> None:
    rewritten_with_its_old_time(file)
    os.utime(file)


@pytest.mark.parametrize("damage", [with_its_new_time, rewritten_with_its_old_time])
def test_shards_that_somebody_has_damaged_are_cut_again(
    project: Project, damage: Callable[[Path], None]
) -> None:
    for shard in project.shards():
        damage(shard)
    (project.root / "program.py").write_text(f"{PROGRAM}# {damage.__name__}\n")
    built = project.build()
    assert built.bundle.root_digest == project.build(cached=False).bundle.root_digest
