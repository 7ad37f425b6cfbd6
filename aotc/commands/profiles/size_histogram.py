"""A distribution of sizes on a terminal, with the profiles that serve it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

ROWS = 16
BAR = 40


def histogram(
    name: str, sizes: NDArray[np.int64], counts: NDArray[np.int64], profiles: Collection[int]
) -> Iterator[str]:
    """Lines of at most 80 columns: a row for each range of sizes, and its profiles behind it.

    sizes, counts: int64[n], each size perhaps several times.
    """
    edges = bins(sizes)
    rows = np.searchsorted(edges, sizes, side="right") - 1
    totals = np.bincount(rows, counts, len(edges) - 1)
    width = len(str(int(edges[-1] - 1)))
    yield f"  {name}"
    for low, high, total in zip(edges[:-1], edges[1:] - 1, totals, strict=True):
        span = f"{low:>{width}}" if low == high else f"{low:>{width}} to {high}"
        bar = "#" * round(BAR * total / totals.max())
        bar = bar or ("." if total else "")
        inside = [str(size) for size in sorted(profiles) if low <= size <= high]
        marks = _fitting(inside, 80 - (2 * width + 8 + BAR + 9 + 3))
        share = f"{100 * total / totals.sum():.1f} %"
        yield f"  {span:<{2 * width + 4}}  {bar:<{BAR}}{share:>8} {marks}".rstrip()


def bins(sizes: NDArray[np.int64], number: int = ROWS) -> NDArray[np.int64]:
    """int64[at most number + 1]: where ranges of equal width begin, and where the last one ends."""
    low, high = int(sizes.min()), int(sizes.max())
    step = max(1, -(-(high + 1 - low) // number))
    return np.append(np.arange(low, high + 1, step), high + 1)


def _fitting(marks: list[str], room: int) -> str:
    text = "< " + " ".join(marks) if marks else ""
    if len(text) <= room:
        return text
    return f"< {len(marks)} profiles"[:room]
