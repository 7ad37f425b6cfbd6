"""Refusals of what the frontend lacks for a program in a `.pt2` file."""


class Unsupported(Exception):
    """Something of the model that the frontend has no function for, met while tracing."""


PARTS_MAX = 4096
"""Limit of what is traced part by part: pieces of a split, elements of a pooling window."""


def few(count: int, what: str) -> int:
    """Return the count unless it would make tracing endless. Raises Unsupported."""
    if count > PARTS_MAX:
        raise Unsupported(f"more than {PARTS_MAX} {what}")
    return count
