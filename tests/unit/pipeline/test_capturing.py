"""What the reference depends on of the capture, by names for people."""

from __future__ import annotations

from pathlib import Path

from aotc.pipeline.capturing import _given
from aotc.pipeline.staging import Staging
from aotc_runtime.digest import sha256


def test_what_the_capture_left_has_names_for_people(tmp_path: Path) -> None:
    (tmp_path / "weights.model.params").mkdir()
    names = {
        "inputs.predict.0.safetensors": "fixture inputs of predict, profile 1",
        "results.predict.1.safetensors": "recorded results of predict, profile 2",
        "program.msgpack": "the captured program",
        "read.msgpack": "the list of files that the program read",
        "trials.msgpack": "the plan of calls to try",
        "weights.model.params/000001.safetensors": "weights model.params, part 2",
    }
    for name in (*names, "fixture.predict.0.safetensors"):
        (tmp_path / name).write_text(name)
    found = dict(_given(Staging(tmp_path)))
    assert found == {told: sha256(name.encode()) for name, told in names.items()}
