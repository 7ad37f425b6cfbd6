"""The differences of two bundles, for people and as a document."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from aotc.bundle.read.bundle_facts import NUMBERS
from aotc.bundle.read.bundle_review import Review
from aotc.commands.diff.bundle_diff import NONE, Change, Diff, ModuleDiff
from aotc.report.report_text import count, size

CHANGES_MAX = 20
"""Lines of one kind, in text; the document has all changes."""

COUNTS = ("operations", "placement")
"""Kinds with a change for each operator, which share a line."""

LABELS_MAX = 2
"""Entry points and profiles that a line names."""


def diff_document(diff: Diff) -> dict[str, Any]:
    """Return everything, JSON-able."""
    return {
        "before": _side(diff.before),
        "after": _side(diff.after),
        "same": diff.is_same,
        "changes": [_change_document(change) for change in diff.changes],
        "modules": [asdict(module) | {"note": module.note or None} for module in diff.modules],
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
    before, after = change.numbers or (change.before, change.after)
    return {"kind": change.kind, "where": change.where, "before": before, "after": after}


def diff_lines(diff: Diff, width: int | None = None) -> Iterator[str]:
    """Yield the text of `aotc diff`, with lines of modules cut to a width."""
    for sign, side in (("-", diff.before), ("+", diff.after)):
        word = "verified" if side.verified else "signatures not checked"
        yield f"{sign} {side.bundle}  {side.name} {side.version}  {side.root_digest[:19]}  ({word})"
    if diff.is_same:
        yield "the same root digest and targets; blobs were not hashed"
        return
    rounding = [change for change in diff.changes if change.is_rounding]
    others = [change for change in diff.changes if not change.is_rounding]
    for kind, group in groupby(others, key=lambda change: change.kind):
        lines = list(_join_changes(list(group)))
        yield kind
        yield from (f"  {line}" for line in lines[:CHANGES_MAX])
        if len(lines) > CHANGES_MAX:
            yield f"  … {len(lines) - CHANGES_MAX} more; --json has all"
    if rounding:
        yield "rounding"
        yield f"  {_rounding(rounding)}"
    alike: dict[object, list[ModuleDiff]] = {}
    for module in diff.modules:
        alike.setdefault((module.lines, module.left_out, module.note), []).append(module)
    for modules in alike.values():
        yield f"module {_every([place for module in modules for place in module.places])}"
        if modules[0].note:
            yield f"  {modules[0].note}"
        yield from (f"  {line}"[:width] for line in modules[0].lines)
        if modules[0].left_out:
            yield f"  … {count(modules[0].left_out, 'line')} more; --lines shows them"


def _rounding(changes: Sequence[Change]) -> str:
    """Return one line for all errors against plain JAX that differ within the tolerance."""
    errors = [(change.before, change.after) for change in changes if change.path == "max_abs"]
    largest = (max(map(float, side)) for side in zip(*errors, strict=True))
    of = f"; the largest of fixtures: {' -> '.join(f'{n:.1e}' for n in largest)}" if errors else ""
    number = count(len(changes), "error")
    return f"{number} against plain JAX within the tolerance{of}; --json has each"


def _join_changes(changes: Sequence[Change]) -> Iterator[str]:
    """Yield a line for each change, or for all that are the same in several places."""
    alike: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        alike.setdefault((change.path, _values(change)), []).append(change.place)
    counts: dict[str, list[str]] = {}
    for (path, values), places in alike.items():
        if changes[0].kind in COUNTS:
            counts.setdefault(_every(places), []).append(f"{path} {values}")
        else:
            yield f"{_every(places)} {path}".strip() + f": {values}"
    yield from (f"{places}: {', '.join(each)}" for places, each in counts.items())


def _every(places: Sequence[str]) -> str:
    """Return places as text, by entry point and profile with their targets.

    If these are many, it is the number of executables by entry point.
    """
    targets: dict[str, list[str]] = {}
    for place in places:
        label, _, target = place.partition(" for ")
        targets.setdefault(label, []).append(target)
    if len(targets) <= LABELS_MAX:
        alike: dict[str, list[str]] = {}
        for label, found in targets.items():
            alike.setdefault(", ".join(filter(None, found)), []).append(label)
        return ", ".join(
            f"{', '.join(labels)} for {of}" if of else ", ".join(labels)
            for of, labels in alike.items()
        )
    numbers = Counter(place.partition(" for ")[0].partition("[")[0] for place in places)
    return ", ".join(f"{name} ({number} executables)" for name, number in numbers.items())


def _values(change: Change) -> str:
    if change.numbers is None:
        none = "0" if change.kind in COUNTS else NONE
        before, after = (none if side == NONE else side for side in (change.before, change.after))
        return f"{before} -> {after}"
    old, new = change.numbers
    is_bytes = NUMBERS[change.kind][0] == "bytes"
    shown = [size(n) if is_bytes else str(n) for n in change.numbers]
    part = f"{100 * (new - old) / old:+.1f} %" if old else "from none"
    return f"{shown[0]} -> {shown[1]}  ({part})"
