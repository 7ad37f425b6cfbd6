"""A program is lowered for every platform that its targets have, which needs none of them here."""

from __future__ import annotations

import shutil
from pathlib import Path

from capturing import Capture

ROOT = Path(__file__).parents[3]


def for_gpus(folder: Path) -> None:
    """Let the one target of the programs here be a GPU."""
    (folder / "targets").mkdir()
    gpu = ROOT / "targets" / "nvidia-h200.toml"
    shutil.copy(gpu, folder / "targets" / "cpu-x86-64-v3.toml")


def test_linear_algebra_becomes_other_calls_on_another_platform(
    capture: Capture, tmp_path: Path
) -> None:
    for_gpus(tmp_path)
    captured = capture("def f(x): return jnp.linalg.cholesky(x.reshape(2, 2))").f
    (profile,) = captured.profiles
    assert profile.module.custom_call_targets == ("lapack_spotrf_ffi",)
    assert profile.module_for("cuda").custom_call_targets == ("cusolver_potrf_ffi",)
    assert profile.module_for("cpu") is profile.module


def test_a_module_that_is_the_same_everywhere_is_kept_once(
    capture: Capture, tmp_path: Path
) -> None:
    for_gpus(tmp_path)
    (profile,) = capture("def f(x): return jnp.tanh(x) + 1").f.profiles
    assert profile.others == {} and profile.module_for("cuda") is profile.module


def test_without_such_targets_nothing_else_is_lowered(capture: Capture) -> None:
    (profile,) = capture("def f(x): return jnp.linalg.cholesky(x.reshape(2, 2))").f.profiles
    assert profile.others == {}
