"""Reading traffic: which sizes were asked for, and how often.

A log is JSON lines, CSV, or what `bundle.report()` returned, each plain or compressed with gzip.
Equal lines are decoded once: a million requests have few distinct ones.
"""

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from aotc.base.errors import refusal
from aotc.commands.profiles.size_space import Counts, Points, Space
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.pytrees import INTEGER_MAX
from aotc_runtime.system.regular_files import open_regular

LINES_KEPT, KEPT_BYTES_MAX = 2**16, 2**10
"""Number of distinct lines that are decoded once only, and their longest length in bytes."""

LINE_BYTES_MAX = 2**20
REPORT_BYTES_MAX = 16 * 2**20
"""Enough for all sizes of a report, at about 100 bytes each. Limited because the decoded document
may take thirty times as much memory as its text."""

REQUESTS_MAX = 2**53
"""Counts are added up and multiplied by costs in float64, which holds all numbers up to this."""

SHOWN = 5
"""How many bad lines are reported one by one; further ones are only counted."""

GZIP = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

type Key = tuple[int, ...]
"""The sizes of a call, in the order of the dimensions' names."""

type Decode = Callable[[bytes], dict[str, Any]]
"""From a line to its fields. Raises BadLineError."""


class BadLineError(Exception):
    """The reason why a line cannot be used."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was left out. number: from 1."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """Distinct sizes, sorted, and how often each was asked for.

    lines: how many were read.  bad: the first of those left out.  bad_lines: how many those are.
    other: requests of other entry points.
    """

    points: Points
    counts: Counts
    lines: int = 0
    bad: tuple[BadLine, ...] = ()
    bad_lines: int = 0
    other: int = 0

    @property
    def requests(self) -> int:
        """The number of requests."""
        return int(self.counts.sum())


def within(space: Space, traffic: Traffic) -> tuple[Traffic, dict[str, NDArray[np.bool_]]]:
    """Return the requests that a space accepts, and masks of the others by reason."""
    refused = space.refusals(traffic.points)
    accepted = ~np.any([*refused.values(), np.zeros(len(traffic.points), dtype=bool)], axis=0)
    return Traffic(traffic.points[accepted], traffic.counts[accepted]), refused


class _Gathered:
    """The contents of a log, line by line; each has to state all dimensions (`names`)."""

    def __init__(self, entry_point: str, names: tuple[str, ...]) -> None:
        self.entry_point, self.names = entry_point, names
        self.sizes: Counter[Key] = Counter()
        self.bad: list[BadLine] = []
        self.lines = self.bad_lines = self.other = 0

    def count_line(self, fields: dict[str, Any]) -> tuple[Key, int] | None:
        """Return a line's sizes and count; None for another entry point. Raises BadLineError."""
        if fields.get("entry_point", self.entry_point) != self.entry_point:
            return None
        return sizes_and_count(fields, self.names)

    def add(self, counted: Callable[[], tuple[Key, int] | None]) -> None:
        """Count the next line, or leave it out."""
        self.lines += 1
        try:
            found = counted()
        except BadLineError as error:
            self.bad_lines += 1
            if len(self.bad) < SHOWN:
                self.bad.append(BadLine(self.lines, str(error)))
            return
        if found is None:
            self.other += 1
        else:
            self.sizes[found[0]] += found[1]

    def traffic(self) -> Traffic:
        keys = sorted(self.sizes)
        return Traffic(
            points=np.array(keys, dtype=np.int64).reshape(len(keys), len(self.names)),
            counts=np.array([self.sizes[key] for key in keys], dtype=np.int64),
            lines=self.lines,
            bad=tuple(self.bad),
            bad_lines=self.bad_lines,
            other=self.other,
        )


def read_traffic(path: Path, entry_point: str, dimensions: Sequence[str]) -> Traffic:
    """Read a log of one entry point's calls; every line needs all `dimensions`, which are sorted.

    Raises UsageError: AOTC-E040 the file is unreadable, E041 it has nothing on this entry point.
    """
    gathered = _Gathered(entry_point, tuple(dimensions))
    try:
        with open_regular(path) as file:
            is_gzip = file.read(2) == GZIP
            file.seek(0)
            stream: Any = gzip.GzipFile(fileobj=file) if is_gzip else file
            _read(stream, gathered, path)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, getattr(error, "strerror", None) or str(error)) from error
    except BadLineError as error:
        raise _unreadable(path, f"a first line that is {error}") from error
    if not gathered.sizes:
        raise _nothing(path, gathered)
    if (requests := gathered.sizes.total()) > REQUESTS_MAX:
        raise _unreadable(path, f"{requests} requests, more than {REQUESTS_MAX}")
    return gathered.traffic()


def _read(stream: IO[bytes], into: _Gathered, path: Path) -> None:
    read = partial(stream.readline, REPORT_BYTES_MAX + 1)
    first = read().removeprefix(BYTE_ORDER_MARK)
    while first.isspace():
        into.lines += 1
        first = read()
    if not first.startswith(b"{"):
        header = [cell.strip() for cell in cells_of(first)]
        if missing := [name for name in into.names if name not in header]:
            raise _nothing_named(path, missing, header)
        into.lines += 1
        _lines(b"", stream, partial(csv_fields, header, into.names), into)
    elif _is_report(first):
        data = first + stream.read(REPORT_BYTES_MAX - len(first) + 1)
        if len(data) > REPORT_BYTES_MAX:
            raise _unreadable(path, f"a report of more than {REPORT_BYTES_MAX} bytes")
        _report(data, into, path)
    else:
        _lines(first, stream, json_fields, into)


