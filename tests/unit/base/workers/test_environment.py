"""Variables that child processes see."""

import os
from pathlib import Path

import pytest

from aotc.base.workers import worker_environment


def test_nothing_that_steers_jax_or_xla_reaches_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAX_ENABLE_X64", "XLA_FLAGS", "TF_CPP_MAX_VLOG_LEVEL", "PJRT_NPROC", "NPROC"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/a", "b", ""]))
    monkeypatch.setenv("UNRELATED", "kept")
    seen = worker_environment.clean({"JAX_PLATFORMS": "cpu"})
    steering = {k: v for k, v in seen.items() if k.startswith(("JAX", "XLA", "PJRT", "NP"))}
    assert steering == {"JAX_PLATFORMS": "cpu"}
    assert seen["PYTHONHASHSEED"] == "0"
    assert seen["UNRELATED"] == "kept"
    absolute = os.pathsep.join(["/a", str(Path.cwd() / "b"), str(Path.cwd())])
    assert seen["PYTHONPATH"] == worker_environment.bare()["PYTHONPATH"] == absolute
    assert worker_environment.ignored_variables() == ["JAX_ENABLE_X64", "PJRT_NPROC", "XLA_FLAGS"]
