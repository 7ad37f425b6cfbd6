"""Many threads, futures, event loops and donations at once."""

import asyncio
import copy
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import aotc_runtime
from aotc_runtime import LoadedBundle, ShapeError
from tests.conftest import Bundle
from tests.waiting import in_threads

from ..samples import refused

THREADS = 32
SECONDS = 2.0


def images(count: int) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(1)
    sizes = (1, 8, 64)
    return [generator.uniform(0, 16, (sizes[i % 3], 64)).astype(np.float32) for i in range(count)]


def test_many_threads_get_their_own_results(digits: LoadedBundle) -> None:
    inputs = images(48)
    expected = [digits["predict"](image)["probabilities"].copy() for image in inputs]
    before = sum(digits["predict"].calls.values())
    end = time.monotonic() + SECONDS

    def work(number: int) -> int:
        index, served = number, 0
        while time.monotonic() < end:
            index = (index + 7) % len(inputs)
            result = digits["predict"](inputs[index])
            served += 1
            np.testing.assert_array_equal(result["probabilities"], expected[index])
        return served

    served = in_threads(THREADS, work)
    assert all(served), "no thread is starved"
    assert sum(digits["predict"].calls.values()) == before + sum(served), "every call is counted"


def test_awaiting_a_call_leaves_the_event_loop_free(digits: LoadedBundle) -> None:
    async def main() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        inputs = images(24)
        results = await asyncio.gather(*(digits["predict"].call_async(i) for i in inputs))
        ticking.cancel()
        for image, result in zip(inputs, results, strict=True):
            expected = digits["predict"](image)["label"]
            np.testing.assert_array_equal(result["label"], expected)
        return ticks

    assert asyncio.run(main()) > 1


def test_of_many_calls_that_donate_one_array_exactly_one_is_served(train: LoadedBundle) -> None:
    batch = {"image": np.zeros((64, 64), np.float32), "label": np.zeros(64, np.int32)}
    for _ in range(10):
        state = train["init"].on_device(0)
        outcomes = _at_once(8, lambda: train["train_step"].on_device(state, batch))  # noqa: B023
        assert sorted(outcomes) == ["AOTC-E631"] * 7 + ["served"]


def _at_once(count: int, call: Callable[[], Any]) -> list[str]:
    """Return what became of so many calls that begin together: "served" or an error code."""

    def work(_: int) -> str:
        try:
            call()
        except ShapeError as error:
            return error.code
        return "served"

    return in_threads(count, work)


def test_closing_while_calls_run_refuses_or_serves_and_nothing_else(digits_bundle: Bundle) -> None:
    image = images(2)[1]
    bundle = aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1])
    expected = bundle["predict"](image)["probabilities"].copy()
    outcomes: set[str] = set()
    results: list[np.ndarray[Any, Any]] = []

    def work() -> None:
        while True:
            try:
                results.append(bundle["predict"](image)["probabilities"])
            except ShapeError as error:
                outcomes.add(error.code)
                return

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    bundle.close()
    for thread in threads:
        thread.join(10)
    assert outcomes == {"AOTC-E633"}
    assert results and all(np.array_equal(result, expected) for result in results)


def test_reading_a_donated_array_gives_all_of_it_or_an_error(train: LoadedBundle) -> None:
    batch = {"image": np.ones((64, 64), np.float32), "label": np.zeros(64, np.int32)}
    for _ in range(20):
        state = train["init"].on_device(0)
        kernel = state["params"]["hidden"]["kernel"]
        expected = np.asarray(kernel)
        outcomes: list[bool | str] = []

        def read(kernel: Any = kernel, expected: Any = expected, out: Any = outcomes) -> None:
            try:
                for _ in range(50):
                    out.append(np.array_equal(np.asarray(kernel), expected))
            except ShapeError as error:
                out.append(error.code)

        reader = threading.Thread(target=read)
        reader.start()
        train["train_step"].on_device(state, batch)
        reader.join()
        assert set(outcomes) <= {True, "AOTC-E631"}


def test_a_copied_handle_knows_of_the_donation(train: LoadedBundle) -> None:
    state = train["init"].on_device(0)
    shallow, deep = copy.copy(state["step"]), copy.deepcopy(state["step"])
    batch = {"image": np.ones((64, 64), np.float32), "label": np.zeros(64, np.int32)}
    train["train_step"].on_device(state, batch)
    for handle in (shallow, deep):
        with refused("AOTC-E631"):
            np.asarray(handle)
