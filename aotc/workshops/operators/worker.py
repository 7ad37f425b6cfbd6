"""Asks a frontend for its operators, in a process of its own since it imports jax."""

from __future__ import annotations

from aotc.frontends.registry import operators_of
from aotc.workers.child import Progress, answer
from aotc.workshops.operators.messages import Answer, Job


def look(job: Job, progress: Progress) -> Answer:
    """The operators of a frontend. Raises CaptureError (AOTC-E843) without its library."""
    progress.started(f"asking the frontend of {job.suffix} files")
    found = operators_of(job.suffix)
    return Answer({family: sorted(names) for family, names in found.items()})


if __name__ == "__main__":
    answer(Job, look)
