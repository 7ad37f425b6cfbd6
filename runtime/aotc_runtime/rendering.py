"""Findings as text and as JSON, and what an engine's error says in one line."""

from __future__ import annotations

from collections.abc import Sequence

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


def first_line(error: BaseException) -> str:
    """The first line of what an error says; its type if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
