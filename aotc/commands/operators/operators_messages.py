"""What `aotc operators` and its child process tell each other."""

from __future__ import annotations

from msgspec import Struct


class Job(Struct, frozen=True):
    """suffix: of the files whose frontend is asked, with the dot."""

    suffix: str


class Answer(Struct, frozen=True):
    """families: names of operators, sorted, by family in the frontend's order."""

    families: dict[str, list[str]]
