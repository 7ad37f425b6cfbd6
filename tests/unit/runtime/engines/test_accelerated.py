"""Bundles on devices that share no memory with the host: the way GPUs are served, on XLA's CPU.

A client of its own stands for the accelerator. What only a GPU shows, this does not.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import aotc_runtime
from aotc_runtime.base.errors import BackendError
from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.engines.xla import xla_engine
from aotc_runtime.engines.xla.xla_accelerator import Accelerated
from tests.conftest import Bundle
from tests.refusals import error_of


class Elsewhere(Accelerated):
    """The processor, used as if its memory were another's."""

    platform = "cpu"

    def make_client(self, xla_client: Any, devices: int) -> Any:
        return xla_client.make_cpu_client(asynchronous=False, num_devices=devices)

    def register_custom_calls(self, targets: Iterable[str]) -> None:
        assert not targets


def test_accelerated_calls_match(digits_bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    path, policy = digits_bundle
    image = np.random.default_rng(0).random((8, 64), np.float32)
    with aotc_runtime.load(path, trust=policy) as bundle:
        expected = bundle["predict"](image)
    elsewhere = Elsewhere()
    monkeypatch.setattr(xla_engine, "start", lambda *_: elsewhere)
    with aotc_runtime.load(path, trust=policy) as bundle:
        assert xla_engine.processor() is not elsewhere
        kept = bundle["predict"].on_device(image)["probabilities"]
        assert kept.device is elsewhere
        # Results of several devices have another; their copies cannot begin early.
        assert kept.buffer()._sharding is elsewhere._sharding
        found = bundle["predict"](image)
        assert len(bundle.report()["fixtures"]) == 3
        assert bundle.report()["compilations"] == 0
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert np.array_equal(found[name], array)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int4", "uint8", "bool"])
def test_results_are_copied_whatever_their_type(name: str) -> None:
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, name, name))
    elsewhere = Elsewhere()
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    aval = Aval(array.shape, dtype)
    found = elsewhere.to_numpy(elsewhere.put(array, aval), aval)
    assert found.dtype == dtype and found.tolist() == array.tolist()
    read = elsewhere.viewer(aval)(elsewhere.put(array, aval))
    assert read.dtype == dtype and read.tolist() == array.tolist()


def test_a_process_serves_one_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla_engine, "_serving", None)
    assert xla_engine.start("cpu") is xla_engine.start("cpu") is xla_engine.processor()
    (finding,) = error_of(BackendError, xla_engine.start, "cuda").findings
    assert (finding.code, finding.found) == ("AOTC-E758", "cuda")
