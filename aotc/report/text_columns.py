"""Tables of text whose rows are named by something long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

GAPS = (2, 1)
"""Columns of space between two cells: where there is room, and where there is not."""


def columns(
    header: Sequence[str], rows: Sequence[Sequence[str]], room: int, indent: int
) -> Iterator[tuple[str, bool]]:
    """Lines, each with whether it is the header. The first cell of a row is its name, on the left;
    the others are on the right of their columns.

    room: the most columns of a line. Where names leave too little of it for the others even with
    narrow gaps, each name stands on a line of its own, above them.
    """
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    gap = next((g for g in GAPS if indent + sum(widths) + g * (len(widths) - 1) <= room), 0)
    begin = " " * indent

    def numbers(row: Sequence[str], between: int) -> str:
        pairs = zip(row[1:], widths[1:], strict=True)
        return (" " * between).join(f"{cell:>{width}}" for cell, width in pairs)

    for row in (header, *rows):
        if gap:
            name = row[0].ljust(widths[0])
            yield f"{begin}{name}{' ' * gap}{numbers(row, gap)}", row is header
            continue
        if row is not header:
            yield f"{begin}{row[0]}", False
        yield f"{begin}{numbers(row, GAPS[-1])}", row is header
