"""Targets that a manifest or a command line names, and the engines that they are compiled for."""

from concurrent.futures import Future
from pathlib import Path

import pytest
from msgspec.structs import replace

from aotc.base.errors import BuildManifestError, finding, refusal
from aotc.base.stages import Executable
from aotc.compile.target_files import read_target
from aotc.config.build_manifest import BuildManifest, read_build_manifest
from aotc.pipeline.build_plan import EngineFallback, candidates, first_refusal, resolve_candidates
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import Target
from tests.refusals import error_of

MANIFEST = """\
schema = 1
name = "program"
version = "1.0.0"
targets = {targets}
{more}
[entry_points.f]
function = "program:f"
{entry}"""


def manifest(folder: Path, *targets: str, more: str = "", entry: str = "") -> BuildManifest:
    """A manifest with a target in each line, from the fifth on."""
    listed = "".join(f'    "{name}",\n' for name in targets)
    path = folder / "m.toml"
    path.write_text(MANIFEST.format(targets=f"[\n{listed}]", more=more, entry=entry))
    return read_build_manifest(path)


def refused(read: BuildManifest, *override: str) -> Finding:
    (finding,) = error_of(BuildManifestError, resolve_candidates, read, override).findings
    return finding


def test_a_target_that_is_not_there_is_refused_with_the_line_that_names_it(tmp_path: Path) -> None:
    read = manifest(tmp_path, "cpu-x86-64-v3", "cpu-x86-64-v33")
    finding = refused(read)
    assert finding.code == "AOTC-E811"
    assert finding.where == f"{tmp_path / 'm.toml'}:6 targets[1]"
    finding = refused(read, "nope")
    assert (finding.code, finding.where) == ("AOTC-E811", "--target")


def test_two_targets_of_one_name_are_refused_with_the_line_of_the_second(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "other.toml").write_text(
        'schema = 1\nname = "cpu-x86-64-v3"\nplatform = "cpu"\nthreads = 1\n'
        'triple = "x86_64-unknown-linux-gnu"\ncpu = "x86-64-v3"\nfeatures = ["avx2"]\n'
    )
    finding = refused(manifest(tmp_path, "cpu-x86-64-v3", "other"))
    assert (finding.code, finding.where) == ("AOTC-E813", f"{tmp_path / 'm.toml'}:6 targets[1]")


CHIPS = """\
schema = 1
name = "chips"
platform = "tpu"
topology = "v5e:2x2"
kinds = ["TPU v5 lite"]
devices = 4
"""


def meshed(folder: Path, target: str, devices: int) -> BuildManifest:
    (folder / "targets").mkdir()
    (folder / "targets" / "chips.toml").write_text(CHIPS)
    mesh = 'mesh = {data = 2, model = 2}\n[target."' + target + f'"]\ndevices = {devices}'
    return manifest(folder, target, more=mesh)


@pytest.mark.parametrize(
    ("target", "devices", "expected", "found"),
    [
        (
            "cpu-x86-64-v3",
            2,
            "4 devices, for the mesh { data = 2, model = 2 }",
            "2 devices of cpu-x86-64-v3",
        ),
        ("chips", 8, "4 devices for v5e:2x2", "8"),
    ],
)
def test_another_number_of_devices_than_the_mesh_has_is_refused(
    tmp_path: Path, target: str, devices: int, expected: str, found: str
) -> None:
    finding = refused(meshed(tmp_path, target, devices))
    assert finding.code == "AOTC-E815"
    assert "m.toml:9 " in finding.where
    assert finding.expected == expected
    assert finding.found.endswith(found)


def test_target_devices_need_those_of_the_manifest(tmp_path: Path) -> None:
    read = meshed(tmp_path, "cpu-x86-64-v3", 4)
    ((target,),) = resolve_candidates(read)
    assert target.devices == 4
    finding = refused(read, "cpu-x86-64-v4")
    assert (finding.code, finding.where) == ("AOTC-E815", "--target")
    assert "[target.cpu-x86-64-v4] devices = 4" in finding.hint


def target(name: str) -> Target:
    return read_target(name, Path(__file__).parent)


