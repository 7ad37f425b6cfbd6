"""Asks a frontend for its operators, in a process of its own since it imports jax."""

from __future__ import annotations

from importlib import import_module

from msgspec import Struct

from aotc.base.workers.worker_child import Progress, answer
from aotc.capture.model_files.frontend_registry import operators_of


class Job(Struct, frozen=True):
    """suffix: of the files whose frontend is asked, with the dot."""

    suffix: str


class Answer(Struct, frozen=True):
    """families: names of operators, sorted, by family in the frontend's order."""

    families: dict[str, list[str]]


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
