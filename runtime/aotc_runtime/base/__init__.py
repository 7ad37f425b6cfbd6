"""Errors, codes, limits, digests and canonical JSON.

What errors and their texts have in common is here: each of the two modules needs it, and errors
import the texts when there is something to report.
"""

from msgspec import Struct


def encodable(text: str) -> str:
    """Return text without bytes that are no UTF-8 (surrogates in Python).

    File names may hold them, and JSON cannot.
    """
    return text.encode(errors="backslashreplace").decode()


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def ulps(number: int) -> str:
    """Return a distance in units in the last place; larger numbers say no more than the limit."""
    return str(number) if number <= 1_000_000 else ">1e6"


class Finding(Struct, frozen=True):
    """One error: its code and title, its place, and what to do.

    Attributes:
        code: Stable, `AOTC-E…`.
        where: The file with the key path, the blob, or the entry point.
        expected, found: A value or a short noun phrase; empty where it would add nothing.
        hint: What to do or type next; may be empty.
        title: The catalogue's, by code and cause; empty in findings that other versions made.
    """

    code: str
    where: str
    expected: str
    found: str
    hint: str
    title: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the finding's fields as JSON-able text."""
        names = ("code", "title", "where", "expected", "found", "hint")
        return {name: encodable(getattr(self, name)) for name in names}
