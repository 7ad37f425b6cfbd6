"""Replacing a bundle while it serves."""

import asyncio
import json
import threading
import time
from typing import Any

import msgspec
import numpy as np
import pytest

import aotc_runtime
from aotc_runtime import BundleSlot, LoadedBundle, ShapeError, State
from aotc_runtime.serving.loaded_bundle import LoadedEntryPoint
from tests.conftest import Bundle
from tests.refusals import error_of

from ..samples import refused

IMAGE = np.zeros((8, 64), np.float32)


def load(bundle: Bundle) -> LoadedBundle:
    return aotc_runtime.load(bundle[0], trust=bundle[1])


def test_every_call_is_served_while_versions_change(digits_bundle: Bundle) -> None:
    slot = BundleSlot(load(digits_bundle))
    predict = slot["predict"]
    expected = predict(IMAGE)["probabilities"].copy()
    stop = threading.Event()
    failures: list[Any] = []

    def work() -> None:
        while not stop.is_set():
            try:
                result = predict(IMAGE)["probabilities"]
            except Exception as error:  # noqa: BLE001 - any error at all is the failure
                failures.append(error)
                return
            if not np.array_equal(result, expected):
                failures.append(result)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        old = slot.bundle
        slot.replace(load(digits_bundle), timeout=30)
        assert old.state is State.CLOSED
        assert slot.bundle.state is State.READY
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    slot.bundle.close()


def test_the_old_bundle_stays_open_as_long_as_a_call_runs_in_it(digits_bundle: Bundle) -> None:
    old, new = load(digits_bundle), load(digits_bundle)
    slot = BundleSlot(old)
    with slot.calling():
        error_of(TimeoutError, slot.replace, new, timeout=0.05)
        assert old.state is State.READY, "its call has not ended"
        assert slot.bundle is new, "new calls go to the new one"
    with slot.calling():
        last = load(digits_bundle)
        replacing = threading.Thread(target=slot.replace, args=(last,))
        replacing.start()
        while slot.bundle is not last:
            time.sleep(0.001)
        assert new.state is State.READY and replacing.is_alive()
    replacing.join(30)
    assert new.state is State.CLOSED
    old.close()
    last.close()


def test_every_way_of_calling_goes_through_the_slot(digits_bundle: Bundle) -> None:
    slot = BundleSlot(load(digits_bundle))
    predict = slot["predict"]
    expected = predict(IMAGE)["label"]
    np.testing.assert_array_equal(np.asarray(predict.on_device(IMAGE)["label"]), expected)
    np.testing.assert_array_equal(asyncio.run(predict.call_async(IMAGE))["label"], expected)
    error_of(ShapeError, asyncio.run, predict.call_async(IMAGE[:3]))
    slot.replace(load(digits_bundle), timeout=30)
    with refused("AOTC-E602"):
        slot["forecast"]
    slot.bundle.close()


def test_unready_bundle_is_refused_and_the_old_one_serves(digits_bundle: Bundle) -> None:
    path, policy = digits_bundle
    closed = aotc_runtime.load(path, trust=policy)
    closed.close()
    slot = BundleSlot(aotc_runtime.load(path, trust=policy))
    others: tuple[Any, ...] = (closed, str(path))
    for other in others:
        with refused("AOTC-E633"):
            slot.replace(other)
        error_of(ShapeError, BundleSlot, other)
    slot["predict"](np.zeros((1, 64), np.float32))
    slot.replace(aotc_runtime.load(path, trust=policy))
    slot["predict"](np.zeros((1, 64), np.float32))
    slot.bundle.close()


def test_a_slot_says_what_it_serves_and_refusals_are_answers(digits_bundle: Bundle) -> None:
    slot = BundleSlot(load(digits_bundle))
    assert repr(slot) == f"<slot with {slot.bundle!r}>" and "digits 1.0.0" in repr(slot)
    caught = error_of(ShapeError, slot["predict"], IMAGE.astype(np.float64))
    (told,) = json.loads(json.dumps([finding.to_json() for finding in caught.findings]))
    assert told["code"] == "AOTC-E606" and told["found"] == "float64"
    slot.bundle.close()


def test_parameter_may_be_self(digits: LoadedBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    resident = digits._resident
    assert resident is not None
    predict = resident.entry_points["predict"]
    parameter = msgspec.structs.replace(predict.spec.parameters[0], name="self")
    spec = msgspec.structs.replace(predict.spec, parameters=(parameter,))
    renamed = msgspec.structs.replace(predict, spec=spec)
    monkeypatch.setitem(digits.entry_points, "named", LoadedEntryPoint(renamed))
    expected = digits["predict"](IMAGE)["probabilities"]
    slot = BundleSlot(digits)
    for named in (slot["named"], digits["named"]):
        results = [
            named(self=IMAGE),
            named.on_device(self=IMAGE),
            asyncio.run(named.call_async(self=IMAGE)),
        ]
        for result in results:
            np.testing.assert_array_equal(np.asarray(result["probabilities"]), expected)
