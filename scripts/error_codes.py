"""Writes docs/reference/errors.md from the catalogues of codes: `python -m scripts.error_codes`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import aotc.base.codes
import aotc_runtime.base.codes
from aotc_runtime.base.codes import Family

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"

FAMILIES = (*aotc_runtime.base.codes.FAMILIES, *aotc.base.codes.FAMILIES)

HEAD = """\
# Error codes and exit codes

Every refusal has a stable code. Exceptions carry it (`error.code`, `error.findings`), the command
line prints it, and `--json` output holds it, always with the same four fields: where, expected,
found, hint. Codes and exit codes are never renumbered or reused.

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
    """The whole page."""
    return HEAD + "".join(_exit_codes()) + TAIL + "".join(map(_section, _families()))


def _families() -> list[Family]:
    """In the order of their codes. The toolchain adds codes to some of the runtime's families."""
    joined: dict[tuple[object, ...], Family] = {}
    for family in FAMILIES:
        *name, rows = family
        before = joined.get(tuple(name), family).rows
        joined[tuple(name)] = family._replace(rows=dict(sorted({**before, **rows}.items())))
    return sorted(joined.values(), key=lambda family: min(family.rows))


def _exit_codes() -> Iterator[str]:
    for exit_code, meaning in EXIT_CODES.items():
        codes = ", ".join(f.codes for f in _families() if f.error.exit_code == exit_code)
        yield f"| {exit_code} | {meaning} | {codes} |\n".replace("|  |", "| |")


def _section(family: Family) -> str:
    name = f"{family.error.__module__}.{family.error.__name__}"
    rows = "".join(
        f"| {code} | {row.meaning} | {row.remedy} |\n" for code, row in family.rows.items()
    )
    return (
        f"\n## {family.codes} {family.title} (`{name}`)\n\n"
        f"| code | meaning | what to do |\n|---|---|---|\n{rows}"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
