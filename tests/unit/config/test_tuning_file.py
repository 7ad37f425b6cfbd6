"""A tuning file says the same when it is read again, and only of the program it was made for."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from aotc.base.errors import UsageError
from aotc.base.stages import ByTarget, CompileJob, Module
from aotc.config import tuning_file
from aotc.config.tuning_file import Recorded, TunedTarget
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.manifest_labels import ExecutableKey
from tests.refusals import error_of
from tests.unit.commands.tune.test_tuning_variants import HOST

KEY = ExecutableKey("f", (("batch", 8),))
POSITIONS = {KEY: 0}
TUNED = bundle_manifest.Tuned(
    choice="eigen",
    options={"xla_cpu_experimental_ynn_fusion_type": ""},
    captured=(),
    candidates=(
        bundle_manifest.MeasuredCandidate(name="default", p50_us="12.5", relative="1.000", wins=0),
        bundle_manifest.MeasuredCandidate(name="eigen", p50_us="11.5", relative="0.920", wins=9),
        bundle_manifest.LeftOutCandidate(name="wide", reason="killed by SIGABRT"),
    ),
    rounds=9,
    margin="0.03",
    processor="znver5",
    threads=2,
    jaxlib="0.12.0",
)


def job(digest: str = "sha256:1") -> CompileJob:
    return CompileJob("f[batch=8]", Module(b"", digest, "", ()), HOST)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "tuning.json"
    file = tuning_file.from_build(
        {"native": {KEY: TUNED}},
        {"native": {KEY: job()}},
        POSITIONS,
        {"elsewhere": "it is cpu arm"},
        "0.12.0",
        {},
    )
    path.write_bytes(tuning_file.encode(file))
    return path


def refusals(recorded: Recorded, jobs: ByTarget[CompileJob], jaxlib: str) -> list[str]:
    caught = error_of(UsageError, tuning_file.choices, recorded, jobs, POSITIONS, jaxlib, {})
    assert {finding.code for finding in caught.findings} == {"AOTC-E031"}
    return [f"{finding.expected}; {finding.found}" for finding in caught.findings]


def test_what_was_written_is_what_is_read(written: Path) -> None:
    assert written.read_bytes().startswith(tuning_file.HEAD)
    recorded = tuning_file.read(written)
    assert tuning_file.choices(recorded, {"native": {KEY: job()}}, POSITIONS, "0.12.0", {}) == {
        "native": {KEY: TUNED}
    }
    assert tuning_file.choices(recorded, {"elsewhere": {KEY: job()}}, POSITIONS, "0.12.0", {}) == {}


def test_a_file_of_another_program_target_or_jaxlib_is_refused(written: Path) -> None:
    recorded = tuning_file.read(written)
    other = {"cpu-x86-64-v3": {KEY: job()}}
    assert refusals(recorded, {"native": {KEY: job("sha256:2")}}, "0.12.0") == [
        "the program sha256:2; sha256:1"
    ]
    assert refusals(recorded, other, "0.12.0") == ["a choice for every executable; none"]
    assert refusals(recorded, {"native": {KEY: job()}}, "0.13") == ["jaxlib 0.13; jaxlib 0.12.0"]


@pytest.mark.parametrize("choice", ["wide", "o2", "captured"])
def test_a_choice_that_was_not_measured_is_refused(written: Path, choice: str) -> None:
    written.write_text(
        written.read_text("utf-8").replace('"choice": "eigen"', f'"choice": "{choice}"'),
        encoding="utf-8",
    )
    assert refusals(tuning_file.read(written), {"native": {KEY: job()}}, "0.12.0") == [
        f"a choice that was measured; {choice}, 0 weights captured"
    ]


def test_the_default_needs_no_measurement(written: Path) -> None:
    recorded = tuning_file.read(written)
    (executable,) = recorded.file.executables
    unmeasured = (bundle_manifest.LeftOutCandidate(name="default", reason="AOTC-E560: no room"),)
    tuned = msgspec.structs.replace(TUNED, choice="default", candidates=unmeasured)
    executable = msgspec.structs.replace(executable, tuned=tuned)
    recorded = replace(
        recorded, file=msgspec.structs.replace(recorded.file, executables=(executable,))
    )
    jobs = {"native": {KEY: job()}}
    found = tuning_file.choices(recorded, jobs, POSITIONS, "0.12.0", {})
    assert found == {"native": {KEY: tuned}}


@pytest.mark.parametrize("text", ["", "{}", '{"aotc_tuning": 2}', "\xff", "[" * 100_000])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text, encoding="latin-1")
    assert error_of(UsageError, tuning_file.read, tmp_path / "t.json").code == "AOTC-E030"


def test_weights_are_captured_by_choices_of_that_name_alone(tmp_path: Path) -> None:
    captured = (bundle_manifest.WeightArgument(set="params", tensor="w"),)
    tuned = msgspec.structs.replace(TUNED, captured=captured)
    path = tmp_path / "tuning.json"
    jobs = {"native": {KEY: job()}}
    file = tuning_file.from_build({"native": {KEY: tuned}}, jobs, POSITIONS, {}, "0.12.0", {})
    path.write_bytes(tuning_file.encode(file))
    (told,) = refusals(tuning_file.read(path), jobs, "0.12.0")
    assert told.endswith("1 weights captured")


def test_file_at_the_limit_is_read(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_file, "BYTES_MAX", len(written.read_bytes()))
    assert tuning_file.read(written).file.jaxlib == "0.12.0"


def test_an_untuned_executable_has_no_word_of_tuning_in_its_record() -> None:
    from aotc_runtime.schema.bundle_manifest import ProfileRecord

    assert ProfileRecord.__struct_fields__[-3:] == ("tuned", "platform", "precision")
    assert ProfileRecord.__struct_defaults__ == (msgspec.UNSET,) * 3


IREE = msgspec.structs.replace(HOST, platform="iree")
TOOLS = {"iree-base-compiler": "3.13.0"}


@pytest.fixture
def of_iree(tmp_path: Path) -> Recorded:
    """A file whose choice is IREE's, among several engines."""
    measured = bundle_manifest.MeasuredCandidate(
        name="iree-captured", p50_us="9.5", relative="0.920", wins=9
    )
    tuned = msgspec.structs.replace(TUNED, choice="iree-captured", candidates=(measured,))
    jobs = {"native": {KEY: replace(job(), target=IREE)}}
    targets = {"native": TunedTarget("iree", TOOLS)}
    file = tuning_file.from_build({"native": {KEY: tuned}}, jobs, POSITIONS, {}, "0.12.0", targets)
    path = tmp_path / "iree.json"
    path.write_bytes(tuning_file.encode(file))
    return tuning_file.read(path)


