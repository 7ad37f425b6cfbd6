"""A finished build as data; how the tasks of a build ended, as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from aotc.pipeline.build import Built
from aotc.pipeline.cached_tasks import Done, End, Undone
from aotc.pipeline.task_history import Unfinished
from aotc.report.inspect_report import manifest_report
from aotc_runtime.base.rendering import say

REASONS_MAX = 8
"""Shown of one task."""

FAILED_MAX = 8
"""Shown of one build, unless it is to be explained."""


def task_report(done: Done) -> dict[str, Any]:
    """A task as data. reasons: why it was run, none if it was not.  seconds: of running it."""
    return {
        "task": done.task.name,
        "kind": str(done.task.kind),
        "key": done.task.key,
        "status": _status(done),
        "cached": done.cached,
        "reasons": list(done.reasons),
        "seconds": done.seconds,
        "codes": [],
    }


def unfinished_report(unfinished: Unfinished) -> dict[str, Any]:
    """The tasks of a build that failed, as data: those without a result have no key, and the codes
    of what they failed with.
    """
    without = [
        {
            "task": each.name,
            "kind": str(each.kind),
            "key": None,
            "status": str(each.end),
            "cached": False,
            "reasons": [],
            "seconds": None,
            "codes": list(each.codes),
        }
        for each in unfinished.undone
    ]
    return {
        "compared_with": unfinished.compared,
        "tasks": [*map(task_report, unfinished.done), *without],
    }


def print_tasks(tasks: Sequence[Done], compared: str) -> None:
    """A line for each task, and below it why it was run, if it was. compared: with what."""
    cached = sum(done.cached for done in tasks)
    say(f"tasks       {len(tasks)}, {cached} of them cached")
    say(f"compared    with {compared}")
    say(*_lines(tasks))


def unfinished_lines(unfinished: Unfinished, *, explain: bool) -> Iterator[str]:
    """Tell how many tasks ended how, and which failed; nothing if none was begun. explain: all,
    as `print_tasks` does.
    """
    done, undone = unfinished.done, unfinished.undone
    if not done and all(each.end is End.NOT_BEGUN for each in undone):
        return
    failed = [each for each in undone if each.end is End.FAILED]
    number = Counter([*map(_status, done), *(str(each.end) for each in undone)])
    order = (End.FAILED, "run", "cached", End.STOPPED, End.NOT_BEGUN)
    yield "tasks       " + ", ".join(f"{number[each]} {each}" for each in order if number[each])
    if explain:
        yield f"compared    with {unfinished.compared}"
        yield from _lines(done)
        yield from (f"  {each.end:<9} {_with_codes(each)}" for each in undone)
        return
    yield from (f"  failed    {_with_codes(each)}" for each in failed[:FAILED_MAX])
    if len(failed) > FAILED_MAX:
        yield f"  … {len(failed) - FAILED_MAX} more; --explain has all"


def _with_codes(undone: Undone) -> str:
    return f"{undone.name}: {', '.join(undone.codes)}" if undone.codes else undone.name


def _status(done: Done) -> str:
    return "cached" if done.cached else "run"


def _lines(tasks: Sequence[Done]) -> Iterator[str]:
    for done in tasks:
        yield f"  {_status(done):<9} {done.task.name}"
        for reason in _shown(done.reasons):
            yield f"            {reason}"


def _shown(reasons: Sequence[str]) -> list[str]:
    """The first of them; single calls, of which there are many at once, stand last."""
    ordered = sorted(reasons, key=lambda reason: reason.startswith("call "))
    left = len(ordered) - REASONS_MAX
    return [*ordered[:REASONS_MAX], *([f"… {left} more; --json has all"] if left > 0 else [])]


def build_report(built: Built) -> dict[str, Any]:
    """Everything about a build: where it lies, its digest, times (seconds) and its targets."""
    manifests = built.bundle.manifests
    first = next(iter(manifests.values()))
    return {
        "bundle": str(built.bundle.path),
        "name": first.name,
        "version": first.version,
        "root_digest": built.bundle.root_digest,
        "size_bytes": built.bundle.size_bytes,
        "signed_by": built.attestation.key_id if built.attestation else None,
        "seconds": built.seconds,
        "compile_seconds": built.compile_seconds,
        "notes": list(built.notes),
        "diagnostics": {key: list(lines) for key, lines in built.diagnostics.items()},
        "compared_with": built.compared,
        "tasks": [task_report(done) for done in built.tasks],
        "targets": {name: manifest_report(m) for name, m in manifests.items()},
    }
