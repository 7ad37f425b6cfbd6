"""Asks a frontend for its operators, in a process of its own since it imports jax."""

from __future__ import annotations

from importlib import import_module

from aotc.base.workers.worker_child import Progress, answer
from aotc.capture.model_files.frontend_registry import operators_of
from aotc.commands.operators.operators_messages import Answer, Job


def look(job: Job, progress: Progress) -> Answer:
    """The operators of a frontend. Raises CaptureError (AOTC-E843) without its library."""
    progress.started(f"asking the frontend of {job.suffix} files")
    found = operators_of(job.suffix)
    return Answer({family: sorted(names) for family, names in found.items()})


def prepare() -> None:
    """Import what every frontend does."""
    import_module("jax")


def main() -> None:
    """Do the job."""
    answer(Job, look)


if __name__ == "__main__":
    main()
