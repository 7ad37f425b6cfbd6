"""Bodies of requests: read within limits of size and time, with the tensors aligned."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request

from aotc_runtime.base.errors import AotcError, refusal
from aotc_serve.inference.request_memory import Claim, Memory
from aotc_serve.inference.server_options import PACE_BYTES, Limits

ALIGNMENT = 64
"""XLA uses host memory in place only at this alignment (bytes)."""

STEP_BYTES = 2**21
"""A body takes memory in steps of this many bytes as it arrives: a huge page of the system."""


class Body(Struct, frozen=True):
    """The bytes of a request, and the claim on their memory."""

    data: memoryview
    claim: Claim


async def read_body(
    request: Request, limits: Limits, memory: Memory, header: int = 0, most: int | None = None
) -> Body:
    """Return the whole body; the caller closes its claim when it is done with the body.

    `header` counts bytes before the first tensor, which is put at an aligned address. `most` is a
    number of bytes, by default the limit of bodies. Raises ServerError: AOTC-E763, E764, E766;
    ClientDisconnect.
    """
    stated = _stated_length(request)
    most = limits.body if most is None else most
    if stated > most:
        raise _too_large(stated, most, limits)
    claim = Claim(memory)
    loop = asyncio.get_running_loop()
    began = loop.time()
    end = began + limits.body_seconds
    try:
        async with asyncio.timeout_at(min(end, loop.time() + limits.header_seconds)) as timeout:
            part, is_last = await _part(request)
            if len(part) > most:
                raise _too_large(len(part), most, limits)
            if is_last:
                claim.is_whole = True
                claim.take(len(part))
                return Body(memoryview(part), claim)
            buffer = _BodyBuffer(claim, stated, header)
            pace = 0
            while True:
                buffer.add(part)
                if buffer.size > most:
                    raise _too_large(buffer.size, most, limits)
                if memory.is_scarce and claim.total <= memory.small:
                    # What is left is for small requests, which take no long time.
                    end = min(end, began + limits.header_seconds)
                    timeout.reschedule(min(end, timeout.when() or end))
                pace += len(part)
                if pace >= PACE_BYTES:
                    pace = 0
                    timeout.reschedule(min(end, loop.time() + limits.header_seconds))
                if is_last:
                    return Body(buffer.whole(), claim)
                part, is_last = await _part(request)
    except TimeoutError:
        claim.close()
        raise refusal(
            "AOTC-E764",
            "request",
            "an incomplete body",
            expected=f"a body within {limits.body_seconds:g} s, {PACE_BYTES} bytes in each "
            f"{limits.header_seconds:g} s",
        ) from None
    except MemoryError:
        claim.close()
        cause = "server-is-out-of-request-memory"
        raise refusal("AOTC-E766", "server", "", cause=cause) from None
    except BaseException:
        claim.close()
        raise


class _BodyBuffer:
    """The received bytes of a body; `stated` is its Content-Length, or -1."""

    def __init__(self, claim: Claim, stated: int, header: int) -> None:
        self._claim, self._stated, self._header = claim, stated, header
        self._gathered = bytearray()
        self._place: memoryview | None = None
        self.size = 0

    def add(self, part: bytes) -> None:
        """Raises ServerError (AOTC-E766), MemoryError."""
        start, self.size = self.size, self.size + len(part)
        if self._place is None:
            self._claim.take(len(part))
            if self._stated <= STEP_BYTES or self.size <= STEP_BYTES:
                self._gathered += part
                return
            # Pages that nothing was written into take no memory yet.
            self._place = _aligned_room(self._stated, self._header)
            self._place[:start] = self._gathered
            self._gathered = bytearray()
        steps = -(-self.size // STEP_BYTES)
        self._claim.resize(min(steps * STEP_BYTES, self._stated))
        self._place[start : self.size] = part

    def whole(self) -> memoryview:
        """Return the whole body. Raises ServerError (AOTC-E766), MemoryError."""
        self._claim.is_whole = True
        if self._place is not None:
            return self._place
        self._claim.take(self.size)
        place = _aligned_room(self.size, self._header)
        place[:] = self._gathered
        self._gathered = bytearray()
        self._claim.give_back(self.size)
        return place


async def _part(request: Request) -> tuple[bytes, bool]:
    """Return the next bytes, and whether they are the last. Raises ClientDisconnect."""
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), not message.get("more_body", False)


def _stated_length(request: Request) -> int:
    """Return the stated length; -1 without one. The parser of HTTP has refused any that lies."""
    text = dict(request.scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else -1


def _aligned_room(size: int, header: int) -> memoryview:
    """Room for a body whose byte at `header` lies at an aligned address."""
    buffer: np.ndarray[Any, np.dtype[np.uint8]] = np.empty(size + ALIGNMENT, np.uint8)
    start = -(buffer.__array_interface__["data"][0] + header) % ALIGNMENT
    return buffer[start : start + size].data


def json_too_large(size: int, limits: Limits) -> AotcError:
    """Return the error (AOTC-E763) for a request whose JSON is larger than allowed."""
    return refusal(
        "AOTC-E763",
        "request",
        f"{size} bytes of JSON",
        expected=f"at most {limits.json} bytes",
        hint="send tensors as binary data or over gRPC, or raise `--max-json`",
    )


def _too_large(size: int, most: int, limits: Limits) -> AotcError:
    if most == limits.json and most < limits.body:
        return json_too_large(size, limits)
    return refusal("AOTC-E763", "request", f"{size} bytes", expected=f"at most {most} bytes")
