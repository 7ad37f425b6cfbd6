"""What an entry point counts outside of its profiles."""

from __future__ import annotations

from aotc_runtime.serving.call_metrics import SHAPES_MAX, CallMetrics, Exact, Padding, Path
from aotc_runtime.serving.served_call import CallCounter


def test_calls_are_counted_by_path_and_executable() -> None:
    exact = Exact((("batch", 8),), "f[batch=8]", CallCounter())
    metrics = CallMetrics([exact])
    exact.counter.observe(1)
    metrics.count(Path.PAD, "f[batch=8]", Padding(6, 2, 10), 0, 1)
    metrics.count(Path.SPLIT, "f[batch=8]", Padding(3, 1, 5), 2, 1)
    metrics.count(Path.SPLIT, "f[batch=8]", None, 3, 1)
    metrics.count(Path.COMPILED, "f[compiled]", None, 0, 1)
    assert metrics.calls == {"f[batch=8]": 4, "f[compiled]": 1}
    report = metrics.report()
    assert {
        path: {label: each["calls"] for label, each in labels.items()}
        for path, labels in report["paths"].items()
    } == {
        "exact": {"f[batch=8]": 1},
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
        Exact((("batch", 8),), "f[batch=8]", CallCounter()),
        Exact((("batch", 9),), "f[batch=9]", CallCounter()),
    ]
    metrics = CallMetrics(exact)
    metrics.seen((("batch", 3),))
    metrics.seen((("batch", 3),))
    exact[0].counter.observe(1)
    assert metrics.report()["shapes"] == [
        {"sizes": {"batch": 3}, "count": 2},
        {"sizes": {"batch": 8}, "count": 1},
    ]


def test_rare_shapes_are_forgotten_and_counted_as_dropped() -> None:
    metrics = CallMetrics([])
    frequent = [(("n", size),) for size in range(5)]
    for sizes in (*frequent * 5, *((("n", 5 + size),) for size in range(3 * SHAPES_MAX))):
        metrics.seen(sizes)
    report = metrics.report()
    assert len(report["shapes"]) == SHAPES_MAX
    assert [each["count"] for each in report["shapes"][:6]] == [5] * 5 + [1]
    assert report["shapes_dropped"] == 2 * SHAPES_MAX + 5
