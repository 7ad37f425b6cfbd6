"""Tests of an entry point's counters: calls, their latency, padding and shapes."""

import json
import pathlib

import numpy as np

import aotc_runtime
from aotc_runtime.serving.call_metrics import (
    SHAPES_MAX,
    CallMetrics,
    Counted,
    Padding,
    Path,
    latency_of,
)
from aotc_runtime.serving.served_call import BUCKETS, CallCounter
from tests.waiting import in_threads


def test_calls_are_counted_by_path_and_executable() -> None:
    exact = Counted((("batch", 8),), "f[batch=8]", CallCounter())
    metrics = CallMetrics([exact])
    exact.counter.observe(1)
    metrics.count(Path.RANGE, "f[batch=8]", None, 0, 1)
    metrics.count(Path.PAD, "f[batch=8]", Padding(6, 2, 10), 0, 1)
    metrics.count(Path.SPLIT, "f[batch=8]", Padding(3, 1, 5), 2, 1)
    metrics.count(Path.SPLIT, "f[batch=8]", None, 3, 1)
    metrics.count(Path.COMPILED, "f[compiled]", None, 0, 1)
    assert metrics.calls == {"f[batch=8]": 5, "f[compiled]": 1}
    report = metrics.report()
    assert {
        path: {label: each["calls"] for label, each in labels.items()}
        for path, labels in report["paths"].items()
    } == {
        "exact": {"f[batch=8]": 1},
        "range": {"f[batch=8]": 1},
        "pad": {"f[batch=8]": 1},
        "split": {"f[batch=8]": 2},
        "compiled": {"f[compiled]": 1},
    }
    assert report["padding"] == {
        "calls": 2,
        "elements": 9,
        "filled": 3,
        "overhead": 3 / 9,
        "flops": 15,
    }
    assert report["splits"] == {"calls": 2, "parts": 5}


def test_shapes_seen_are_those_of_profiles_and_all_others_the_most_frequent_first() -> None:
    exact = [
        Counted((("batch", 8),), "f[batch=8]", CallCounter()),
        Counted((("batch", 9),), "f[batch=9]", CallCounter()),
    ]
    metrics = CallMetrics(exact)
    metrics.count_sizes((("batch", 3),))
    metrics.count_sizes((("batch", 3),))
    exact[0].counter.observe(1)
    assert metrics.report()["shapes"] == [
        {"sizes": {"batch": 3}, "count": 2},
        {"sizes": {"batch": 8}, "count": 1},
    ]


def test_rare_shapes_are_forgotten_and_counted_as_dropped() -> None:
    metrics = CallMetrics([])
    frequent = [(("n", size),) for size in range(5)]
    for sizes in (*frequent * 5, *((("n", 5 + size),) for size in range(3 * SHAPES_MAX))):
        metrics.count_sizes(sizes)
    report = metrics.report()
    assert len(report["shapes"]) == SHAPES_MAX
    assert [each["count"] for each in report["shapes"][:6]] == [5] * 5 + [1]
    assert report["shapes_dropped"] == 2 * SHAPES_MAX + 5


def test_buckets_are_cumulative_and_end_at_the_slowest_call() -> None:
    counter = CallCounter()
    for nanoseconds in (3, 4, 7, 1000, 0):
        counter.observe(nanoseconds)
    latency = latency_of(counter)
    assert latency.calls == 5
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

    in_threads(8, lambda _: [counter.observe(10) for _ in range(5000)])
    assert latency_of(counter).cumulative == (40_000,)


def test_an_unused_executable_has_an_empty_histogram() -> None:
    assert latency_of(CallCounter()).to_json() == {"calls": 0, "seconds": 0.0, "at_most": []}


def test_report_holds_latency(digits_bundle: tuple[pathlib.Path, pathlib.Path]) -> None:
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        bundle["predict"](np.zeros((8, 64), np.float32))
        bundle["predict"].on_device(np.zeros((8, 64), np.float32))
        report = json.loads(json.dumps(bundle.report()))
    latency = report["entry_points"]["predict"]["paths"]["exact"]
    assert latency["predict[batch=8]"]["calls"] == 2
    assert latency["predict[batch=8]"]["at_most"][-1]["calls"] == 2
    assert latency["predict[batch=64]"]["calls"] == 0
