"""What a worker is asked for that compiles a program as a graph."""

from __future__ import annotations

from msgspec import Struct


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """What to compile. artifact: the module.  weights: places of its parameters that are bound."""

    artifact: bytes
    weights: tuple[int, ...]
