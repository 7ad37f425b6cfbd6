"""The text of `aotc bench`, within 80 columns."""

from collections.abc import Iterator, Sequence
from typing import Any

from aotc.report.report_text import size
from aotc_runtime.base.rendering import printable

WIDTH = 80
LABEL_WIDTH = 26
NUMBER_WIDTH = 9

RATES_MAX = (WIDTH - LABEL_WIDTH) // NUMBER_WIDTH
"""Columns that fit; a machine with 256 cores has nine counts of threads."""


def bench_lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield the lines, for a document of `aotc.commands.bench.bench_processes.measure`."""
    machine = document["machine"]
    yield f"{printable(document['bundle'])} for {document['target']}"
    yield (
        f"on {machine['processor']}, {machine['cores']} cores, python {machine['python']}, "
        f"jaxlib {machine['jaxlib']}"
    )
    yield ""
    yield from _cold_start(document["cold_start"])
    peaks = document["peak_memory_bytes"].values()
    first, measured = ("unknown" if peak is None else size(peak) for peak in peaks)
    yield f"peak memory   {first} at the first result, {measured} after all calls"
    yield f"compilations  {document['compilations']}"
    executables = document["executables"]
    yield ""
    yield from _table(
        "microseconds",
        ("first", "p50", "p90", "p99"),
        [(each["label"], list(_microseconds(each))) for each in executables],
    )
    yield ""
    shown = [(each["label"], each["throughput"][-RATES_MAX:]) for each in executables]
    threads = [str(rate["threads"]) for rate in shown[0][1]]
    rows = [(label, [_number(r["calls_per_second"]) for r in rates]) for label, rates in shown]
    yield from _table("calls/s by threads", threads, rows)


def _cold_start(cold: dict[str, Any]) -> Iterator[str]:
    yield f"cold start, median of {cold['processes']} processes, ms"
    rows = {**cold["stages"], "first call": cold["first_call"]}
    for stage, seconds in rows.items():
        yield f"  {stage:<18} {seconds * 1000:8.1f}"
    yield f"  {'to first result':<18} {cold['total'] * 1000:8.1f}"


def _microseconds(executable: dict[str, Any]) -> Iterator[str]:
    yield _number(executable["first_call_us"])
    for percentile in ("p50", "p90", "p99"):
        yield _number(executable["steady_us"][percentile])


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}" if value < 1e7 else f"{value:.1e}"


def _table(
    title: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]
) -> Iterator[str]:
    yield f"{title:<{LABEL_WIDTH}}" + "".join(f"{name:>{NUMBER_WIDTH}}" for name in columns)
    for label, numbers in rows:
        cells = "".join(f"{number:>{NUMBER_WIDTH}}" for number in numbers)
        name = "  " + printable(label)
        if len(name) >= LABEL_WIDTH:
            yield name
            name = ""
        yield f"{name:<{LABEL_WIDTH}}{cells}"
