"""Faults of registries, and one blob of theirs, as it was and as it is fetched."""

import re
from collections.abc import Callable

from aotc_serve.oci.registry_blobs import fetch_blob
from aotc_serve.oci.registry_client import Repository
from aotc_serve.oci.registry_listing import Memory
from tests.registries.oci_server import Handler, sha256

DATA = bytes(range(256)) * 40
DIGEST = sha256(DATA)
REPO = "models/digits"

Serve = Callable[[Handler], object]
Fault = Callable[[Handler], bool]
"""Whether it has served a request."""


def fetched(repository: Repository) -> bytes:
    sink = Memory()
    fetch_blob(repository, DIGEST, len(DATA), sink)
    return bytes(sink)


def always(serve: Serve, method: str = "GET", text: str = "/blobs/sha256") -> Fault:
    """A fault of each request of this method whose path has the text."""

    def fault(handler: Handler) -> bool:
        if is_asked := handler.command == method and text in handler.path:
            serve(handler)
        return is_asked

    return fault


def first(fault: Fault) -> Fault:
    """A fault of the first request that has it."""
    left = [fault]

    def served(handler: Handler) -> bool:
        # Taken before it answers: the next request comes while this one still ends.
        taken = [left.pop()] if left else []
        if any(each(handler) for each in taken):
            return True
        left.extend(taken)
        return False

    return served


def once(serve: Serve, method: str = "GET", text: str = "/blobs/sha256") -> Fault:
    return first(always(serve, method, text))


def status(code: int, body: bytes = b"", **headers: str) -> Serve:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.answer(code, body, named)


def cut(number: int) -> Fault:
    """Break off each answer with a blob after so many bytes of it."""

    def served(handler: Handler) -> bool:
        if handler.command != "GET" or "/blobs/sha256" not in handler.path:
            return False
        asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        if len(DATA) - start <= number:
            return False
        handler.send_response(206 if asked else 200)
        handler.send_header("Content-Length", str(len(DATA) - start))
        if asked:
            span = f"bytes {start}-{len(DATA) - 1}/{len(DATA)}"
            handler.send_header("Content-Range", span)
        handler.end_headers()
        handler.wfile.write(DATA[start : start + number])
        handler.hang_up()
        return True

    return served


def endless(handler: Handler) -> None:
    """Send a body that does not end, until nobody takes it any more."""
    handler.close_connection = True
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(4096):
            handler.wfile.write(bytes(2**16))
            handler.server.sent_bytes += 2**16
    except OSError:
        pass
