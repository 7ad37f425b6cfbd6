"""A tuned build from its measurements to the server, and the same build again from its choices."""

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

import aotc_runtime
from aotc.base.errors import CompileError
from aotc.base.stages import CompileJob, Executable
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.commands.tune.tuning_service import Measure
from aotc.compile.target_files import builtin_folder
from aotc.compile.xla.xla_compiler import XlaBackend
from aotc.config import tuning_file
from aotc.config.tuning_file import Recorded
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions, Tuning
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_tasks import Done, Kind
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema import bundle_manifest

PROGRAM = """
import numpy as np
import jax

KERNEL = np.linspace(-1, 1, 24 * 40, dtype="float32").reshape(24, 40)

def dense(x):
    return jax.nn.relu(x @ KERNEL)

def shifted(x, y):
    return x + 1, y
"""

MANIFEST = """
schema = 1
name = "small"
version = "1.0.0"
targets = ["few"]
[entry_points.dense]
function = "program:dense"
inputs.x = { shape = [16, 24], dtype = "float32" }
[entry_points.shifted]
function = "program:shifted"
donate = ["x"]
inputs.x = { shape = [8], dtype = "float32" }
inputs.y = { shape = [3], dtype = "int32" }
[entry_points.shifted.fixtures]
ranges = { y = [0, 9] }
"""

FEW_CANDIDATES = """
options = { xla_cpu_experimental_ynn_fusion_type = "" }
"""
"""At the end of a target file: candidates do not vary what it says, and few are left to compile."""


@dataclass(frozen=True)
class Place:
    """A program's folder, and what was built there."""

    folder: Path
    signer: LocalSigner
    built: Built

    def again(self, name: str, tuning: Tuning | None) -> Built:
        return build(
            self.folder / "manifest.toml",
            self.folder / f"{name}.aotb",
            BuildOptions(signer=self.signer, tuning=tuning),
        )

    def recorded(self) -> Recorded:
        assert self.built.tuning_file is not None
        path = self.folder / "tuning.json"
        path.write_bytes(tuning_file.encode(self.built.tuning_file))
        return tuning_file.read(path)

    def load(self, name: str) -> aotc_runtime.LoadedBundle:
        policy = self.folder / "trust.toml"
        policy.write_text(policy_text("small", [self.signer.public_pem()]))
        return aotc_runtime.load(self.folder / f"{name}.aotb", trust=policy)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "program.py").write_text(PROGRAM)
    (folder / "manifest.toml").write_text(MANIFEST)
    (folder / "targets").mkdir()
    target = (builtin_folder() / "cpu-x86-64-v3.toml").read_text()
    named = target.replace('name = "cpu-x86-64-v3"', 'name = "few"')
    (folder / "targets" / "few.toml").write_text(named + FEW_CANDIDATES)
    signer = LocalSigner.ephemeral()
    output = folder / "tuned.aotb"
    built = build(folder / "manifest.toml", output, BuildOptions(signer=signer, tuning=Measure()))
    return Place(folder, signer, built)


def records(built: Built) -> dict[str, bundle_manifest.ProfileRecord]:
    manifest = built.bundle.manifests["few"]
    return {name: spec.profiles[0] for name, spec in manifest.entry_points.items()}


def evidence(record: bundle_manifest.ProfileRecord) -> bundle_manifest.Tuned:
    assert isinstance(record.tuned, bundle_manifest.Tuned)
    return record.tuned


def test_the_manifest_says_what_was_tried_where_and_how_fast_each_was(place: Place) -> None:
    dense, shifted = (evidence(records(place.built)[name]) for name in ("dense", "shifted"))
    assert [c.name for c in dense.candidates] == ["default", "o2", "wide", "captured"]
    assert [c.name for c in shifted.candidates] == ["default", "o2", "wide"]
    for each in (*dense.candidates, *shifted.candidates):
        if each.name != "default" and isinstance(each, bundle_manifest.LeftOutCandidate):
            assert " times as long as the fastest in round " in each.reason
            continue
        assert isinstance(each, bundle_manifest.MeasuredCandidate), each
        assert float(each.p50_us) > 0 and float(each.relative) > 0
    assert dense.rounds >= 3 and dense.margin == "0.03"
    assert dense.processor and dense.threads > 0 and dense.jaxlib
    assert "tune" in place.built.seconds


def test_what_was_chosen_is_proven_loads_and_computes_the_same(place: Place) -> None:
    for record in records(place.built).values():
        assert isinstance(record.parity, bundle_manifest.ParityRan)
    x = np.linspace(0, 1, 16 * 24, dtype=np.float32).reshape(16, 24)
    kernel = np.linspace(-1, 1, 24 * 40, dtype=np.float32).reshape(24, 40)
    with place.load("tuned") as bundle:
        result = bundle["dense"](x)
        assert bundle.report()["compilations"] == 0
    np.testing.assert_allclose(result, np.maximum(x @ kernel, 0), rtol=1e-4, atol=1e-5)


