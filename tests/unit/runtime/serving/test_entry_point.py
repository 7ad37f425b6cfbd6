"""Counting calls and their latency."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np

import aotc_runtime
from aotc_runtime.serving.call_metrics import latency_of
from aotc_runtime.serving.served_call import BUCKETS, CallCounter


def test_buckets_are_cumulative_and_end_at_the_slowest_call() -> None:
    counter = CallCounter()
    for nanoseconds in (3, 4, 7, 1000, 0):
        counter.observe(nanoseconds)
    latency = latency_of(counter)
    assert latency.calls == counter.calls == 5
    assert latency.seconds == 1014 / 1e9
    assert latency.bounds[0] == 1 / 1e9 and latency.bounds[-1] == 1024 / 1e9
    assert latency.cumulative == (1, 1, 2, 4, 4, 4, 4, 4, 4, 4, 5)


def test_a_call_of_any_length_is_counted() -> None:
    counter = CallCounter()
    counter.observe(2**60)
    assert latency_of(counter).bounds == (2 ** (BUCKETS - 1) / 1e9,)
    assert latency_of(counter).cumulative == (1,)


def test_no_call_is_lost_between_threads() -> None:
    counter = CallCounter()

    def work() -> None:
        for _ in range(5000):
            counter.observe(10)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert latency_of(counter).cumulative == (40_000,)


def test_an_unused_executable_has_an_empty_histogram() -> None:
    assert latency_of(CallCounter()).to_json() == {"calls": 0, "seconds": 0.0, "at_most": []}


def test_the_report_holds_latency_by_executable(digits_bundle: tuple[Path, Path]) -> None:
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        bundle["predict"](np.zeros((8, 64), np.float32))
        bundle["predict"].on_device(np.zeros((8, 64), np.float32))
        report = json.loads(json.dumps(bundle.report()))
    latency = report["entry_points"]["predict"]["paths"]["exact"]
    assert latency["predict[batch=8]"]["calls"] == 2
    assert latency["predict[batch=8]"]["at_most"][-1]["calls"] == 2
    assert latency["predict[batch=64]"]["calls"] == 0
