"""Statuses and texts of errors over HTTP and gRPC, without stack traces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aotc_runtime.base.errors import (
    AotcError,
    BackendError,
    ResourceError,
    ServerError,
    ShapeError,
    finding,
    refusal,
)
from aotc_runtime.base.rendering import sentence

BY_CODE: dict[str, tuple[int, str]] = {
    "AOTC-E602": (404, "NOT_FOUND"),
    "AOTC-E614": (503, "UNAVAILABLE"),
    "AOTC-E633": (503, "UNAVAILABLE"),
    "AOTC-E762": (404, "NOT_FOUND"),
    "AOTC-E763": (413, "RESOURCE_EXHAUSTED"),
    "AOTC-E764": (408, "DEADLINE_EXCEEDED"),
    "AOTC-E765": (504, "DEADLINE_EXCEEDED"),
    "AOTC-E766": (503, "UNAVAILABLE"),
    "AOTC-E767": (501, "UNIMPLEMENTED"),
    "AOTC-E768": (403, "PERMISSION_DENIED"),
    "AOTC-E780": (409, "FAILED_PRECONDITION"),
    "AOTC-E781": (500, "INTERNAL"),
    "AOTC-E786": (503, "UNAVAILABLE"),
}
"""HTTP's number and gRPC's name of codes that have their own."""

BY_FAMILY: tuple[tuple[type[AotcError], tuple[int, str]], ...] = (
    (ShapeError, (400, "INVALID_ARGUMENT")),
    (ServerError, (400, "INVALID_ARGUMENT")),
    (ResourceError, (503, "RESOURCE_EXHAUSTED")),
    (BackendError, (500, "INTERNAL")),
)
"""Statuses of the other codes. What is in no family refused a bundle that was to be loaded."""

REFUSED_BUNDLE = (409, "FAILED_PRECONDITION")


def statuses_of(error: AotcError) -> tuple[int, str]:
    """HTTP's number and gRPC's name for an error."""
    known = BY_CODE.get(error.code)
    if known is not None:
        return known
    return next((both for family, both in BY_FAMILY if isinstance(error, family)), REFUSED_BUNDLE)


def let_go(error: AotcError) -> None:
    """Drop an answered error's traceback and causes.

    They hold the request in a reference cycle, which Python may not collect for hours.
    """
    error.__traceback__ = error.__context__ = error.__cause__ = None


def fault() -> ServerError:
    """Return the error (AOTC-E781) for an unexpected exception."""
    return ServerError(finding("AOTC-E781", "server", ""))


def error_document(error: AotcError) -> dict[str, Any]:
    """Return the body of an error response, with its code and findings beside the text."""
    return {
        "error": " | ".join(map(sentence, error.findings)),
        "code": error.code,
        "findings": [found.to_json() for found in error.findings],
    }


BY_SERVER, BY_DEPLOYMENT = "", "models-are-managed-by-the-deployment"
TO_BROWSERS = "model-control-from-a-web-page"
"""Causes of AOTC-E768."""


def not_allowed(cause: str = BY_SERVER) -> AotcError:
    """Return the error (AOTC-E768) for a client that may not load or unload models."""
    return refusal("AOTC-E768", "repository", "", cause=cause)


def refuse_parameters(parameters: Iterable[str]) -> None:
    """Reject parameters of a request to load or unload.

    Raises ServerError (AOTC-E767) for all but `unload_dependents`, which clients always send and
    which has no effect here.
    """
    given = [name[:100] for name in parameters if name != "unload_dependents"]
    if given:
        found = "parameters " + ", ".join(given)
        raise refusal("AOTC-E767", "repository", found, expected="a model name only")
