"""The catalogue of error codes: texts from data files, the runtime's `error_codes.toml` and others.

A load that succeeds neither imports this module nor reads a file: `aotc_runtime.base.errors` does
both when there is something to report.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

catalogues = [Path(__file__).with_name("error_codes.toml")]
"""The files with the texts; a package that has codes of its own adds one."""


class Cause(Struct, frozen=True, forbid_unknown_fields=True):
    """Texts for one cause of an error, in Markdown.

    `{name}` in `hint` and `expected` stands for a value that the call site gives; literal braces
    are doubled there.

    Attributes:
        title: At most eight words, for every message.
        explanation: One to three sentences, for the page of error codes and `aotc explain`.
        hint: What to do, as an imperative; empty where the title already says it.
        expected: What messages say was expected unless the call site says it; may be empty.
    """

    title: str
    explanation: str
    hint: str = ""
    expected: str = ""

    def words(
        self, expected: str | None, hint: str | None, values: Mapping[str, object]
    ) -> dict[str, str]:
        """Return a finding's fields with these texts, except those that the call site replaces."""
        return {
            "expected": self.expected.format_map(values) if expected is None else expected,
            "hint": self.hint.format_map(values) if hint is None else hint,
            "title": self.title,
        }


def readable(text: str) -> str:
    """Return a text of the catalogue for readers: each placeholder is its name in capitals."""
    return text.format_map(_Names())


class _Names(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name.upper()


class Code(Cause, frozen=True, forbid_unknown_fields=True):
    """Texts for one code, and for each of its causes, which inherit nothing from it."""

    causes: dict[str, Cause] = {}

    def of(self, cause: str) -> Cause:
        """Return the texts of a cause; of the code itself for the empty name."""
        return self.causes[cause] if cause else self


@cache
def read_codes(path: Path) -> Mapping[str, Code]:
    """Return the codes of a catalogue file."""
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, Code])


def codes() -> Mapping[str, Code]:
    """Return the codes of all catalogues."""
    return {code: texts for path in catalogues for code, texts in read_codes(path).items()}
