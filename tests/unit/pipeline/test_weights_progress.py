"""How far a build says it is with weights."""

from __future__ import annotations

import os
from concurrent.futures import Future
from pathlib import Path

from aotc.capture.file_digests import digest_of_open
from aotc.config.build_manifest import read_build_manifest
from aotc.pipeline.scratch_folder import Scratch
from aotc.pipeline.weights_progress import waited_for

SIZE = 80 * 2**20
MANIFEST = """schema = 1
name = "x"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
[weights.params]
source = "weights.safetensors"
[entry_points.f]
function = "program:f"
bind = { params = "params" }
inputs.x = { shape = [4], dtype = "float32" }
"""


def test_what_is_hashed_counts_and_then_what_is_written(tmp_path: Path) -> None:
    source, scratch = tmp_path / "weights.safetensors", Scratch(tmp_path / "scratch")
    source.touch()
    os.truncate(source, SIZE)
    (tmp_path / "x.toml").write_text(MANIFEST)
    (tmp_path / "scratch" / "weights.params").mkdir(parents=True)
    captured = Future[str]()
    seen: list[tuple[str, int, int]] = []

    def on_stage(stage: str, done: int, total: int) -> None:
        seen.append((stage, done, total))
        if done == SIZE:
            shard = tmp_path / "scratch" / "weights.params" / "000000"
            shard.touch()
            os.truncate(shard, 30)
        elif not captured.done():
            captured.set_result("program")

    with source.open("rb") as file, scratch.hashing_weights() as told:
        digest_of_open(file, told)
    manifest = read_build_manifest(tmp_path / "x.toml")
    assert waited_for(captured, scratch, manifest, on_stage) == "program"
    total = 2 * SIZE
    assert seen == [("weights", done, total) for done in (SIZE, SIZE + 30, total)]


def test_nothing_was_hashed_before_anything_was(tmp_path: Path) -> None:
    assert Scratch(tmp_path).weights_hashed() == 0
