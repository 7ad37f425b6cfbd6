"""Explain an error code: `aotc explain AOTC-E806`."""

import re
import textwrap
from collections.abc import Iterator
from typing import Any

from aotc.base.errors import family_of, is_code
from aotc_runtime.base.codes import Cause, codes, readable

_CODE = re.compile(r"(?:AOTC-)?(E\d{3})", re.IGNORECASE)

WIDTH = 88


def code_named(text: str) -> str | None:
    """Return the error code that a text names, such as "e806"; None for any other text."""
    found = _CODE.fullmatch(text)
    code = f"AOTC-{found[1].upper()}" if found else ""
    return code if is_code(code) else None


def code_document(code: str) -> dict[str, Any]:
    """Return the document of `aotc explain CODE --json`."""
    entry = codes()[code]
    return {
        "code": code,
        "exit_code": family_of(code).exit_code,
        **_texts(entry),
        "causes": {name: _texts(cause) for name, cause in entry.causes.items()},
    }


def code_lines(code: str) -> Iterator[str]:
    """Yield the lines of an explanation, those of the code's causes below its own."""
    entry = codes()[code]
    yield f"{code}: {entry.title}"
    yield from _lines(entry)
    yield f"  exit code {family_of(code).exit_code}"
    for cause in entry.causes.values():
        yield ""
        yield f"{code}: {cause.title}"
        yield from _lines(cause)


def _texts(cause: Cause) -> dict[str, str]:
    return {"title": cause.title, "explanation": cause.explanation, "hint": readable(cause.hint)}


def _lines(cause: Cause) -> Iterator[str]:
    hint = readable(cause.hint)
    for text in (cause.explanation, f"hint: {hint}" if hint else ""):
        yield from textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
