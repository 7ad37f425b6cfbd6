"""Problems in build manifests and target files, before their lines are looked up."""

import datetime
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from aotc_runtime.base.suggestions import closest, did_you_mean
from aotc_runtime.formats.toml_source import KeyPath

SHOWN_CHARACTERS_MAX = 60

_TYPES: dict[type, str] = {
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "float",
    dict: "table",
    list: "array",
    **dict.fromkeys((datetime.datetime, datetime.date, datetime.time), "date or time"),
}
"""TOML's types of values, by those of Python."""

_BARE = re.compile(r"\A[A-Za-z0-9_-]+\Z")


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding at a key path.

    Attributes:
        names: A missing key that the hint names already, whose absence is no second problem.
        cause: A cause of the code; empty for the code's own title.
    """

    code: str
    path: KeyPath
    hint: str
    _: KW_ONLY
    expected: str = ""
    found: str = ""
    names: KeyPath | None = None
    cause: str = ""


def unknown_key(path: KeyPath, known: Collection[str]) -> Problem:
    """Return AOTC-E803 for a path whose last step is no key of its table."""
    close = closest(str(path[-1]), known)
    return Problem(
        "AOTC-E803",
        path,
        f"did you mean `{close}`?" if close else "correct the key, or remove it",
        expected=f"one of: {', '.join(known)}" if known else "no keys",
        found=str(path[-1]),
        names=(*path[:-1], close) if close else None,
    )


def unknown_reference(
    path: KeyPath, kind: str, name: str, known: Collection[str], hint: str
) -> Problem:
    """Return a problem (AOTC-E806) about a name that is not declared.

    The cause is `unknown-KIND` with the kind of name; `known` has the declared names, and `hint` is
    what to do when none of them comes close.
    """
    return Problem(
        "AOTC-E806",
        path,
        did_you_mean(name, known, hint),
        expected=f"one of: {', '.join(sorted(known))}" if known else "",
        found=spell(name),
        cause=f"unknown-{kind.replace(' ', '-')}",
    )


def duplicates(values: Sequence[object]) -> Iterator[Problem]:
    """Yield AOTC-E807 for each value of an array that occurs before it."""
    seen: list[tuple[type, object]] = []
    for index, value in enumerate(values):
        if (type(value), value) in seen:
            yield Problem(
                "AOTC-E807",
                (index,),
                "remove one of the two",
                found=spell(value),
                cause="duplicate-value",
            )
        seen.append((type(value), value))


def show(value: object) -> str:
    """Return a value as TOML writes it, shortened, with its TOML type."""
    return f"{spell(value)} ({_TYPES.get(type(value), type(value).__name__)})"


def spell(value: object) -> str:
    """Return a value as TOML writes it, shortened."""
    return shorten(to_toml(value))


def shorten(text: str) -> str:
    """Shorten a text to the length of a message."""
    if len(text) <= SHOWN_CHARACTERS_MAX:
        return text
    return text[: SHOWN_CHARACTERS_MAX - 3] + "..."


def to_toml(value: object) -> str:
    """Return a value as TOML writes it in one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # JSON's escapes of a string are TOML's, but for the one character TOML forbids.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case dict():
            items = ", ".join(f"{toml_key(key)} = {to_toml(item)}" for key, item in value.items())
            return f"{{ {items} }}" if items else "{}"
        case list() | tuple():
            return f"[{', '.join(to_toml(item) for item in value)}]"
        case _:
            return str(value)


def toml_key(name: object) -> str:
    """Return a key, quoted where TOML wants it: names of Python may have any letters."""
    return str(name) if _BARE.match(str(name)) else to_toml(str(name))