def test_chosen_engine_is_the_targets(of_iree: Recorded, written: Path) -> None:
    assert tuning_file.engines_of(of_iree, "native", ["xla", "iree"]) == ("iree", ())
    of_xla = tuning_file.read(written)
    assert tuning_file.engines_of(of_xla, "native", ["xla"]) == ("xla", ())
    assert tuning_file.engines_of(of_xla, "elsewhere", ["iree", "xla"]) == (None, ())


def test_a_choice_among_other_engines_is_refused(of_iree: Recorded, written: Path) -> None:
    of_xla = tuning_file.read(written)
    for recorded, engines, found in (
        (of_iree, ["xla"], "choices for iree"),
        (of_iree, ["slate", "xla"], "choices for iree"),
        (of_xla, ["xla", "iree"], "choices for xla"),
        (of_xla, ["iree"], "choices for xla"),
    ):
        caught = error_of(UsageError, tuning_file.engines_of, recorded, "native", engines)
        (finding,) = caught.findings
        assert (finding.code, finding.found) == ("AOTC-E031", found)
        assert finding.expected.endswith(": " + ", ".join(engines))


def test_engines_of_single_executables_have_to_be_listed(of_iree: Recorded) -> None:
    (iree,) = of_iree.file.executables

    def beside(engine: str) -> Recorded:
        executable = msgspec.structs.replace(iree, engine=engine)
        file = msgspec.structs.replace(of_iree.file, executables=(executable,))
        return replace(of_iree, file=file)

    listed = ["iree", "onnxruntime"]
    found = tuning_file.engines_of(beside("onnxruntime"), "native", listed)
    assert found == ("iree", ("onnxruntime",))
    for engine in ("slate", "iree"):
        caught = error_of(UsageError, tuning_file.engines_of, beside(engine), "native", listed)
        assert caught.findings[0].found == f"choices for iree and {engine}"
    error_of(UsageError, tuning_file.engines_of, beside("xla"), "native", ["iree", "xla"])
    nobodys = beside("iree")
    nobodys = replace(nobodys, file=msgspec.structs.replace(nobodys.file, targets={}))
    caught = error_of(UsageError, tuning_file.engines_of, nobodys, "native", ["xla"])
    assert caught.findings[0].found == "choices for xla and iree"


def test_a_choice_of_another_release_of_the_engine_is_refused(of_iree: Recorded) -> None:
    jobs = {"native": {KEY: replace(job(), target=IREE)}}
    captured = (bundle_manifest.WeightArgument(set="params", tensor="w"),)
    executables = tuple(
        msgspec.structs.replace(each, tuned=msgspec.structs.replace(each.tuned, captured=captured))
        for each in of_iree.file.executables
    )
    file = msgspec.structs.replace(of_iree.file, executables=executables)
    recorded = Recorded(file, "iree.json")
    tools = {"native": TOOLS}
    assert tuning_file.choices(recorded, jobs, POSITIONS, "0.12.0", tools)["native"]
    for others, expected in (({"iree-base-compiler": "3.14.0"}, "3.14.0"), ({}, "no others")):
        with pytest.raises(UsageError) as caught:
            tuning_file.choices(recorded, jobs, POSITIONS, "0.12.0", {"native": others})
        (finding,) = caught.value.findings
        assert (finding.code, finding.found) == ("AOTC-E031", "iree-base-compiler 3.13.0")
        assert finding.expected.endswith(expected)


def test_a_file_of_xla_alone_has_no_word_of_engines(written: Path) -> None:
    assert "targets" not in msgspec.json.decode(written.read_bytes())
