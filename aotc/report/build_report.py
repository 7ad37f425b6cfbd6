"""A finished build as data; its tasks, as data and as text."""

from collections.abc import Sequence
from typing import Any

from aotc.pipeline.build import Built
from aotc.pipeline.cached_tasks import Done
from aotc.report.inspect_report import manifest_report
from aotc.report.report_text import copy_report
from aotc_runtime.base.rendering import say

REASONS_MAX = 8
"""Shown of one task."""


def task_report(done: Done) -> dict[str, Any]:
    """Return a task as data, with the reasons why it was run (if it was) and its seconds."""
    return {
        "task": done.task.name,
        "kind": str(done.task.kind),
        "key": done.task.key,
        "status": _status(done),
        "cached": done.cached,
        "reasons": list(done.reasons),
        "seconds": done.seconds,
    }


def print_tasks(tasks: Sequence[Done], compared: str) -> None:
    """Print each task, and below it why it ran, if it did; `compared` is the other build."""
    cached = sum(done.cached for done in tasks)
    say(f"tasks       {len(tasks)}, {cached} of them cached")
    say(f"compared    with {compared}")
    for done in tasks:
        say(f"  {_status(done):<9} {done.task.name}")
        say(*(f"            {reason}" for reason in _first_reasons(done.reasons)))


def _status(done: Done) -> str:
    return "cached" if done.cached else "run"


def _first_reasons(reasons: Sequence[str]) -> list[str]:
    """Return the first of them; single calls, of which there are many at once, stand last."""
    ordered = sorted(reasons, key=lambda reason: reason.startswith("call "))
    left = len(ordered) - REASONS_MAX
    return [*ordered[:REASONS_MAX], *([f"… {left} more; --json has all"] if left > 0 else [])]


def build_report(built: Built) -> dict[str, Any]:
    """Return the report of a build: path, digest, times in seconds, and targets."""
    written = copy_report(built.bundle)
    del written["targets"]  # which follow with all that they contain
    return {
        **written,
        "signed_by": built.attestation.key_id if built.attestation else None,
        "seconds": built.seconds,
        "compile_seconds": built.compile_seconds,
        "notes": list(built.notes),
        "diagnostics": {key: list(lines) for key, lines in built.diagnostics.items()},
        "compared_with": built.compared,
        "tasks": [task_report(done) for done in built.tasks],
        "targets": {name: manifest_report(m) for name, m in built.bundle.manifests.items()},
    }
