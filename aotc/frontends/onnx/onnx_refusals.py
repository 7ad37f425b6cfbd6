"""The refusals of this frontend, with names of the file made fit to be shown."""

from aotc.base.errors import CaptureError, finding, refusal
from aotc_runtime.base.errors import AotcError, Finding

LONGEST = 80
"""How much of a name of the file a message shows, in characters."""

UNREAD = "docs/reference/model-files.md says what is read; export the model without it"


def quote(name: str) -> str:
    """Return a name of the file in quotes, on one line, of bounded length."""
    cut = name if len(name) <= LONGEST else name[:LONGEST] + "…"
    return ascii(cut) if not cut.isprintable() else f"'{cut}'"


def bad_model(
    where: str, found: str, *, expected: str = "an ONNX model", hint: str | None = None
) -> AotcError:
    """Return AOTC-E843: what the file holds is no model."""
    return refusal("AOTC-E843", where, found, expected=expected, hint=hint)


def lacks(where: str, found: str, *, expected: str | None = None, hint: str = UNREAD) -> Finding:
    """Return AOTC-E844, to be raised with others."""
    return finding("AOTC-E844", where, found, expected=expected, hint=hint)


def lacking(where: str, found: str, **words: str) -> AotcError:
    """Return AOTC-E844: the model has something that there is no function for."""
    return CaptureError(lacks(where, found, **words))
