"""Findings as text and as JSON, documents of commands, and an engine's error in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aotc_runtime.errors import Finding


def _encodable(text: str) -> str:
    """File names may hold bytes that are no UTF-8 (surrogates in Python), which JSON cannot."""
    return text.encode(errors="backslashreplace").decode()


def _printable(text: str) -> str:
    """Quoted bytes of a bundle nobody trusts yet must not steer the terminal or forge a finding."""
    lines = _encodable(text).split("\n")
    safe = ("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line) for line in lines)
    return "\n            ".join(safe)


def render(findings: Sequence[Finding]) -> str:
    """All findings as text for people, one block each."""
    return "\n".join(
        f"{f.code} {_printable(f.where)}\n  expected  {_printable(f.expected)}\n"
        f"  found     {_printable(f.found)}\n  hint      {_printable(f.hint)}"
        for f in findings
    )


def to_json(finding: Finding) -> dict[str, str]:
    """One finding as JSON."""
    return {
        "code": finding.code,
        "where": _encodable(finding.where),
        "expected": _encodable(finding.expected),
        "found": _encodable(finding.found),
        "hint": _encodable(finding.hint),
    }


def refusal(
    findings: Sequence[Finding], exit_code: int, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """The document of a command that refuses."""
    listed = [to_json(finding) for finding in findings]
    return {"ok": False, "exit_code": exit_code, **extra, "findings": listed}


def document_text(document: Mapping[str, Any]) -> str:
    """A document as JSON for stdout, indented, with its newline."""
    return msgspec.json.format(msgspec.json.encode(_all_encodable(document))).decode() + "\n"


def _all_encodable(value: Any) -> Any:
    """A document whose texts are encodable."""
    match value:
        case dict():
            return {_all_encodable(key): _all_encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [_all_encodable(item) for item in value]
        case str():
            return _encodable(value)
        case _:
            return value


def first_line(error: BaseException) -> str:
    """The first line of what an error says; its type if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
