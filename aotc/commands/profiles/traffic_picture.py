"""Traffic and profiles as a picture: a bar for each range of sizes, a line for each profile; for
two dimensions also a map, in which a profile serves what lies below and left of its corner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from aotc.commands.profiles.size_histogram import bins
from aotc.commands.profiles.suggested_profiles import Suggestion
from aotc.commands.profiles.svg_drawing import Drawing, Line, Rect, Shape, Text
from aotc.commands.profiles.traffic.size_space import Axis

WIDTH, LEFT, PLOT = 760, 60, 660
BARS, HEIGHT, GAP = 110, 150, 60
CELLS, MAP = 48, 420
TRAFFIC, TODAY, SUGGESTED = "#7f9cf5", "#718096", "#dd6b20"


def picture(suggestion: Suggestion) -> Drawing:
    """The picture, WIDTH pixels wide."""
    space = suggestion.space
    shapes = list(_head(suggestion))
    top = 60
    for column, axis in enumerate(space.axes):
        shapes += _distribution(suggestion, column, axis, top)
        top += HEIGHT + GAP
    if len(space.axes) == 2:
        shapes += _map(suggestion, top)
        top += MAP + GAP
    return Drawing(WIDTH, top, tuple(shapes))


def _head(suggestion: Suggestion) -> Iterator[Shape]:
    served, today = suggestion.served, suggestion.today
    yield Text(LEFT, 20, f"{suggestion.space.entry_point}: {suggestion.traffic.requests:,} calls")
    for x, color, label in (
        (
            LEFT,
            TODAY,
            f"today: {len(suggestion.space.profiles)} profiles, {_figures(today.padding)}",
        ),
        (
            LEFT + 330,
            SUGGESTED,
            f"suggested: {len(suggestion.profiles)} profiles, {_figures(served.padding)}",
        ),
    ):
        yield Rect(x, 31, 10, 10, color)
        yield Text(x + 15, 40, label)


def _figures(padding: float) -> str:
    return f"{100 * padding:.1f} % padding"


def _distribution(suggestion: Suggestion, column: int, axis: Axis, top: float) -> Iterator[Shape]:
    sizes, counts = suggestion.accepted.points[:, column], suggestion.accepted.counts
    edges = bins(sizes, BARS)
    totals = np.bincount(np.searchsorted(edges, sizes, side="right") - 1, counts, len(edges) - 1)
    low, high = float(edges[0]), float(edges[-1])
    yield Text(LEFT, top - 6, f"calls by {axis.name}")

    def place(size: float) -> float:
        return LEFT + PLOT * (size - low) / max(1.0, high - low)

    for begin, end, total in zip(edges[:-1], edges[1:], totals, strict=True):
        tall = HEIGHT * float(total) / float(totals.max())
        wide = max(0.5, place(float(end)) - place(float(begin)) - 0.5)
        yield Rect(place(float(begin)), top + HEIGHT - tall, wide, tall, TRAFFIC)
    for color, profiles, dashes in (
        (TODAY, suggestion.space.profiles, True),
        (SUGGESTED, suggestion.profiles, False),
    ):
        for size in _sizes(profiles, axis.name):
            x = place(min(size + 1.0, high))
            yield Line(x, top, x, top + HEIGHT, color, dashes)
            if color == SUGGESTED:
                yield Text(x - 4, top + HEIGHT + 12, str(size), end=True)
    yield Line(LEFT, top + HEIGHT, LEFT + PLOT, top + HEIGHT, "black")


def _sizes(profiles: Sequence[Mapping[str, int]], name: str) -> list[int]:
    return sorted({sizes[name] for sizes in profiles})


def _map(suggestion: Suggestion, top: float) -> Iterator[Shape]:
    first, second = suggestion.space.axes
    points, counts = suggestion.accepted.points, suggestion.accepted.counts
    across, up = bins(points[:, 1], CELLS), bins(points[:, 0], CELLS)
    table = np.zeros((len(up) - 1, len(across) - 1))
    rows = np.searchsorted(up, points[:, 0], side="right") - 1
    columns = np.searchsorted(across, points[:, 1], side="right") - 1
    np.add.at(table, (rows, columns), counts)
    shade = np.log1p(table) / np.log1p(table.max())

    def x(size: float) -> float:
        return LEFT + PLOT * (size - float(across[0])) / max(1.0, float(across[-1] - across[0]))

    def y(size: float) -> float:
        return top + MAP - MAP * (size - float(up[0])) / max(1.0, float(up[-1] - up[0]))

    yield Text(LEFT, top - 6, f"calls by {second.name} (right) and {first.name} (up), darker: more")
    for row, column in np.argwhere(table > 0):
        left, bottom = x(float(across[column])), y(float(up[row]))
        wide, tall = x(float(across[column + 1])) - left, bottom - y(float(up[row + 1]))
        opacity = 0.08 + 0.92 * float(shade[row, column])
        yield Rect(left, bottom - tall, wide, tall, TRAFFIC, opacity)
    for color, profiles, dashes in (
        (TODAY, suggestion.space.profiles, True),
        (SUGGESTED, suggestion.profiles, False),
    ):
        for sizes in profiles:
            right = x(min(sizes[second.name] + 1.0, float(across[-1])))
            above = y(min(sizes[first.name] + 1.0, float(up[-1])))
            yield Line(LEFT, above, right, above, color, dashes)
            yield Line(right, above, right, top + MAP, color, dashes)
            if color == SUGGESTED:
                label = f"{sizes[first.name]} x {sizes[second.name]}"
                yield Text(right - 3, above + 12, label, end=True)
