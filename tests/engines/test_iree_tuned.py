"""IREE beside XLA under `--tune`: its drivers are candidates, and both engines are measured."""

from pathlib import Path

from aotc.base.errors import CompileError
from aotc.base.stages import CompileJob, Module
from aotc.commands.tune.tuning_service import Measure
from aotc.compile.target_files import builtin_folder
from aotc.engines.iree.iree_compiler import IreeBackend
from aotc_runtime.schema.bundle_manifest import LeftOutCandidate, Tuned
from tests.e2e.small_programs import build_trusted
from tests.refusals import error_of
from tests.unit.commands.tune.test_tuning_variants import HOST

PROGRAM = """
import jax.numpy as jnp

def scale(image):
    return jnp.tanh(image) * 2
"""

MANIFEST = """
schema = 1
name = "scaled"
version = "1.0.0"
targets = ["few", "cpu-neoverse-n1"]
engines = ["xla", "iree"]

[entry_points.scale]
function = "program:scale"
inputs.image = { shape = [8, 64], dtype = "float32" }
"""

OPTIONS = """
[options]
xla_cpu_experimental_ynn_fusion_type = ""
xla_cpu_prefer_vector_width = "256"
xla_backend_optimization_level = "2"
"""
"""At the end of a target file: of XLA's candidates the default is left."""


def test_default_driver_is_not_measured_twice(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "scaled.toml").write_text(MANIFEST)
    (tmp_path / "targets").mkdir()
    target = (builtin_folder() / "cpu-x86-64-v3.toml").read_text()
    named = target.replace('name = "cpu-x86-64-v3"', 'name = "few"')
    (tmp_path / "targets" / "few.toml").write_text(named + OPTIONS)
    output = tmp_path / "tuned.aotb"
    built = build_trusted(tmp_path / "scaled.toml", output, tuning=Measure())
    record = built.bundle.manifests["few"].entry_points["scale"].profiles[0]
    assert isinstance(record.tuned, Tuned)
    candidates = {each.name: each for each in record.tuned.candidates}
    assert list(candidates) == ["xla-default", "iree-default", "iree-local-sync", "iree-local-task"]
    same = candidates["iree-local-sync"]
    assert isinstance(same, LeftOutCandidate) and same.reason == "the same code as iree-default"
    assert not isinstance(candidates["iree-local-task"], LeftOutCandidate)


def test_a_driver_that_there_is_not_is_refused_before_anything_is_compiled() -> None:
    job = CompileJob("f", Module(b"", "", "", ()), HOST, options={"iree-driver": "local"})
    (finding,) = error_of(CompileError, IreeBackend(["false"]).compile, job).findings
    assert (finding.code, finding.found) == ("AOTC-E908", "iree-driver = local")
    assert finding.expected == "one of: local-sync, local-task"
