"""Decoding one line of a log, JSON or CSV, to the sizes of a call and how often it was made."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

import msgspec

from aotc_runtime.schema.pytrees import INTEGER_MAX

type Key = tuple[int, ...]
"""The sizes of a call, in the order of the dimensions' names."""

type Decode = Callable[[bytes], tuple[Key, int] | None]
"""From a line to its sizes and count; None if it is of another entry point. Raises BadLineError."""


class BadLineError(Exception):
    """Why a line cannot be used."""


def json_decoder(entry_point: str, names: tuple[str, ...]) -> Decode:
    """A decoder of JSON objects. names: of all dimensions, each of which a line has to state."""
    decoder = msgspec.json.Decoder()

    def decode(line: bytes) -> tuple[Key, int] | None:
        try:
            found = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadLineError(f"not JSON: {error}") from error
        if not isinstance(found, dict):
            raise BadLineError("not a JSON object")
        if found.get("entry_point", entry_point) != entry_point:
            return None
        return sizes_and_count(found, names)

    return decode


def sizes_and_count(found: dict[str, Any], names: tuple[str, ...]) -> tuple[Key, int]:
    """Sizes and count of {"batch": 3}, {"batch": 3, "count": 7} or {"sizes": {...}, "count": 7}.

    Raises BadLineError.
    """
    sizes = found.get("sizes", found)
    if not isinstance(sizes, dict):
        raise BadLineError("sizes is not an object")
    return tuple(_positive(sizes, name) for name in names), _positive(
        {"count": 1, **found}, "count"
    )


def _positive(found: dict[str, Any], name: str) -> int:
    value = found.get(name)
    if value is None:
        raise BadLineError(f"no {name}")
    if type(value) is not int or not 1 <= value <= INTEGER_MAX:
        raise BadLineError(f"{name} is {value!r}, not a positive integer")
    return value


def csv_decoder(header: list[str], entry_point: str, names: tuple[str, ...]) -> Decode:
    """A decoder of rows below this header. names: as for `json_decoder`; all are in the header."""

    def decode(line: bytes) -> tuple[Key, int] | None:
        cells = cells_of(line)
        if len(cells) != len(header):
            raise BadLineError(f"{len(cells)} columns instead of {len(header)}")
        row: dict[str, Any] = dict(zip(header, cells, strict=True))
        if row.get("entry_point", entry_point) != entry_point:
            return None
        for name in (*names, "count"):
            text = row.get(name, "").strip()
            if text.isascii() and text.isdigit() and len(text) < 20:
                row[name] = int(text)
        return sizes_and_count(row, names)

    return decode


def cells_of(line: bytes) -> list[str]:
    """The cells of one row of CSV. Raises BadLineError."""
    try:
        return next(csv.reader([line.decode()]), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadLineError(f"not CSV: {error}") from error
