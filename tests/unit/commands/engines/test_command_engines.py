"""`aotc engines`: what engines refuse, with lines, and what calls of the others cost."""

import json
from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import export

from tests.conftest import Run

PROGRAM = """import jax.numpy as jnp

def spectrum(x):
    return jnp.fft.rfft(jnp.fft.rfft(x).real).real

def predict(x, y):
    return spectrum(x @ y)
"""
MANIFEST = """
schema = 1
name = "spectra"
version = "1.0.0"
targets = ["native"]
engines = ["xla"]
dimensions.batch = { range = [1, 4], profiles = [1, 4] }

[entry_points.predict]
function = "program:predict"
inputs.x = { shape = ["batch", 4], dtype = "float32" }
inputs.y = { shape = [4, 100], dtype = "float32" }
"""


def test_engines_refuse_operations_by_line_and_xla_is_measured(aotc: Run, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "spectra.toml").write_text(MANIFEST)
    done = aotc("engines", str(tmp_path / "spectra.toml"), "--json")
    assert done.exit_code == 0, done.stderr
    engines = json.loads(done.stdout)["engines"]
    assert engines.pop("xla")["predict[batch=4]"]["microseconds"] > 0
    for found in engines.values():
        refused = found["predict[batch=4]"]["refused"]
        # Of 4 x 4 x 100 products and sums, and two times about 4 x 51 numbers of each operation.
        assert any(each.startswith("stablehlo.fft of complex<f32> (2 times, ") for each in refused)
        assert all(each.endswith("% of FLOPs, program.py:4)") for each in refused), refused
    assert ("onnxruntime" in engines) == (find_spec("onnxruntime") is not None)


def test_a_model_file_is_surveyed_without_a_manifest(aotc: Run, tmp_path: Path) -> None:
    made = export.export(jax.jit(lambda x: x + 1))(jax.ShapeDtypeStruct((2,), jnp.float32))
    (tmp_path / "model.jax").write_bytes(made.serialize())
    done = aotc("engines", str(tmp_path / "model.jax"))
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("xla") and " us a call\n" in done.stdout


def test_another_file_is_refused_on_the_command_line(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    refused(["engines", str(tmp_path / "program.py")], 2, "AOTC-E001")
