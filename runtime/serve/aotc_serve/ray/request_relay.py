"""Requests that one process takes and another answers: as values, between the same routes.

Calls are pure: the routes that are relayed change nothing, and none of them keeps anything for a
later one. So a request whose answer never came may be asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.base.rendering import warn_of
from aotc_serve.http.http_messages import document, refused
from aotc_serve.http.request_bodies import read_body
from aotc_serve.inference.error_statuses import fault, too_slow
from aotc_serve.inference.request_memory import Memory
from aotc_serve.inference.server_options import Limits

TRIES = 3
"""How many replicas a request may meet: one that ends every process must not end all of them."""

PAUSE_SECONDS = 0.1
"""Before another try, so that what is known of the replicas is newer; longer each time."""

READY_SECONDS = 5.0
"""Within which a replica has to say that it is ready: what asks waits no longer."""

Headers = tuple[tuple[bytes, bytes], ...]


class Carried(Struct, frozen=True):
    """A request. path: below the prefix that the deployment has."""

    method: str
    path: str
    headers: Headers
    body: bytes


class Answered(Struct, frozen=True):
    status: int
    headers: Headers
    body: bytes


class LostError(Exception):
    """A replica ended, or cannot be reached, and has not answered."""


class UnavailableError(Exception):
    """There is nobody who could be asked. Its text says why."""


async def answered(app: ASGIApp, carried: Carried) -> Answered:
    """What an application answers; as a server of HTTP would ask it."""
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": carried.method,
        "scheme": "http",
        "path": carried.path,
        "root_path": "",
        "query_string": b"",
        "headers": list(carried.headers),
    }
    messages: list[Message] = [{"type": "http.request", "body": carried.body}]
    status, headers, parts = 500, Headers(), list[Any]()

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], tuple(message["headers"])
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return Answered(status, headers, b"".join(parts))


class Relay:
    """Takes requests from clients, and has `ask` answer them.

    ask: raises LostError, UnavailableError, AotcError.
    """

    def __init__(self, ask: Callable[[Carried], Awaitable[Answered]], limits: Limits) -> None:
        self._ask, self._limits = ask, limits
        self._memory, self._requests = Memory(limits.memory), 0

    async def respond(self, request: Request) -> Response:
        """Whatever happens, an answer."""
        path: str = request.scope["path"]
        path = path.removeprefix(request.scope.get("root_path", "").rstrip("/"))
        try:
            if request.method == "GET" and path == "/v2/health/live":
                return document({"live": True})
            if request.method == "GET" and path == "/metrics":
                raise _not_here()
            self._enter()
            try:
                return await self._relayed(request, path)
            finally:
                self._requests -= 1
        except AotcError as error:
            return refused(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:  # noqa: BLE001 - told in the log, and to the client without its text
            warn_of(error)
            return refused(fault())

    def _enter(self) -> None:
        if self._requests >= self._limits.requests:
            found = f"{self._requests} requests under way, which is its limit"
            raise refusal("AOTC-E766", "server", found)
        self._requests += 1

    async def _relayed(self, request: Request, path: str) -> Response:
        body = await read_body(request, self._limits, self._memory)
        try:
            headers = tuple(request.scope["headers"])
            body.claim.take(len(body.data))
            carried = Carried(request.method, path, headers, bytes(body.data))
            if path == "/v2/health/ready":
                return await self._ready(carried)
            try:
                async with asyncio.timeout(self._limits.call_seconds):
                    answer = await self.answer(carried)
            except TimeoutError:
                name = path.removeprefix("/v2/models/").partition("/")[0]
                raise too_slow(name, self._limits.call_seconds) from None
        finally:
            body.claim.close()
        response = Response(answer.body, answer.status)
        response.raw_headers = list(answer.headers)
        return response

    async def _ready(self, carried: Carried) -> Response:
        """Whether some replica is, all fixtures of which have matched."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                found = (await self.answer(carried)).status == 200
        except (AotcError, TimeoutError):
            found = False
        return document({"ready": found}, 200 if found else 503)

    async def answer(self, carried: Carried) -> Answered:
        """The answer of the first replica that gives one. Raises ServerError (AOTC-E784)."""
        for number in range(1, TRIES + 1):
            try:
                return await self._ask(carried)
            except LostError:
                if number < TRIES:
                    await asyncio.sleep(PAUSE_SECONDS * number)
            except UnavailableError as error:
                raise refusal("AOTC-E784", carried.path[:100], str(error)) from error
        raise refusal("AOTC-E784", carried.path[:100], f"{TRIES} replicas ended meanwhile")


def _not_here() -> AotcError:
    return refusal(
        "AOTC-E767",
        "GET /metrics",
        "it, at an address that stands for many replicas",
        expected="the extensions that GET /v2 lists",
        hint="scrape the nodes: each exports the metrics of its replicas",
    )