def test_building_from_the_choices_gives_the_same_bundle(place: Place) -> None:
    again = place.again("again", place.recorded())
    assert again.bundle.root_digest == place.built.bundle.root_digest
    assert again.tuning_file == place.built.tuning_file
    assert "tune" not in again.seconds


def test_captured_weights_are_no_arguments_and_the_manifest_names_them(place: Place) -> None:
    """Whatever was fastest here: the file says to capture."""
    recorded = place.recorded()
    weights = tuple(
        argument
        for argument in place.built.program.entry_points["dense"].profiles[0].arguments
        if isinstance(argument, bundle_manifest.WeightArgument)
    )
    assert len(weights) == 1
    executables = tuple(
        msgspec.structs.replace(
            each,
            tuned=msgspec.structs.replace(
                each.tuned,
                choice="captured" if each.entry_point == "dense" else "default",
                options={},
                captured=weights if each.entry_point == "dense" else (),
                candidates=(
                    bundle_manifest.MeasuredCandidate("default", "1.0", "1.000", 0),
                    bundle_manifest.MeasuredCandidate("captured", "1.0", "1.000", 0),
                ),
            ),
        )
        for each in recorded.file.executables
    )
    file = msgspec.structs.replace(recorded.file, executables=executables)
    built = place.again("captured", Recorded(file, "changed"))
    dense = records(built)["dense"]
    assert dense.arguments == (bundle_manifest.InputArgument(leaf=0, aliased=False),)
    assert evidence(dense).captured == weights
    assert any(note.startswith("1 of 2 executables hold their weights") for note in built.notes)
    with place.load("captured") as bundle:
        assert np.all(np.isfinite(bundle["dense"](np.ones((16, 24), np.float32))))


def test_a_target_that_this_host_cannot_run_stays_as_it_is_with_a_note(place: Place) -> None:
    recorded = place.recorded()
    reason = "its processor lacks xop"
    file = msgspec.structs.replace(recorded.file, executables=(), untuned_targets={"few": reason})
    built = place.again("noted", Recorded(file, "changed"))
    assert all(record.tuned is msgspec.UNSET for record in records(built).values())
    assert f"not tuned: this host cannot run target few: {reason}" in built.notes


class FaultyBackend(XlaBackend):
    """Refuses one candidate, and compiles another with weights that are not the program's."""

    def compile(self, job: CompileJob) -> Executable:
        if "xla_backend_optimization_level" in job.options:
            raise CompileError(Finding("AOTC-E901", job.label, "a program", "too odd", ""))
        if "xla_cpu_prefer_vector_width" in job.options and job.label.startswith("dense"):
            job = replace(job, constants={0: np.zeros((24, 40), np.float32)})
        return super().compile(job)


def test_failing_candidates_are_left_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "aotc.pipeline.cached_backend.backend_for", lambda platform: FaultyBackend()
    )
    built = place.again("faulty", Measure())
    left_out = {
        each.name: each.reason
        for each in evidence(records(built)["dense"]).candidates
        if isinstance(each, bundle_manifest.LeftOutCandidate)
    }
    assert left_out["o2"] == "AOTC-E901: too odd"
    assert left_out["wide"].startswith("its results differ from plain JAX by up to ")
    assert list(left_out) == ["o2", "wide"]
    assert evidence(records(built)["dense"]).choice in ("default", "captured")
    assert isinstance(records(built)["dense"].parity, bundle_manifest.ParityRan)


def test_compiled_candidates_come_from_the_cache(place: Place, tmp_path: Path) -> None:
    shown: list[tuple[str, int, int]] = []

    def tuned(tuning: Tuning | None) -> list[Done]:
        built = build(
            place.folder / "manifest.toml",
            tmp_path / "tuned.aotb",
            BuildOptions(
                tuning=tuning,
                cache=LocalStore(tmp_path / "cache", 10**9),
                on_stage=lambda *stage: shown.append(stage),
            ),
        )
        return [done for done in built.tasks if done.task.kind is Kind.EXECUTABLE]

    first, again = tuned(Measure()), tuned(Measure())
    assert [done.task.of for done in first] == [
        *("dense as captured for few", "dense as o2 for few", "dense as wide for few"),
        *("dense for few", "shifted as o2 for few", "shifted as wide for few", "shifted for few"),
    ]
    assert {done.cached for done in first} == {False}
    assert {done.cached for done in again} == {True}
    # Whatever was chosen, it is one of those.
    assert {done.cached for done in tuned(place.recorded())} == {True}
    assert all(done <= total for stage, done, total in shown if stage == "compile" and total)
