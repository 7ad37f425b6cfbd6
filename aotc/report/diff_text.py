"""The differences of two bundles, for people and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from aotc.report.diff import Change, Diff
from aotc.report.diff_numbers import NUMBERS
from aotc.report.review import Review
from aotc.report.text import count, size

CHANGES_MAX = 20
"""Of one kind, in text; the document has all."""


def diff_document(diff: Diff) -> dict[str, Any]:
    """Everything, JSON-able."""
    return {
        "before": _side(diff.before),
        "after": _side(diff.after),
        "same": diff.is_same,
        "changes": [_change_document(change) for change in diff.changes],
        "modules": [
            {
                "places": list(module.places),
                "before": module.before,
                "after": module.after,
                "lines": list(module.lines),
                "left_out": module.left_out,
                "note": module.note or None,
            }
            for module in diff.modules
        ],
    }


def _side(review: Review) -> dict[str, Any]:
    return {
        "bundle": review.bundle,
        "name": review.name,
        "version": review.version,
        "root_digest": review.root_digest,
        "signatures_verified": review.verified,
        "signers": list(review.signers),
        "targets": list(review.targets),
        "absent_targets": list(review.absent),
    }


def _change_document(change: Change) -> dict[str, Any]:
    numbers = change.numbers
    known = {"kind": change.kind, "where": change.where}
    if numbers is None:
        return {**known, "before": change.before, "after": change.after}
    return {**known, "before": numbers[0], "after": numbers[1]}


def diff_lines(diff: Diff) -> Iterator[str]:
    """The text of `aotc diff`."""
    for sign, side in (("-", diff.before), ("+", diff.after)):
        word = "verified" if side.verified else "signatures not checked"
        yield f"{sign} {side.bundle}  {side.name} {side.version}  {side.root_digest[:19]}  ({word})"
    if diff.is_same:
        yield "the same, byte for byte"
        return
    for kind, group in groupby(diff.changes, key=lambda change: change.kind):
        changes = list(group)
        yield kind
        for change in changes[:CHANGES_MAX]:
            yield f"  {change.where}: {_values(change)}"
        if len(changes) > CHANGES_MAX:
            yield f"  … {len(changes) - CHANGES_MAX} more; --json has all"
    for module in diff.modules:
        yield f"module {', '.join(module.places)}"
        if module.note:
            yield f"  {module.note}"
        yield from (f"  {line}" for line in module.lines)
        if module.left_out:
            yield f"  … {count(module.left_out, 'line')} more; --lines shows them"


def _values(change: Change) -> str:
    if change.numbers is None:
        return f"{change.before} -> {change.after}"
    before, after = change.numbers
    is_bytes = NUMBERS[change.kind][0] == "bytes"
    shown = [size(n) if is_bytes else str(n) for n in change.numbers]
    part = f"{100 * (after - before) / before:+.1f} %" if before else "from none"
    return f"{shown[0]} -> {shown[1]}  ({part})"
