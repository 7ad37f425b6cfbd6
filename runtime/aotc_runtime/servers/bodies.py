"""Bodies of requests: read within limits of size and time, with the tensors aligned."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request

from aotc_runtime.errors import AotcError, refusal
from aotc_runtime.servers.memory import Memory
from aotc_runtime.servers.options import Limits

ALIGNMENT = 64
"""XLA uses host memory in place only at this alignment (bytes)."""


class Body(Struct, frozen=True):
    """The bytes of a request. size: what they were counted as."""

    data: memoryview
    size: int


async def read_body(request: Request, limits: Limits, memory: Memory, header: int) -> Body:
    """The whole body. Whoever calls this gives its size back to the memory when it is done with.

    header: bytes before the first tensor, which is put at an aligned address.
    Raises ServerError: AOTC-E763, E764, E766; ClientDisconnect.
    """
    stated = _stated(request)
    if stated > limits.body:
        raise _too_large(f"{stated} bytes", limits)
    taken = max(stated, 0)
    memory.take(taken)
    try:
        async with asyncio.timeout(limits.body_seconds):
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            first: bytes = message.get("body", b"")
            if not message.get("more_body", False):
                if stated < 0:
                    memory.take(len(first))
                    taken = len(first)
                if len(first) > limits.body:
                    raise _too_large("more", limits)
                return Body(memoryview(first), taken)
            place = _aligned(stated, header) if stated >= 0 else None
            gathered: list[bytes] = []
            end = 0
            while True:
                start, end = end, end + len(first)
                if place is not None:
                    place[start:end] = first
                else:
                    if end > limits.body:
                        raise _too_large("more", limits)
                    memory.take(len(first))
                    taken += len(first)
                    gathered.append(first)
                if not message.get("more_body", False):
                    break
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                first = message.get("body", b"")
    except TimeoutError:
        memory.give_back(taken)
        raise refusal(
            "AOTC-E764",
            "request",
            "a part of it",
            expected=f"a body within {limits.body_seconds:g} s",
            hint="send it faster, or start the server with a longer --body-seconds",
        ) from None
    except BaseException:
        memory.give_back(taken)
        raise
    if place is None:
        place = _aligned(end, header)
        place[:] = b"".join(gathered)
    return Body(place, taken)


def _stated(request: Request) -> int:
    """The stated length; -1 without one. The parser of HTTP has refused any that lies."""
    text = dict(request.scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else -1


def _aligned(size: int, header: int) -> memoryview:
    """Room for a body whose byte at `header` lies at an aligned address."""
    room: np.ndarray[Any, np.dtype[np.uint8]] = np.empty(size + ALIGNMENT, np.uint8)
    start = -(room.__array_interface__["data"][0] + header) % ALIGNMENT
    return room[start : start + size].data


def _too_large(found: str, limits: Limits) -> AotcError:
    return refusal(
        "AOTC-E763",
        "request",
        found,
        expected=f"a body of at most {limits.body} bytes",
        hint="send less at once, or start the server with a higher --max-body",
    )
