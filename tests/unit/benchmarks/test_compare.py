"""The side-by-side benchmark: who takes part is in the table, whatever happens to them."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.compare import cases
from benchmarks.compare.cases import CASES, Case, input_of, manifest_text
from benchmarks.compare.contest import run_case
from benchmarks.compare.contestants import Contestant, LeftOutError, serve
from benchmarks.compare.peers import aotc_tuned
from benchmarks.compare.table import lines

JIT = Contestant("jax.jit", "jit")
NOT_INSTALLED = Contestant("nobody <here>", "not_installed")
"""Of no module, so that nothing that is installed brings it."""


def figures(start: float, p50: float) -> dict[str, Any]:
    stages = {"interpreter": 0.01, "import": start / 2, "load": start / 4, "first call": start / 4}
    return {
        "version": "1",
        "artifact_bytes": 1000,
        "stages": stages,
        "start_seconds": start,
        "peak_bytes": 10**8,
        "p50_us": p50,
        "p90_us": p50,
        "to_ours": {"start": start / 0.2, "p50": p50 / 10, "peak": 1.0, "artifact": 1.0},
    }


@pytest.fixture
def document() -> dict[str, Any]:
    return {
        "machine": {"cores": "2"},
        "rounds": 3,
        "seconds": 0.1,
        "cases": {
            "mlp-batch8": {
                "aotc": figures(0.2, 10.0),
                "slow to start": figures(0.4, 5.0),
                "fast to start": figures(0.1, 20.0),
                "beside a tuned": figures(0.2, 10.0) | {"to_tuned": {"p50": 1.25}},
                NOT_INSTALLED.name: {"left_out": "no such module"},
            }
        },
    }


def test_losses_are_marked_and_missing_peers_named(document: dict[str, Any]) -> None:
    rows = {line[2:16].strip(): line[16:].split() for line in lines(document) if line[:2] == "  "}
    assert rows["slow to start"][-4:] == ["2.00", "1.00", "1.00", "0.50<"]
    assert rows["fast to start"][-4:] == ["0.50<", "1.00", "1.00", "2.00"]
    assert rows["beside a tuned"][-5:] == ["1.00", "1.00", "1.00", "1.00", "1.25"]
    assert rows[NOT_INSTALLED.name] == ["left", "out:", "no", "such", "module"]
    assert not any("<" in cell for cell in rows["aotc"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_has_a_build_manifest_of_its_one_shape(case: Case) -> None:
    manifest = tomllib.loads(manifest_text(case))
    sizes = {name: each["profiles"] for name, each in manifest.get("dimensions", {}).items()}
    (run,) = manifest["entry_points"].values()
    if case.file:
        (given,) = run["inputs"].values()
        assert run["source"] == f"model.{case.file}"
        assert tuple(given["shape"]) == input_of(case).shape
    else:
        assert sizes == {name: [size] for name, size in case.sizes.items()}


def test_tuning_takes_xla_first_then_installed_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        aotc_tuned, "find_spec", lambda name: None if name.startswith(("iree", "openvino")) else 1
    )
    assert aotc_tuned.engines() == ["xla", "onnxruntime"]


def test_unfit_peers_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "CASES_FOLDER", tmp_path)
    case = CASES[-1]
    assert case.model == "trivial"
    results = run_case(case, [JIT, NOT_INSTALLED], rounds=1, seconds=0.001)
    assert results["jax.jit"]["max_abs_error"] == 0
    assert results["jax.jit"]["start_seconds"] > 0 and results["jax.jit"]["p50_us"] > 0
    assert "compare.peers.not_installed'" in results[NOT_INSTALLED.name]["left_out"]

    expected = case.folder / "expected-0.npy"
    np.save(expected, np.load(expected) + np.float32(0.01))
    with pytest.raises(LeftOutError, match="results are others"):
        serve(JIT, sys.executable, case.folder, 0.0)
