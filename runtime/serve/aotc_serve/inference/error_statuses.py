"""What errors are called over HTTP and gRPC, and the text that clients get: never a stack trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aotc_runtime.base.codes import ServerError
from aotc_runtime.base.errors import (
    AotcError,
    BackendError,
    ResourceError,
    ShapeError,
    finding,
    refusal,
)
from aotc_runtime.base.rendering import sentence

BY_CODE: dict[str, tuple[int, str]] = {
    "AOTC-E602": (404, "NOT_FOUND"),
    "AOTC-E614": (503, "UNAVAILABLE"),
    "AOTC-E633": (503, "UNAVAILABLE"),
    "AOTC-E761": (400, "INVALID_ARGUMENT"),
    "AOTC-E762": (404, "NOT_FOUND"),
    "AOTC-E763": (413, "RESOURCE_EXHAUSTED"),
    "AOTC-E764": (408, "DEADLINE_EXCEEDED"),
    "AOTC-E765": (504, "DEADLINE_EXCEEDED"),
    "AOTC-E766": (503, "UNAVAILABLE"),
    "AOTC-E767": (501, "UNIMPLEMENTED"),
    "AOTC-E768": (403, "PERMISSION_DENIED"),
    "AOTC-E769": (400, "INVALID_ARGUMENT"),
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
    """Forget which calls an error came through, once it has been answered. They hold the request,
    and the error holds them: for as long as Python does not look for such cycles, which may be
    hours, all of it would stay in memory that counts as free.
    """
    error.__traceback__ = error.__context__ = error.__cause__ = None


def fault() -> ServerError:
    """The error (AOTC-E781) for what nobody foresaw."""
    return ServerError(finding("AOTC-E781", "server", "an error that nobody foresaw"))


def error_document(error: AotcError) -> dict[str, Any]:
    """The protocol's body of an error, with our code and findings beside its text."""
    return {
        "error": " | ".join(map(sentence, error.findings)),
        "code": error.code,
        "findings": [found.to_json() for found in error.findings],
    }


def too_slow(name: str, seconds: float) -> AotcError:
    """The error (AOTC-E765) for a call that nobody waits for any longer."""
    expected = f"an answer within {seconds:g} s"
    hint = "ask for less at once, or start the server with a longer --call-seconds"
    return refusal("AOTC-E765", f"model {name[:100]}", "none yet", expected=expected, hint=hint)


def not_passed(found: str) -> AotcError:
    """The error (AOTC-E782) for sockets of systemd that cannot be served at."""
    expected = "one TCP socket that listens"
    hint = "let the socket unit have one ListenStream= with a port; gRPC has --grpc-port"
    return refusal("AOTC-E782", "LISTEN_FDS", found, expected=expected, hint=hint)


BY_SERVER = "start the server with --control, or send it SIGHUP to load what was changed"
BY_DEPLOYMENT = "deploy another bundle, or the same one again; a replica has what was pinned then"
"""How to change what is served, for those who may not do it over the network."""


def not_allowed(found: str, hint: str = BY_SERVER) -> AotcError:
    """The error (AOTC-E768) for a server that is not to be controlled so."""
    if hint == BY_DEPLOYMENT:
        return refusal("AOTC-E768", "repository", found, expected="its deployment", hint=hint)
    expected = "a server that was started with --control, asked by a program"
    return refusal("AOTC-E768", "repository", found, expected=expected, hint=hint)


def refuse_parameters(parameters: Iterable[str]) -> None:
    """Raises ServerError (AOTC-E767) where a client would say what is loaded.

    parameters: of a request to load or unload. `unload_dependents`, which clients always send,
    says nothing here.
    """
    given = [name[:100] for name in parameters if name != "unload_dependents"]
    if given:
        found = "the parameters " + ", ".join(given)
        expected = "the name of a model, and nothing else"
        hint = "bundles come from where the server was told to load them from"
        raise refusal("AOTC-E767", "repository", found, expected=expected, hint=hint)
