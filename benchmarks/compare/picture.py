"""The comparison as a picture: cold start by stage, and the median call, one row per peer."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from benchmarks.compare.contest import STAGES

COLORS = {
    "interpreter": "#b0b7c3",
    "import": "#7f9cf5",
    "load": "#f6ad55",
    "first call": "#48bb78",
}
CALL_COLOR = "#4a5568"
ROW, GAP, BAR = 18, 40, 12
LABEL_WIDTH, PANEL_WIDTH, PANEL_GAP, VALUE_WIDTH = 130, 330, 40, 60
WIDTH = LABEL_WIDTH + 2 * (PANEL_WIDTH + VALUE_WIDTH) + PANEL_GAP


def svg(document: dict[str, Any]) -> str:
    """The document of `benchmarks.compare` as SVG."""
    shapes: list[str] = []
    top = 30
    for index, (stage, color) in enumerate(COLORS.items()):
        x = LABEL_WIDTH + index * 110
        shapes += [_rect(x, 8, 10, color), _text(x + 15, 18, stage)]
    for case, results in document["cases"].items():
        shapes += list(_case(case, results, top))
        top += GAP + ROW * len(results)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top + 10}" '
        f'font-family="sans-serif" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(shapes) + "\n</svg>\n"
    )


def _case(case: str, results: dict[str, Any], top: int) -> Iterator[str]:
    second = LABEL_WIDTH + PANEL_WIDTH + VALUE_WIDTH + PANEL_GAP
    yield _text(10, top + 20, case, bold=True)
    yield _text(LABEL_WIDTH, top + 20, "process start to first result, ms")
    yield _text(second, top + 20, "a call afterwards (p50), us")
    ran = [result for result in results.values() if "left_out" not in result]
    longest = max((result["start_seconds"] for result in ran), default=1.0)
    slowest = max((result["p50_us"] for result in ran), default=1.0)
    for index, (name, result) in enumerate(results.items()):
        y = top + GAP - 12 + index * ROW
        yield _text(10, y + 10, name, bold=name == "aotc")
        if "left_out" in result:
            yield _text(LABEL_WIDTH, y + 10, f"left out: {result['left_out'][:110]}")
            continue
        x = float(LABEL_WIDTH)
        for stage in STAGES:
            width = PANEL_WIDTH * result["stages"][stage] / longest
            yield _rect(x, y, width, COLORS[stage])
            x += width
        yield _text(x + 5, y + 10, f"{result['start_seconds'] * 1000:.0f}")
        width = PANEL_WIDTH * result["p50_us"] / slowest
        yield _rect(second, y, width, CALL_COLOR)
        yield _text(second + width + 5, y + 10, f"{result['p50_us']:.1f}")


def _rect(x: float, y: float, width: float, color: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{color}"/>'


def _text(x: float, y: float, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y}"{weight}>{escape(text)}</text>'
