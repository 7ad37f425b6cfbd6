"""What the reference depends on of the capture, by names for people."""

from __future__ import annotations

from pathlib import Path

from aotc.base.stages import CapturedEntryPoint, CapturedProfile, CapturedProgram, Module
from aotc.pipeline.scratch_folder import Scratch
from aotc.pipeline.user_processes import _given
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.manifest_labels import executable_key
from aotc_runtime.schema.pytrees import Leaf

SIZES: tuple[dict[str, int], ...] = ({"n": 1}, {"n": 8})
MODULE = Module(b"", "sha256:", "1.0.0", ())
PREDICT = CapturedEntryPoint(
    name="predict",
    function="program:predict",
    parameters=(),
    inputs=(),
    result=Leaf(index=0),
    outputs=(),
    dimensions=("n",),
    bound={},
    static={},
    lifted=(),
    profiles=tuple(CapturedProfile(sizes, (), (), (), MODULE) for sizes in SIZES),
)
PROGRAM = CapturedProgram({"predict": PREDICT}, weights={"model.params": "init"}, sources={})


def test_what_the_capture_left_has_names_for_people(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    first, second = (executable_key("predict", sizes) for sizes in SIZES)
    scratch.write_weights("model.params", [[b"fir", b"st"], [b"second"]])
    names = {
        scratch.inputs(first): "fixture inputs of predict, profile 1",
        scratch.results(second): "recorded results of predict, profile 2",
        scratch.program: "the captured program",
        tmp_path / "read.msgpack": "the list of files that the program read",
        tmp_path / "trials.msgpack": "the plan of calls to try",
    }
    for path, told in names.items():
        path.write_text(told)
    scratch.fixture(first).write_text("what the reference itself leaves")
    found = dict(_given(scratch, PROGRAM))
    assert found == {
        **{told: sha256(told.encode()) for told in names.values()},
        "weights model.params, part 1": sha256(b"first"),
        "weights model.params, part 2": sha256(b"second"),
    }
