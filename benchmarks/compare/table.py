"""The comparison as text. A ratio below 1 is one that aotc loses, and is marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HEAD = (
    f"{'':<16}{'start':>7}{'import':>8}{'load':>7}{'first':>7}{'RSS':>6}{'file':>8}"
    f"{'p50':>9}{'p90':>9}   {'start':>6}{'RSS':>8}{'file':>8}{'p50':>8}{'p50':>8}"
)
UNITS = (
    f"{'':<16}{'ms':>7}{'ms':>8}{'ms':>7}{'ms':>7}{'MB':>6}{'kB':>8}"
    f"{'us':>9}{'us':>9}   {'of aotc; < is where aotc loses':>30}{'--tune':>8}"
)
OURS = {"aotc": "to_ours", "aotc --tune": "to_tuned"}

LOSS_BELOW = 0.95
"""Closer than that is noise on a shared machine."""


def lines(document: dict[str, Any]) -> Iterator[str]:
    """The lines of a document of `benchmarks.compare`."""
    machine = ", ".join(f"{key} {value}" for key, value in document["machine"].items())
    yield f"{document['rounds']} rounds in turns, {document['seconds']} s of calls each ({machine})"
    for case, results in document["cases"].items():
        yield ""
        yield case
        yield HEAD
        yield UNITS
        for name, result in results.items():
            yield _row(name, result)


def _row(name: str, result: dict[str, Any]) -> str:
    if "left_out" in result:
        return f"  {name:<14} left out: {result['left_out']}"
    stages = result["stages"]
    # The interpreter's own start is the same for all: it is in `start` and has no column.
    milliseconds = [result["start_seconds"], stages["import"], stages["load"], stages["first call"]]
    start, imported, load, first = (f"{value * 1000:.0f}" for value in milliseconds)
    row = (
        f"  {name:<14}{start:>7}{imported:>8}{load:>7}{first:>7}"
        f"{result['peak_bytes'] / 1e6:>6.0f}{result['artifact_bytes'] / 1e3:>8.1f}"
        f"{result['p50_us']:>9.1f}{result['p90_us']:>9.1f}   "
    )
    if "to_ours" in result and name != "aotc":
        ratios = result["to_ours"]
        row += "".join(_ratio(ratios[key]) for key in ("start", "peak", "artifact", "p50"))
    if "to_tuned" in result and not name.startswith("aotc"):
        row += _ratio(result["to_tuned"]["p50"])
    if "bandwidth_part" in result:
        row += f"  {result['bandwidth_part']:.2f} of a read loop's bandwidth"
    return row.rstrip()


def _ratio(value: float) -> str:
    return f"{value:6.2f}{'<' if value < LOSS_BELOW else ' '} "


def tuned_lines(document: dict[str, Any]) -> Iterator[str]:
    """A Markdown table of the median call: others' time divided by ours, untuned and tuned."""
    others = [
        name
        for name in dict.fromkeys(name for case in document["cases"].values() for name in case)
        if not name.startswith("aotc")
    ]
    columns = ["aotc --tune / aotc", *(f"{name} / {by}" for name in others for by in OURS)]
    yield f"| | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for case, results in document["cases"].items():
        cells = [_p50(results.get("aotc --tune", {}), "to_ours")]
        for name in others:
            cells += [_p50(results.get(name, {}), base) for base in OURS.values()]
        yield f"| {case} | {' | '.join(cells)} |"


def _p50(result: dict[str, Any], base: str) -> str:
    return f"{result[base]['p50']:.2f}" if base in result else "-"
