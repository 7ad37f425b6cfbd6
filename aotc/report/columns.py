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

    room: the most columns of a line. Where names leave too little for the others even with narrow
    gaps, each stands on a line of its own above them.
    """
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]

    def cells(row: Sequence[str], gap: int, first: int) -> str:
        name = " " * indent + row[0].ljust(first)
        rest = (
            f"{' ' * gap}{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)
        )
        return name + "".join(rest)

    whole = indent + sum(widths)
    for gap in GAPS:
        if whole + gap * (len(widths) - 1) <= room:
            for row in (header, *rows):
                yield cells(row, gap, widths[0]), row is header
            return
    first = len(header[0])
    for row in (header, *rows):
        if row is not header:
            yield " " * indent + row[0], False
        yield cells((header[0] if row is header else "", *row[1:]), GAPS[-1], first), row is header
