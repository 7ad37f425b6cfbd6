"""What is refused of a `.pt2` file, in one place each: damage, and what the frontend lacks."""

from __future__ import annotations

from aotc.errors import refusal
from aotc_runtime.errors import AotcError


class Damaged(Exception):
    """Not what `torch.export.save` writes. expected, found: they complete those words."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected, self.found = expected, found


class Unsupported(Exception):
    """Something of the model that the frontend has no function for, met while tracing."""


PARTS_MAX = 4096
"""Of what is traced part by part: pieces of a split, elements of a pooling window."""


def few(count: int, what: str) -> int:
    """The count, which a file may make so large that tracing never ends. Raises Unsupported."""
    if count > PARTS_MAX:
        raise Unsupported(f"more than {PARTS_MAX} {what}")
    return count


def damaged(where: str, error: Damaged) -> AotcError:
    """AOTC-E843 for a file."""
    return refusal("AOTC-E843", where, error.found, expected=error.expected)
