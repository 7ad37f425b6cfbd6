"""Which engines a target is compiled for: as its file says, as the manifest says, or refused."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from msgspec.structs import replace

from aotc.base.errors import BuildManifestError, refusal
from aotc.base.stages import Executable
from aotc.compile.target_files import read_target
from aotc.config.build_manifest import read_build_manifest
from aotc.pipeline.build_plan import resolve_candidates
from aotc.pipeline.engine_order import Fallen, candidates, first_refusal
from aotc_runtime.schema.bundle_manifest import Target

MANIFEST = """
schema = 1
name = "m"
version = "1.0.0"
targets = ["cpu-x86-64-v3", "cpu-haswell", "cpu-neoverse-n1"]
ENGINES

[entry_points.predict]
function = "program:predict"
inputs.x = { shape = [2], dtype = "float32" }
"""


def platforms(folder: Path, engines: str) -> dict[str, list[str]]:
    """The platforms of every target's candidates."""
    (folder / "m.toml").write_text(MANIFEST.replace("ENGINES", engines))
    found = resolve_candidates(read_build_manifest(folder / "m.toml"))
    return {each[0].name: [one.platform for one in each] for each in found}


def target(name: str) -> Target:
    return read_target(name, Path(__file__).parent)


def test_without_a_list_the_file_of_a_target_decides(tmp_path: Path) -> None:
    assert platforms(tmp_path, "") == {
        "cpu-x86-64-v3": ["cpu"],
        "cpu-haswell": ["cpu"],
        "cpu-neoverse-n1": ["iree"],
    }


def test_a_list_is_asked_in_order_where_there_is_code_for_the_target(tmp_path: Path) -> None:
    listed = 'engines = ["xla", "iree"]\n[target.cpu-haswell]\nengines = ["iree"]'
    assert platforms(tmp_path, listed) == {
        "cpu-x86-64-v3": ["cpu", "iree"],
        "cpu-haswell": ["iree"],
        "cpu-neoverse-n1": ["iree"],
    }


def test_a_target_keeps_its_machine_whoever_compiles() -> None:
    ours, theirs = candidates(target("cpu-x86-64-v4"), ["iree", "xla"], "m.toml")
    assert (ours.platform, theirs.platform) == ("iree", "cpu")
    for name in ("name", "triple", "cpu", "features", "threads"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_another_engine_is_asked_for_no_features_that_no_code_is_made_of() -> None:
    """XLA finds more of them in a host than the system lists, which other engines compare with."""
    native = replace(target("cpu-x86-64-v3"), features=("avx2", "pku", "shstk"))
    (ours,) = candidates(native, ["iree"], "m.toml")
    (theirs,) = candidates(native, ["xla"], "m.toml")
    assert (ours.features, theirs.features) == (("avx2",), native.features)


REFUSED = {
    "an unknown engine": ("cpu-x86-64-v3", ["irre"], '"irre"'),
    "a platform": ("nvidia-h100", ["cuda"], '"cuda"'),
    "no code for Arm": ("cpu-neoverse-n1", ["xla"], "xla: it compiles for x86_64"),
    "no code for GPUs": ("nvidia-h100", ["iree"], "iree: it has no code for cuda"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_list_that_leaves_a_target_without_code_is_refused(case: str) -> None:
    name, engines, found = REFUSED[case]
    with pytest.raises(BuildManifestError) as caught:
        candidates(target(name), engines, "m.toml:5 engines")
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("AOTC-E816", "m.toml:5 engines")
    assert found in finding.found
    assert finding.hint


def test_an_accelerator_is_passed_over_by_engines_of_processors() -> None:
    (only,) = candidates(target("nvidia-h100"), ["iree", "xla"], "m.toml")
    assert only.platform == "cuda"


def future(error: Exception | None) -> Future[Executable]:
    made: Future[Executable] = Future()
    if error is None:
        made.cancel()
        made.set_running_or_notify_cancel()
    else:
        made.set_exception(error)
    return made


def test_what_a_compiler_refuses_falls_and_a_missing_compiler_does_not() -> None:
    missing = refusal("AOTC-E907", "iree", "not installed", expected="it", hint="install it")
    refused = refusal("AOTC-E916", "predict for box", "'x.y' op\nmore")
    assert first_refusal([future(None), future(missing), future(OSError())]) == ()
    found = first_refusal([future(missing), future(refused)])
    assert [finding.code for finding in found] == ["AOTC-E916"]
    fallen = Fallen("box", "iree", "xla", found)
    assert fallen.sentence == (
        "box is compiled by xla, because iree cannot compile predict for box (AOTC-E916: 'x.y' op)"
    )
    assert (fallen.refusal.engine, fallen.refusal.code) == ("iree", "AOTC-E916")
