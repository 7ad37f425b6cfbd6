"""What became of the tasks of a build, for people and machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aotc.cache.tasks import Done

REASONS_MAX = 8
"""Shown of one task."""


def task_report(done: Done) -> dict[str, Any]:
    """A task as data. reasons: why it was run, none if it was not.  seconds: of running it."""
    return {
        "task": done.task.name,
        "kind": str(done.task.kind),
        "key": done.task.key,
        "cached": done.cached,
        "reasons": list(done.reasons),
        "seconds": done.seconds,
    }


def print_tasks(tasks: Sequence[Done], compared: str) -> None:
    """A line for each task, and below it why it was run, if it was. compared: with what."""
    cached = sum(done.cached for done in tasks)
    print(f"tasks       {len(tasks)}, {cached} of them cached")
    print(f"compared    with {compared}")
    for done in tasks:
        print(f"  {'cached' if done.cached else 'run':<7} {done.task.name}")
        for reason in _shown(done.reasons):
            print(f"            {reason}")


def _shown(reasons: Sequence[str]) -> list[str]:
    """The first of them; single calls, of which there are many at once, stand last."""
    ordered = sorted(reasons, key=lambda reason: reason.startswith("call "))
    left = len(ordered) - REASONS_MAX
    return [*ordered[:REASONS_MAX], *([f"… {left} more; --json has all"] if left > 0 else [])]
