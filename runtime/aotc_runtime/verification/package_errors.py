"""What packages say that verify certificates for us, and cannot make anything of what they got.

Where they are written in Rust, a panic of theirs comes as what is no Exception: whoever is sent to
verify bytes by strangers must not end by it. https://docs.rs/pyo3/latest/pyo3/panic/
"""

from __future__ import annotations

CHARACTERS_MAX = 200


def reason_of(error: BaseException) -> str:
    """Its first line. What is neither an Exception nor a panic, such as Ctrl-C, is raised again."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error
    lines = str(error).splitlines()
    return lines[0][:CHARACTERS_MAX] if lines else type(error).__name__
