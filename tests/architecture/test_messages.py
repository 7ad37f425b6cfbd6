"""Render every code and cause with sample values into one file that is read from top to bottom.

`python -m tests.architecture.test_messages` writes the file anew; review its diff.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from aotc_runtime.base.codes import Cause, codes
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.rendering import render
from scripts.error_codes import family_in

SNAPSHOT = Path(__file__).parent / "interface" / "messages.txt"

FOUND = "(what was found)"


class Samples(dict[str, str]):
    """Values of placeholders: those of a real message, or the name in capitals."""

    def __missing__(self, name: str) -> str:
        return name.upper()


SAMPLES = Samples(
    threshold="2",
    when="now",
    most="1023",
    target="cpu-x86-64-v3",
    digest="sha256:3a7b…",
    bundle="digits-1.0.0.aotb",
    type="Index",
)


def rows() -> Iterator[tuple[str, str, Cause]]:
    """Yield each code and cause with its texts, in the order of the codes."""
    for code in sorted(codes()):
        entry = codes()[code]
        yield code, "", entry
        yield from ((code, name, cause) for name, cause in entry.causes.items())


def messages() -> str:
    """Return all messages, by family, each with the name of its cause."""
    text, heading = "", ""
    for code, name, row in rows():
        family = family_in(code)
        if family.title != heading:
            heading = family.title
            text += f"{'=' * 8} {heading} ({family.ranges}, exit code {family.error.exit_code})\n\n"
        words = row.words(None, None, SAMPLES)
        finding = Finding(code=code, where="(where)", found=FOUND, **words)
        text += f"# {name}\n" if name else ""
        text += f"{render([finding])}\n  (explained) {row.explanation}\n\n"
    return text


def test_messages_are_those_that_were_reviewed() -> None:
    assert SNAPSHOT.read_text("utf-8") == messages(), (
        "run python -m tests.architecture.test_messages"
    )


def test_hints_are_imperatives() -> None:
    for code, name, row in rows():
        first = re.split(r"[\s,;]", row.hint)[0]
        assert not row.hint or first.islower(), (code, name, row.hint)
        assert not row.hint.endswith("."), (code, name)
        assert first not in {"it", "this", "the", "a", "an", "is", "there"}, (code, name)


def test_hints_do_not_repeat_the_explanation() -> None:
    for code, name, row in rows():
        assert row.hint.lower() not in row.explanation.lower() or not row.hint, (code, name)


def test_titles_of_a_code_differ() -> None:
    for code, entry in codes().items():
        titles = [entry.title, *(cause.title for cause in entry.causes.values())]
        assert len(titles) == len({*titles}), code


if __name__ == "__main__":
    SNAPSHOT.write_text(messages(), "utf-8")
