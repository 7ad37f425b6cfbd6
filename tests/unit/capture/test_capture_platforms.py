"""A program is lowered for every platform that its targets have, which needs none of them here."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capturing import ONE_INPUT, Capture, key_path, npz

from aotc_runtime.formats.safetensors_reader import read_tensors

ROOT = Path(__file__).parents[3]


PALLAS = """
    from jax.experimental import pallas as pl

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2.0

    def f(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
"""

ODD = """
    from jax.extend.core import Primitive
    odd = Primitive("odd")
    odd.def_abstract_eval(lambda x: x)

    def inner(x):
        return odd.bind(x)

    def f(x):
        return jax.jit(inner)(x) + 1
"""

FOREIGN = ODD.replace(
    "    def inner",
    """    from jax.interpreters import mlir
    from jaxlib.mlir.dialects import math

    mlir.register_lowering(odd, lambda ctx, x: [math.tanh(x)])

    def inner""",
    1,
)

RECORDED = """
    [dimensions.batch]
    range = [1, 16]
    profiles = [8, 16]

    [entry_points.f]
    function = "program:f"
    inputs.x = { shape = ["batch", 128], dtype = "float32" }
    fixtures = { file = "inputs.npz", results = "results.npz" }
"""


def for_target(folder: Path, target: str) -> None:
    """Let the one target of the programs here be another one."""
    (folder / "targets").mkdir()
    shutil.copy(ROOT / "targets" / f"{target}.toml", folder / "targets" / "cpu-x86-64-v3.toml")


def for_gpus(folder: Path) -> None:
    for_target(folder, "nvidia-h200")


INPUTS = npz(x=np.arange(8 * 128, dtype=np.float32).reshape(8, 128))
RESULTS = {
    "result[batch=8]": np.ones((8, 128), np.float32),
    "result[batch=16]": np.ones((16, 128), np.float32),
}


def test_linear_algebra_becomes_calls_of_the_platform(capture: Capture, tmp_path: Path) -> None:
    for_gpus(tmp_path)
    captured = capture("def f(x): return jnp.linalg.cholesky(x.reshape(2, 2))").f
    (profile,) = captured.profiles
    assert profile.module.custom_call_targets == ("lapack_spotrf_ffi",)
    assert profile.module_for("cuda").custom_call_targets == ("cusolver_potrf_ffi",)
    assert profile.module_for("cpu") is profile.module


def test_equal_modules_are_kept_once(capture: Capture, tmp_path: Path) -> None:
    for_gpus(tmp_path)
    (profile,) = capture("def f(x): return jnp.tanh(x) + 1").f.profiles
    assert profile.others == {} and profile.module_for("cuda") is profile.module


EMPTY = """
    @jax.jit
    def inner(x):
        return jnp.empty((4,)) + x

    def f(x):
        return inner(x)
"""


@pytest.mark.parametrize("target", ["nvidia-h200", "tpu-v5e-1x1"])
def test_array_without_values_is_refused(capture: Capture, tmp_path: Path, target: str) -> None:
    for_target(tmp_path, target)
    refusal = capture(EMPTY).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E848", "f")
    assert "jnp.empty" in refusal.found
    assert "program.py:8 (inner)" in refusal.found
    assert "jnp.zeros" in refusal.hint


def test_an_array_without_values_is_one_of_zeros_on_processors(capture: Capture) -> None:
    assert capture(EMPTY).f.profiles


@pytest.mark.parametrize(
    ("source", "found", "line"),
    [
        (PALLAS, "ValueError: Only interpret mode", 12),
        (ODD, "NotImplementedError: MLIR translation rule for primitive 'odd'", 11),
    ],
    ids=["Pallas", "a primitive"],
)
def test_lowering_error_names_line(capture: Capture, source: str, found: str, line: int) -> None:
    refusal = capture(source).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E841", "f")
    assert "lowers for cpu" in refusal.expected
    assert refusal.found.startswith(found)
    assert refusal.found.endswith(f" at program.py:{line}")


def test_what_is_lowered_to_something_else_than_stablehlo_is_a_finding(capture: Capture) -> None:
    refusal = capture(FOREIGN).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E841", "f")
    assert "Failed to serialize StableHLO" in refusal.found


def test_kernel_of_target_alone_is_not_checked_here(capture: Capture, tmp_path: Path) -> None:
    for_target(tmp_path, "tpu-v5e-1x1")
    refusal = capture(PALLAS, ONE_INPUT.replace("[4]", "[8, 128]")).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E842", "f")
    assert refusal.found.endswith(" at program.py:12")
    assert "`results`" in refusal.hint


def test_recorded_results_lower_for_the_target_alone(capture: Capture, tmp_path: Path) -> None:
    for_target(tmp_path, "tpu-v5e-1x1")
    files = {"inputs.npz": INPUTS, "results.npz": npz(**RESULTS)}
    outcome = capture(PALLAS, RECORDED, files=files)
    assert outcome.f.recorded
    for index, profile in enumerate(outcome.f.profiles):
        assert profile.module.custom_call_targets == ("tpu_custom_call",)
        assert profile.others == {} and profile.module_for("tpu") is profile.module
        results = read_tensors(outcome.results(index).read_bytes(), where="results")
        assert {path: info.shape for path, info in results.items()} == {"": (8 * (index + 1), 128)}
    assert sorted(outcome.program.files) == ["inputs.npz", "results.npz"]


def test_kernel_bytes_do_not_depend_on_its_place(capture: Capture, tmp_path: Path) -> None:
    for_target(tmp_path, "tpu-v5e-1x1")
    files = {"inputs.npz": INPUTS, "results.npz": npz(**RESULTS)}
    one = capture(PALLAS, RECORDED, files=files, name="one").f
    other = capture("    # a line\n" + PALLAS, RECORDED, files=files, name="other").f
    assert [p.module.digest for p in one.profiles] == [p.module.digest for p in other.profiles]
    assert str(tmp_path).encode() not in one.profiles[0].module.artifact


@pytest.mark.parametrize(
    ("arrays", "at", "found"),
    [
        ({}, "", "no arrays"),
        ({"result[batch=8]": RESULTS["result[batch=8]"]}, "", "result[batch=8]"),
        ({"result": RESULTS["result[batch=8]"]}, "", "result"),
        ({**RESULTS, "logits[batch=8]": np.ones(1)}, "", "logits[batch=8]"),
        (
            {**RESULTS, "result[batch=8]": np.ones((8, 64), np.float32)},
            " result[batch=8]",
            "float32[8, 64]",
        ),
        (
            {**RESULTS, "result[batch=8]": np.ones((8, 128), np.float64)},
            " result[batch=8]",
            "float64[8, 128]",
        ),
    ],
    ids=["none", "one profile", "no profile", "another name", "shape", "dtype"],
)
def test_recorded_results_that_do_not_fit_are_refused(
    capture: Capture, tmp_path: Path, arrays: dict[str, Any], at: str, found: str
) -> None:
    for_target(tmp_path, "tpu-v5e-1x1")
    files = {"inputs.npz": INPUTS, "results.npz": npz(**arrays)}
    refusal = capture(PALLAS, RECORDED, files=files).refusal
    assert refusal.code == "AOTC-E831"
    assert key_path(refusal) == f"entry_points.f.fixtures.results{at}"
    assert found in refusal.found


def test_results_of_unbuilt_profiles_may_be_there(capture: Capture, tmp_path: Path) -> None:
    for_target(tmp_path, "tpu-v5e-1x1")
    arrays = {**RESULTS, "result[batch=4]": np.ones((4, 128), np.float32)}
    files = {"inputs.npz": INPUTS, "results.npz": npz(**arrays)}
    assert len(capture(PALLAS, RECORDED, files=files).f.profiles) == 2


def test_recorded_ml_dtypes_are_read(capture: Capture, tmp_path: Path) -> None:
    import ml_dtypes

    manifest = ONE_INPUT.replace("float32", "bfloat16")
    manifest += 'fixtures = { file = "inputs.npz", results = "results.npz" }\n'
    values = np.arange(4).astype(ml_dtypes.bfloat16)
    files = {"inputs.npz": npz(x=values), "results.npz": npz(result=values + values)}
    outcome = capture("def f(x): return x + x", manifest, files=files)
    assert outcome.f.outputs[0].dtype.value == "bfloat16"
    data = outcome.results(0).read_bytes()
    assert data.endswith((values + values).tobytes())


def test_the_lines_of_custom_calls_are_kept_for_whoever_refuses_them(capture: Capture) -> None:
    captured = capture("""
        def call(x):
            return jax.ffi.ffi_call("mine", jax.ShapeDtypeStruct((4,), jnp.float32))(x)
        def f(x):
            return jax.jit(call)(x) + jax.ffi.ffi_call("other", x)(x)
    """).f
    assert captured.calls == {"mine": "program.py:7 (call)", "other": "program.py:9 (f)"}