@pytest.mark.parametrize(
    ("engines", "platforms"),
    [
        ("", (["cpu"], ["cpu"], ["iree"])),
        (
            'engines = ["xla", "iree"]\n[target.cpu-haswell]\nengines = ["iree"]',
            (["cpu", "iree"], ["iree"], ["iree"]),
        ),
    ],
)
def test_engines_by_target(tmp_path: Path, engines: str, platforms: tuple[list[str], ...]) -> None:
    read = manifest(tmp_path, "cpu-x86-64-v3", "cpu-haswell", "cpu-neoverse-n1", more=engines)
    found = tuple([one.platform for one in each] for each in resolve_candidates(read))
    assert found == platforms


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
    "an unknown engine": ("cpu-x86-64-v3", ["onnx"], '"onnx"; did you mean `onnxruntime`?'),
    "a platform": ("nvidia-h100", ["cuda"], '"cuda"'),
    "no code for Arm": ("cpu-neoverse-n1", ["xla"], "xla: it compiles for x86_64"),
    "wrong code for Arm": ("cpu-neoverse-n1", ["openvino"], "openvino: it compiles for x86_64"),
    "no code for GPUs": ("nvidia-h100", ["iree"], "iree: it has no code for cuda"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_list_that_leaves_a_target_without_code_is_refused(case: str) -> None:
    name, engines, found = REFUSED[case]
    caught = error_of(BuildManifestError, candidates, target(name), engines, "m.toml:5 engines")
    (finding,) = caught.findings
    assert (finding.code, finding.where) == ("AOTC-E816", "m.toml:5 engines")
    assert finding.hint and found in f"{finding.found}; {finding.hint}"


@pytest.mark.parametrize(
    ("keys", "engines", "able"),
    [
        ('weights = "int8"', ["iree", "xla"], "onnxruntime, openvino"),
        ('weights = "int4"', ["iree", "xla"], "onnxruntime, openvino"),
        ('weights = "int8"\nactivations = "dynamic"', ["openvino"], "iree, onnxruntime, xla"),
        ('weights = "int8"', ["xla", "openvino"], ""),
        ('weights = "int4"', ["onnxruntime"], ""),
        ('weights = "int8"\nactivations = "dynamic"', ["xla"], ""),
        ('weights = "int8"', [], ""),
    ],
)
def test_a_precision_for_which_no_listed_engine_has_kernels_is_refused(
    keys: str, engines: list[str], able: str, tmp_path: Path
) -> None:
    more = f"engines = {engines}\n" if engines else "\n"
    entry = f'precision = "small"\n[precision.small]\n{keys}\n'
    read = manifest(tmp_path, "cpu-x86-64-v3", more=more, entry=entry)
    if not able:
        assert resolve_candidates(read)
        return
    finding = refused(read)
    assert (finding.code, finding.expected) == ("AOTC-E816", f"one of: {able}")
    assert finding.where.endswith("m.toml:7 engines")
    assert f"{', '.join(engines)} for " in finding.found and "kernels" in finding.title


@pytest.mark.parametrize(("tune", "said"), [("", False), ('tune.objective = "latency"', True)])
def test_a_single_engine_for_bfloat16_is_told_without_tuning(
    tune: str, said: bool, tmp_path: Path
) -> None:
    entry = 'precision = "half"\n[precision.half]\ncompute = "bfloat16"\n'
    more = f'engines = ["iree", "onnxruntime", "xla"]\n{tune}\n'
    finding = refused(manifest(tmp_path, "cpu-x86-64-v3", more=more, entry=entry))
    assert finding.code == "AOTC-E816" and finding.hint.startswith('engines = ["xla"]')
    assert ("remove `tune`" in finding.hint) == said


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
    fallback = EngineFallback("box", "iree", "xla", found)
    assert fallback.sentence == (
        "iree cannot compile predict for box (AOTC-E916, engine compilation failed: 'x.y' op), "
        "so box goes to xla"
    )
    assert (fallback.refusal.engine, fallback.refusal.code) == ("iree", "AOTC-E916")
    failed = finding("AOTC-E953", "predict for box", "no buffer", cause="engine-fails-at-a-call")
    fallback = EngineFallback("box", "iree", "xla", (failed,))
    assert fallback.sentence == (
        "iree cannot run predict for box (AOTC-E953, engine fails at a call: no buffer), "
        "so box goes to xla"
    )
