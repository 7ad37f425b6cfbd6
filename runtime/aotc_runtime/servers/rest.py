"""The Open Inference Protocol over HTTP, with its extensions for binary data and repositories."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from aotc_runtime.errors import AotcError, refusal
from aotc_runtime.schema.facts import VERSION
from aotc_runtime.servers.bodies import read_body
from aotc_runtime.servers.inference import Outcome, Prepared, json_answer, prepared
from aotc_runtime.servers.models import Model
from aotc_runtime.servers.service import Memory, Service
from aotc_runtime.servers.statuses import (
    BY_SERVER,
    error_document,
    fault,
    http_status,
    not_allowed,
    refuse_parameters,
)
from aotc_runtime.servers.tensors import Port, misfit

if TYPE_CHECKING:
    from opentelemetry.trace import Span

EXTENSIONS = ["binary_tensor_data", "model_repository"]
HEADER_LENGTH = b"inference-header-content-length"

Endpoint = Callable[[Request], Awaitable[Response]]

CONTROL_BODY_MAX = 2**16


class Parts(Response):
    """An answer of several parts, none of which is copied: the JSON header, then tensors."""

    def __init__(self, header: bytes, parts: list[memoryview]) -> None:
        length = len(header) + sum(map(len, parts))
        self.status_code, self.background = 200, None
        self.raw_headers = [
            (b"content-length", str(length).encode()),
            (b"content-type", b"application/octet-stream" if parts else b"application/json"),
        ]
        if parts:
            self.raw_headers.append((HEADER_LENGTH, str(len(header)).encode()))
        self._chunks: list[bytes | memoryview] = [header, *parts]
        self._memory: Memory | None = None
        self._length = length
        self.body = b""
        if length <= SMALL:
            self.body = b"".join(self._chunks) if parts else header
            self._chunks = [self.body]

    def count(self, memory: Memory) -> None:
        """Count a large answer until the client has taken it. Raises ServerError (AOTC-E766)."""
        if self._length > SMALL:
            memory.take(self._length)
            self._memory = memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        if self._memory is None:
            await send({"type": "http.response.body", "body": self._chunks[0]})
            return
        try:
            for chunk in self._chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            # Which waits until the client has taken nearly everything before it.
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._memory.give_back(self._length)


SMALL = 2**15
"""Bytes that are copied rather than sent on their own."""


def document(content: Any, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def refused(error: AotcError) -> Response:
    """The answer to a request that was refused."""
    status = http_status(error)
    response = document(error_document(error), status)
    if status == 503:
        response.headers["retry-after"] = "1"
    if error.code in ("AOTC-E763", "AOTC-E764"):
        # Its body is still on the way; nobody reads it.
        response.headers["connection"] = "close"
    return response


def application(service: Service, *, control: bool, change: str = BY_SERVER) -> ASGIApp:
    """The routes of a server. control: whether clients may load and unload.  change: what those are
    told who may not.
    """
    return Rest(service, control, change).application()


class Rest:
    """Endpoints; each gives a response or raises an AotcError."""

    def __init__(self, service: Service, control: bool, change: str = BY_SERVER) -> None:
        self._service, self._control, self._change = service, control, change

    def application(self) -> ASGIApp:
        """All routes; those of inference requests are found without asking the others first."""
        others, infer = self._routes(), self._guarded(self.infer)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            found = None
            if scope["type"] == "http" and scope["method"] == "POST" and not scope["root_path"]:
                found = asked_for(scope["path"])
            if found is None:
                await others(scope, receive, send)
                return
            scope["path_params"] = {"name": found[0], "version": found[1]}
            response = await infer(Request(scope, receive, send))
            await response(scope, receive, send)

        return app

    def at_once(self, url: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> Any:
        """The response to an inference request that is known to be quick, as a client's connection
        has it; None for any other, which the application answers.
        """
        service = self._service
        if b"%" in url or b"?" in url or service.is_draining or service.traces is not None:
            return None
        found, size = asked_for(url.decode("latin-1")), len(body)
        if found is None or size > service.limits.body or not service.is_quick(*found, size):
            return None
        try:
            length = _header_length(headers)
            service.memory.take(size)
        except AotcError:
            return None

        def read(model: Model) -> Prepared:
            header, data = split(memoryview(body), length)
            return prepared(model, header, data, service.limits.tensor)

        try:
            answer = service.answer_now("rest", *found, size, read, _answer)
            answer.count(service.memory)
        except AotcError as error:
            return refused(error)
        return answer

    def _routes(self) -> Starlette:
        model, post = "/v2/models/{name}", ["POST"]
        routes: list[tuple[str, Endpoint, list[str]]] = [
            (f"{model}/infer", self.infer, post),
            (f"{model}/versions/{{version}}/infer", self.infer, post),
            ("/v2/health/live", self.live, ["GET"]),
            ("/v2/health/ready", self.ready, ["GET"]),
            (f"{model}/ready", self.model_ready, ["GET"]),
            (f"{model}/versions/{{version}}/ready", self.model_ready, ["GET"]),
            (model, self.metadata, ["GET"]),
            (f"{model}/versions/{{version}}", self.metadata, ["GET"]),
            ("/v2", self.server, ["GET"]),
            ("/v2/repository/index", self.index, post),
            ("/v2/repository/models/{name}/load", self.load, post),
            ("/v2/repository/models/{name}/unload", self.unload, post),
            ("/metrics", self.metrics, ["GET"]),
        ]
        return Starlette(
            routes=[
                Route(path, self._guarded(endpoint), methods=methods)
                for path, endpoint, methods in routes
            ],
            exception_handlers={HTTPException: _no_route},
        )

    def _guarded(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, with answers for everything that it raises."""
        infer = endpoint == self.infer

        async def guarded(request: Request) -> Response:
            try:
                response = await endpoint(request)
            except AotcError as error:
                if not infer:
                    self._service.metrics.turned_away(error.code)
                response = refused(error)
            except ClientDisconnect:
                response = Response(status_code=400)
            except Exception:  # noqa: BLE001 - never through ASGI, which would drop the connection
                import traceback

                traceback.print_exc()
                response = refused(fault())
            if self._service.is_draining:
                response.raw_headers.append((b"connection", b"close"))
            return response

        return guarded

    async def infer(self, request: Request) -> Response:
        """An inference request."""
        traces = self._service.traces
        if traces is None:
            return await self._infer(request, ())
        with traces.request("rest", request.scope["headers"]) as span:
            return await self._infer(request, (span,))

    async def _infer(self, request: Request, spans: Sequence[Span]) -> Response:
        service, limits = self._service, self._service.limits
        length = _header_length(request.scope["headers"])
        try:
            body = await read_body(request, limits, service.memory, length or 0)
        except AotcError as error:
            service.metrics.turned_away(error.code)
            raise
        path = request.path_params

        def read(model: Model) -> Prepared:
            header, data = split(body.data, length)
            return prepared(model, header, data, limits.tensor)

        answer = await service.infer(
            "rest", path["name"], path.get("version", ""), body.size, read, _answer, spans
        )
        answer.count(service.memory)
        return answer

    async def live(self, _: Request) -> Response:
        """The process answers."""
        return document({"live": True})

    async def ready(self, _: Request) -> Response:
        """Every bundle has matched its fixtures, and the server is not about to end."""
        is_ready = self._service.is_ready
        return document({"ready": is_ready}, 200 if is_ready else 503)

    async def model_ready(self, request: Request) -> Response:
        """The model serves."""
        model = self._find(request)
        return document({"name": model.name, "ready": True})

    async def server(self, _: Request) -> Response:
        """What this server is."""
        return document({"name": "aotc", "version": VERSION, "extensions": EXTENSIONS})

    async def metadata(self, request: Request) -> Response:
        """What a model takes and gives."""
        model = self._find(request)
        return document(
            {
                "name": model.name,
                "versions": self._service.repository.versions(model.name),
                "platform": model.platform,
                "inputs": [_described(port) for port in model.inputs],
                "outputs": [_described(port) for port in model.outputs],
                "parameters": {"version": model.version, **model.facts},
            }
        )

    async def index(self, request: Request) -> Response:
        """Every model and version."""
        wanted = await self._small_document(request)
        rows = self._service.repository.index()
        if wanted.get("ready"):
            rows = [row for row in rows if row.state == "READY"]
        return document([msgspec.to_builtins(row) for row in rows])

    async def load(self, request: Request) -> Response:
        """Load a model's bundle, or load it again if its file was changed."""
        await self._allowed(request)
        await asyncio.to_thread(self._service.repository.load_model, request.path_params["name"])
        return document({})

    async def unload(self, request: Request) -> Response:
        """Unload a model's bundle when its last call has ended."""
        await self._allowed(request)
        await asyncio.to_thread(self._service.repository.unload_model, request.path_params["name"])
        return document({})

    async def metrics(self, _: Request) -> Response:
        """For Prometheus."""
        text = await asyncio.to_thread(self._service.metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    def _find(self, request: Request) -> Model:
        path = request.path_params
        return self._service.repository.find(path["name"], path.get("version", ""))

    async def _allowed(self, request: Request) -> None:
        """Raises ServerError: AOTC-E768, E767 for a bundle that comes with the request."""
        # Pages of other sites can make a browser send such a request; it then says which.
        if not self._control or "origin" in request.headers:
            raise not_allowed("a browser" if self._control else "a server without it", self._change)
        refuse_parameters((await self._small_document(request)).get("parameters") or ())

    async def _small_document(self, request: Request) -> dict[str, Any]:
        limits = msgspec.structs.replace(self._service.limits, body=CONTROL_BODY_MAX)
        body = await read_body(request, limits, self._service.memory, 0)
        try:
            text = bytes(body.data)
            return msgspec.json.decode(text, type=dict[str, Any]) if text.strip() else {}
        except (msgspec.MsgspecError, RecursionError) as error:
            raise misfit("request", str(error), "a JSON object") from None
        finally:
            self._service.memory.give_back(body.size)


def asked_for(path: str) -> tuple[str, str] | None:
    """The model and the version, or "", that an inference request asks for; None for another."""
    if not (path.startswith("/v2/models/") and path.endswith("/infer")):
        return None
    parts = path[len("/v2/models/") : -len("/infer")].split("/")
    if len(parts) == 3 and parts[1] == "versions" and parts[2]:
        del parts[1]
    elif len(parts) != 1:
        return None
    return (parts[0], parts[1] if len(parts) == 2 else "") if parts[0] else None


def _header_length(given: Sequence[tuple[bytes, bytes]]) -> int | None:
    """How long the JSON is before the binary data; None without any. Raises ServerError
    (AOTC-E761).
    """
    headers = dict(given)
    encoding = headers.get(b"content-encoding", b"identity")
    if encoding != b"identity":
        raise refusal(
            "AOTC-E767",
            "request",
            f"the content encoding {encoding[:100].decode('latin-1')}",
            expected="a body as it is",
            hint="send it without Content-Encoding",
        )
    text = headers.get(HEADER_LENGTH)
    if text is None:
        return None
    if not (text.isdigit() and len(text) < 12):
        found = text[:100].decode("latin-1")
        raise misfit("Inference-Header-Content-Length", found, "a number of bytes")
    return int(text)


def split(data: memoryview, length: int | None) -> tuple[memoryview, memoryview]:
    """The JSON, and the binary data behind it. Raises ServerError (AOTC-E761)."""
    if length is None:
        return data, data[:0]
    if length > len(data):
        where, expected = "Inference-Header-Content-Length", f"at most {len(data)} bytes"
        raise misfit(where, str(length), expected)
    return data[:length], data[length:]


def _answer(outcome: Outcome) -> Parts:
    return Parts(*json_answer(outcome))


def _described(port: Port) -> dict[str, Any]:
    return {"name": port.name, "datatype": port.datatype, "shape": port.shape}


async def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    found = f"{request.method} {request.url.path[:200]}"
    refusing = refusal(
        "AOTC-E762",
        "server",
        found,
        expected="an address of the Open Inference Protocol",
        hint="GET /v2 says what this server offers",
    )
    return document(error_document(refusing), status)
