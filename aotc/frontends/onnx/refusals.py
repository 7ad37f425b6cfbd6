"""The refusals of this frontend, with names of the file made fit to be shown."""

from __future__ import annotations

from typing import Any

from aotc.errors import finding, refusal
from aotc_runtime.errors import AotcError, Finding

LONGEST = 80
"""How much of a name of the file a message shows, in characters."""


def shown(name: str) -> str:
    """A name of the file in quotes, on one line, of bounded length."""
    cut = name if len(name) <= LONGEST else name[:LONGEST] + "…"
    return ascii(cut) if not cut.isprintable() else f"'{cut}'"


def damaged(where: str, found: str, **words: Any) -> AotcError:
    """AOTC-E843: what the file holds is no model."""
    return refusal(
        "AOTC-E843", where, found, expected=words.pop("expected", None) or "an ONNX model", **words
    )


def lacks(where: str, found: str, **words: Any) -> Finding:
    """AOTC-E844, to be raised with others."""
    return finding("AOTC-E844", where, found, **words)


def lacking(where: str, found: str, **words: Any) -> AotcError:
    """AOTC-E844: the model has something that there is no function for."""
    return refusal("AOTC-E844", where, found, **words)
