"""Render findings as text and JSON, documents of commands, and an engine's error as one line."""

import json
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from aotc_runtime.base import Finding, encodable, first_line


def printable(text: str) -> str:
    """Return one line of text for a terminal or a log.

    Every character that steers a terminal, starts a line or is invisible is written as its escape.
    All text that comes from a file, a registry or a request goes through here before it is printed.
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in encodable(text))


def say(*lines: str) -> None:
    """Print lines of text on stdout, each as `printable` writes it."""
    sys.stdout.writelines(f"{printable(line)}\n" for line in lines)


def warn(*lines: str) -> None:
    """Print lines of text on stderr, each as `printable` writes it."""
    sys.stderr.writelines(f"{printable(line)}\n" for line in lines)


def warn_of(error: BaseException) -> None:
    """Print the traceback of an error on stderr, each line as `printable` writes it."""
    warn(*"".join(traceback.format_exception(error)).rstrip("\n").split("\n"))


def log_field(value: object) -> str:
    """Return a value as one field of a log line, quoted where it would read as several."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    spelled = printable(text.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{spelled}"' if not text or {*' "=\\'} & {*spelled} else spelled


LINE_MAX = 1000
"""Characters of a line of a finding; names and paths of others may be of any length."""


def _clip(line: str) -> str:
    """Return a line, without its middle if it is longer than LINE_MAX."""
    if len(line) <= LINE_MAX:
        return line
    half = LINE_MAX // 2
    return f"{line[:half]} … {len(line) - 2 * half} more characters … {line[-half:]}"


def _printable(text: str) -> str:
    """Return text of several lines, indented so that no line can pass for one of ours."""
    return "\n            ".join(printable(_clip(line)) for line in text.split("\n"))


def render(findings: Sequence[Finding]) -> str:
    """Return findings as text for a terminal, with a blank line between two of them.

    Of neighbors with the same hint, the last shows it.
    """
    pairs = zip(findings, [*(finding.hint for finding in findings[1:]), ""], strict=True)
    return "\n\n".join("\n".join(_block(finding, next_hint)) for finding, next_hint in pairs)


def _block(finding: Finding, next_hint: str) -> Iterator[str]:
    """Yield the lines of a finding; empty fields have none."""
    yield f"error[{finding.code}]: {_printable(finding.title)}".rstrip(": ")
    shown = {
        "  --> ": finding.where,
        "  expected  ": finding.expected,
        "  found     ": finding.found,
        "  hint: ": finding.hint if finding.hint != next_hint else "",
    }
    yield from (f"{label}{_printable(text)}" for label, text in shown.items() if text)


def usage_text(finding: Finding) -> str:
    """Return a usage error (AOTC-E001) in the form of command-line parsers.

    The finding has the usage as `expected`, and the parser's message as `found`.
    """
    shown = {"error": finding.found, "usage": finding.expected, "hint": finding.hint}
    return "\n".join(f"{label}: {_printable(text)}" for label, text in shown.items() if text)


def sentence(finding: Finding) -> str:
    """Return a finding as one line, for logs and bodies of HTTP errors."""
    sides = [
        f"{name} {_clip(text)}"
        for name, text in (("expected", finding.expected), ("found", finding.found))
        if text
    ]
    parts = [finding.title, _clip(finding.where), ", ".join(sides)]
    told = f"{finding.code} {': '.join(filter(None, parts))}"
    return printable(f"{told}; {finding.hint}" if finding.hint else told)


def refusal(
    findings: Sequence[Finding], exit_code: int, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON document of a command that failed."""
    listed = [finding.to_json() for finding in findings]
    return {"ok": False, "exit_code": exit_code, **extra, "findings": listed}


def document_text(document: Mapping[str, Any]) -> str:
    """Return a document as JSON for stdout, indented, with its newline."""
    return (
        _json_printable(msgspec.json.format(msgspec.json.encode(_all_encodable(document)))) + "\n"
    )


def json_line(document: Mapping[str, Any]) -> str:
    """Return a document as one line of JSON, without its newline."""
    return _json_printable(msgspec.json.encode(_all_encodable(document)))


def _json_printable(data: bytes) -> str:
    """Return JSON whose strings hold no character that controls a terminal.

    JSON itself escapes only characters below U+0020. Others occur in strings alone, where an escape
    means the same.
    """
    text = data.decode()
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _all_encodable(value: Any) -> Any:
    """Return a document whose texts are encodable."""
    match value:
        case dict():
            return {_all_encodable(key): _all_encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [_all_encodable(item) for item in value]
        case str():
            return encodable(value)
        case _:
            return value


def reason_of(error: BaseException) -> str:
    """Return the first line of a verification library's error message.

    A panic of a library in Rust is not an `Exception` (https://docs.rs/pyo3/latest/pyo3/panic/),
    and must not end a process that verifies untrusted bytes. Other errors of that type, such as
    Ctrl-C, are raised again.
    """
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error
    return first_line(error)[:200]
