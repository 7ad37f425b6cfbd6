"""The parts of a page, before it is HTML. All texts are plain; the template escapes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aotc.report.report_text import size


@dataclass(frozen=True, slots=True)
class Mark:
    """A word that is also a colour. tone: "good", "bad" or "plain"."""

    text: str
    tone: str


type Cell = str | Mark


@dataclass(frozen=True, slots=True)
class Column:
    """numeric: aligned at the right."""

    title: str
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The first cell of a row is its header."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with values."""

    rows: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph. tone: of a `Mark`."""

    text: str
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class Folded:
    """Parts that are shown when asked for."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Parts below a heading of their own."""

    title: str
    parts: tuple[Part, ...]


type Part = Table | Facts | Text | Folded | Group


@dataclass(frozen=True, slots=True)
class Section:
    """id: of its heading, ours."""

    id: str
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """title: name and version."""

    title: str
    root_digest: str
    trust: Mark
    sections: tuple[Section, ...]


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """columns: a leading ">" aligns one at the right."""
    titles = tuple(Column(title.removeprefix(">"), title.startswith(">")) for title in columns)
    return Table(caption, titles, tuple(tuple(row) for row in rows))


def amount(number: int, in_bytes: bool) -> str:
    """1.2 MB, or 1,234."""
    return size(number) if in_bytes else f"{number:,}"


def short(decimal: str) -> str:
    """1.79e-06, of a number as the manifest writes it; 0 as it is."""
    return f"{float(decimal):.2e}" if float(decimal) else "0"


def comma_list(names: Iterable[str]) -> str:
    """a, b; "-" for none."""
    return ", ".join(names) or "-"


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts as "add 3, dot 1", the largest first; "-" for none."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return comma_list(f"{name} {number:,}" for name, number in ordered)


def alike[K, V](items: Iterable[tuple[K, V]]) -> list[tuple[list[K], V]]:
    """Return keys whose values are equal together, in the order in which they come."""
    found: list[tuple[list[K], V]] = []
    for key, value in items:
        for keys, known in found:
            if known == value:
                keys.append(key)
                break
        else:
            found.append(([key], value))
    return found
