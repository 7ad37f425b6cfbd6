"""Bundles on devices that share no memory with the host: the way GPUs are served, on XLA's CPU.

A client of its own stands for the accelerator. What only a GPU shows, this does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aotc_runtime
from aotc_runtime.errors import BackendError
from aotc_runtime.system import pjrt

Bundle = tuple[Path, Path]


class Elsewhere(pjrt.Device):
    """The processor, used as if its memory were another's."""

    platform = "elsewhere"

    def share(self, array: np.ndarray[Any, Any], aval: pjrt.Aval) -> pjrt.Buffer:
        return self.put(array, aval)


def test_a_bundle_runs_its_fixtures_and_answers_calls_as_on_the_processor(
    digits_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, policy = digits_bundle
    image = np.random.default_rng(0).random((8, 64), np.float32)
    with aotc_runtime.load(path, trust=policy) as bundle:
        expected = bundle["predict"](image)
    elsewhere = Elsewhere()
    monkeypatch.setattr(pjrt, "_serving", elsewhere)
    monkeypatch.setattr(pjrt, "serve", lambda _: elsewhere)
    with aotc_runtime.load(path, trust=policy) as bundle:
        assert pjrt.device() is elsewhere and pjrt.processor_device() is not elsewhere
        found = bundle["predict"](image)
        assert len(bundle.report()["fixtures"]) == 3
        assert bundle.report()["compilations"] == 0
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert np.array_equal(found[name], array)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int4", "uint8", "bool"])
def test_results_are_copied_whatever_their_type(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, name, name))
    elsewhere = Elsewhere()
    monkeypatch.setattr(pjrt, "_serving", elsewhere)
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    aval = pjrt.Aval(array.shape, dtype)
    found = pjrt.to_numpy(elsewhere.put(array, aval), aval)
    assert found.dtype == dtype and found.tolist() == array.tolist()
    (read,) = pjrt.reader([aval])([elsewhere.put(array, aval)])
    assert read.dtype == dtype and read.tolist() == array.tolist()
    assert pjrt.reader_of_one(aval)([elsewhere.put(array, aval)]).tolist() == array.tolist()
    assert pjrt.dlpack_device() == (pjrt.DLPACK_CUDA, 0)


def test_a_process_serves_one_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pjrt, "_serving", None)
    assert pjrt.serve("cpu") is pjrt.serve("cpu") is pjrt.device()
    with pytest.raises(BackendError) as refused:
        pjrt.serve("cuda")
    (finding,) = refused.value.findings
    assert (finding.code, finding.found) == ("AOTC-E758", "one for cuda")