def _is_report(first: bytes) -> bool:
    """Return whether it is a JSON document over several lines, or lists entry points."""
    try:
        document = msgspec.json.decode(first)
    except (ValueError, RecursionError):  # msgspec's DecodeError is a ValueError
        # A broken first line among whole ones ends like one.
        return not first.rstrip().endswith(b"}")
    return "entry_points" in document


def _report(data: bytes, into: _Gathered, path: Path) -> None:
    try:
        entries = msgspec.json.decode(data)["entry_points"]
        shapes = entries.pop(into.entry_point, {}).get("shapes", ())
        others = [shape for entry in entries.values() for shape in entry.get("shapes", ())]
        into.other = sum(int(shape["count"]) for shape in others)
        into.lines = 0
        for shape in shapes:
            into.add(partial(into.count_line, shape))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        found = f"a JSON document that is not a report with entry_points and their shapes: {error}"
        raise _unreadable(path, found) from error


def _lines(first: bytes, stream: IO[bytes], decode: Decode, into: _Gathered) -> None:
    """Count a first line, unless it is empty, and those behind it; equal lines are decoded once."""

    @lru_cache(maxsize=LINES_KEPT)
    def counted(line: bytes) -> tuple[Key, int] | None:
        return into.count_line(decode(line))

    rest = iter(partial(stream.readline, LINE_BYTES_MAX + 2), b"")
    for line in chain([first] if first else [], rest):
        line = line.rstrip(b"\r\n")
        if len(line) > LINE_BYTES_MAX:
            raise OSError(f"a line of more than {LINE_BYTES_MAX} bytes")
        if line.strip():
            read = counted if len(line) <= KEPT_BYTES_MAX else counted.__wrapped__
            into.add(partial(read, line))
        else:
            into.lines += 1


_DECODER = msgspec.json.Decoder()


def json_fields(line: bytes) -> dict[str, Any]:
    """Return the fields of a JSON object."""
    try:
        found = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLineError(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadLineError("not a JSON object")
    return found


def csv_fields(header: list[str], names: tuple[str, ...], line: bytes) -> dict[str, Any]:
    """Return the fields of a row below this header, which has all of these names."""
    cells = cells_of(line)
    if len(cells) != len(header):
        raise BadLineError(f"{len(cells)} columns instead of {len(header)}")
    row: dict[str, Any] = dict(zip(header, cells, strict=True))
    for name in (*names, "count"):
        text = row.get(name, "").strip()
        if text.isascii() and text.isdigit() and len(text) < 20:
            row[name] = int(text)
    return row


def cells_of(line: bytes) -> list[str]:
    """Return the cells of one row of CSV. Raises BadLineError."""
    try:
        return next(csv.reader([line.decode()]), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadLineError(f"not CSV: {error}") from error


def sizes_and_count(found: dict[str, Any], names: tuple[str, ...]) -> tuple[Key, int]:
    """Parse {"batch": 3}, {"batch": 3, "count": 7} or {"sizes": {...}, "count": 7}.

    Raises BadLineError.
    """
    sizes = found.get("sizes", found)
    if not isinstance(sizes, dict):
        raise BadLineError("sizes is not an object")
    key = tuple(_positive(sizes, name) for name in names)
    return key, _positive({"count": 1, **found}, "count")


def _positive(found: dict[str, Any], name: str) -> int:
    value = found.get(name)
    if value is None:
        raise BadLineError(f"no {name}")
    if type(value) is not int or not 1 <= value <= INTEGER_MAX:
        raise BadLineError(f"{name} is {value!r}, not a positive integer")
    return value


def describe_bad(traffic: Traffic) -> Iterator[str]:
    """Yield a line for each of the first ignored calls, then their number."""
    for line in traffic.bad:
        yield f"line {line.number} left out: {line.reason}"
    if traffic.bad_lines > len(traffic.bad):
        yield f"{traffic.bad_lines} of {traffic.lines} lines left out"


def _unreadable(path: Path, found: str) -> AotcError:
    return refusal("AOTC-E040", str(path), found)


def _nothing_named(path: Path, missing: Sequence[str], header: Sequence[str]) -> AotcError:
    line = ", ".join(f'"{name}": 3' for name in missing)
    found = ", ".join(header)[:200] or "an empty file"
    cause = "traffic-log-does-not-name-the-dimensions"
    expected = f"columns {', '.join(missing)}"
    hint = f"write a line such as `{{{line}}}` for each call, or a first line of column names"
    return refusal("AOTC-E041", str(path), found, cause=cause, expected=expected, hint=hint)


def _nothing(path: Path, gathered: _Gathered) -> AotcError:
    found = f"{gathered.lines} lines"
    if gathered.bad:
        found += f"; line {gathered.bad[0].number}: {gathered.bad[0].reason}"
    elif gathered.other:
        found += f"; {gathered.other} calls of other entry points"
    expected = f"sizes of {', '.join(gathered.names)} for {gathered.entry_point}"
    return refusal("AOTC-E041", str(path), found, expected=expected)
