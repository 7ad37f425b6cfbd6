"""Write errors.md from the catalogues of error codes: `python -m scripts.error_codes`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from aotc.base.errors import family_of
from aotc_runtime.base.codes import Cause, codes, readable
from aotc_runtime.base.errors import AotcError


class Family(NamedTuple):
    """Codes with one exception class, and so one exit code.

    Attributes:
        prefixes: What its codes begin with.
        title: The heading on the page of error codes.
    """

    prefixes: tuple[str, ...]
    title: str

    @property
    def error(self) -> type[AotcError]:
        """The exception class."""
        return family_of(self.prefixes[0])

    @property
    def ranges(self) -> str:
        """The codes in short: "E50x, E51x"."""
        return ", ".join(p.removeprefix("AOTC-").ljust(4, "x") for p in self.prefixes)


FAMILIES: tuple[Family, ...] = (
    Family(("AOTC-E1",), "bundle format"),
    Family(("AOTC-E2",), "integrity"),
    Family(("AOTC-E3",), "trust"),
    Family(("AOTC-E4",), "runtime"),
    Family(("AOTC-E50", "AOTC-E51"), "host"),
    Family(("AOTC-E55",), "resources"),
    Family(("AOTC-E56",), "stores"),
    Family(("AOTC-E6",), "calls"),
    Family(("AOTC-E70",), "readiness"),
    Family(("AOTC-E75",), "backend"),
    Family(("AOTC-E76", "AOTC-E78"), "server"),
    Family(("AOTC-E77",), "registries"),
    Family(("AOTC-E0",), "usage"),
    Family(("AOTC-E80", "AOTC-E81"), "build manifest and target files"),
    Family(("AOTC-E82", "AOTC-E83", "AOTC-E84"), "capture"),
    Family(("AOTC-E90", "AOTC-E91"), "compile"),
    Family(("AOTC-E94",), "reproducibility"),
    Family(("AOTC-E95",), "parity"),
    Family(("AOTC-E96",), "fleets"),
    Family(("AOTC-E97",), "budgets"),
    Family(("AOTC-E981",), "Ctrl-C"),
    Family(("AOTC-E982",), "SIGTERM"),
    Family(("AOTC-E983",), "SIGHUP"),
)


PAGE = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"

HEAD = """\
# Error codes and exit codes

Every error has a stable code. Exceptions carry it (`error.code`, `error.findings`), the commands
print it, and `--json` output holds it, always with the same five fields: title, where, expected,
found, hint. A code can have several causes; each has a title of its own, listed below the code's.
Codes and exit codes are never renumbered or reused.

## Exit codes

| exit | meaning | codes |
|---|---|---|
"""

TAIL = """
The last four are what shells show for processes that these signals end.
"""

EXIT_CODES = {
    0: "ok",
    1: "internal error: a bug in aotc; please report it (`-v` prints the traceback)",
    2: "usage: wrong arguments, or a call that no executable serves",
    3: "build manifest or capture refused",
    4: "compile failed",
    5: "damaged or not trusted",
    6: "runtime not compatible",
    7: "host or device not suited",
    8: "parity failed",
    9: "budget or gate exceeded",
    10: "not reproduced",
    11: "a registry cannot be used",
    129: "SIGHUP stopped the command: its terminal went away",
    130: "Ctrl-C (SIGINT) stopped the command",
    141: "whoever read stdout went away, as with `aotc inspect b.aotb \\| head -1`; nothing is "
    "printed",
    143: "SIGTERM stopped the command",
}


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(_exit_codes()) + TAIL + "".join(map(_section, _families()))


def family_in(code: str) -> Family:
    """Return the family of a code of the catalogue."""
    return next(family for family in FAMILIES if code.startswith(family.prefixes))


def _families() -> list[Family]:
    """Return the families in the order of their codes."""
    return sorted(FAMILIES, key=lambda family: family.prefixes)


def _exit_codes() -> Iterator[str]:
    for exit_code, meaning in EXIT_CODES.items():
        ranges = ", ".join(f.ranges for f in _families() if f.error.exit_code == exit_code)
        yield f"| {exit_code} | {meaning} | {ranges} |\n".replace("|  |", "| |")


def _section(family: Family) -> str:
    name = f"{family.error.__module__}.{family.error.__name__}"
    listed = sorted(code for code in codes() if family_in(code) == family)
    return (
        f"\n## {family.ranges} {family.title} (`{name}`)\n\n"
        "| code | title | explanation | what to do |\n|---|---|---|---|\n"
        + "".join(row for code in listed for row in _rows(code))
    )


def _rows(code: str) -> Iterator[str]:
    entry = codes()[code]
    yield _row(code, entry)
    for cause in entry.causes.values():
        yield _row("", cause)


def _row(code: str, texts: Cause) -> str:
    cells = (code, texts.title, texts.explanation, readable(texts.hint))
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
