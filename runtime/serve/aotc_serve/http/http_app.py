"""The Open Inference Protocol over HTTP, with its extensions for binary data and repositories."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from aotc_runtime.base.errors import AotcError
from aotc_runtime.base.rendering import warn_of
from aotc_runtime.schema.host_facts import VERSION
from aotc_serve.http.http_messages import (
    Parts,
    encode_json,
    error_response,
    header_length,
    match_infer_path,
    no_route,
    split,
)
from aotc_serve.http.json_inference import json_answer, metadata_of, prepare_call
from aotc_serve.http.request_bodies import json_too_large, read_body
from aotc_serve.inference.error_statuses import (
    BY_SERVER,
    TO_BROWSERS,
    fault,
    not_allowed,
    refuse_parameters,
)
from aotc_serve.inference.inference_requests import Outcome, Prepared
from aotc_serve.inference.protocol_tensors import invalid_request
from aotc_serve.inference.request_memory import Claim
from aotc_serve.inference.served_models import Model
from aotc_serve.service.request_service import Asked, Read, Service

if TYPE_CHECKING:
    from opentelemetry.trace import Span

EXTENSIONS = ["binary_tensor_data", "model_repository"]

Endpoint = Callable[[Request], Awaitable[Response]]

CONTROL_BODY_MAX = 2**16


async def _while_connected[T](request: Request, answering: Coroutine[None, None, T]) -> T:
    """Return an answer; one that waits for a thread is not computed for a client that has gone.

    Raises ClientDisconnect.
    """
    answer = asyncio.ensure_future(answering)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        gone.cancel()


class Rest:
    """Endpoints; each gives a response or raises an AotcError.

    `control` lets clients load and unload models; `change` is the cause of the error otherwise.
    `shapes` lets them read the sizes of calls.
    """

    def __init__(
        self, service: Service, control: bool, change: str = BY_SERVER, *, shapes: bool = False
    ) -> None:
        self._service, self._control, self._change = service, control, change
        self._shapes = shapes

    def application(self) -> ASGIApp:
        """Return all routes; those of inference requests are found first."""
        others, infer = self._routes(), self._guard(self.infer)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            found = None
            if scope["type"] == "http" and scope["method"] == "POST" and not scope["root_path"]:
                found = match_infer_path(scope["path"])
            if found is None:
                await others(scope, receive, send)
                return
            scope["path_params"] = {"name": found[0], "version": found[1]}
            response = await infer(Request(scope, receive, send))
            await response(scope, receive, send)

        return app

    def at_once(self, url: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> Any:
        """Return the response to an inference request that is known to be quick.

        None leaves the request to the application.
        """
        service = self._service
        if b"%" in url or b"?" in url or service.is_draining or service.traces is not None:
            return None
        found, size = match_infer_path(url.decode("latin-1")), len(body)
        if found is None or size > service.limits.body or not service.is_quick(*found, size):
            return None
        try:
            length = header_length(headers)
            claim = Claim(service.memory, size, is_whole=True)
        except AotcError:
            return None
        try:
            asked = Asked("rest", *found, size, claim)
            answer = service.answer_now(
                asked, self._reader(memoryview(body), length, claim), self._write
            )
        except AotcError as error:
            return error_response(error)
        if answer is None:
            claim.close()
        return answer

    def _reader(self, body: memoryview, length: int | None, claim: Claim) -> Read:
        """Return a parser of requests with `length` bytes of JSON before binary data."""
        limits = self._service.limits

        def read(model: Model) -> Prepared:
            header, data = split(body, length)
            if len(header) > limits.json:
                raise json_too_large(len(header), limits)
            return prepare_call(model, header, data, limits.tensor, claim.take)

        return read

    def _write(self, outcome: Outcome) -> Parts:
        claim = Claim(self._service.memory, is_whole=True)
        return Parts(*json_answer(outcome, claim.take), claim)

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
            *([(f"{model}/shapes", self.shapes, ["GET"])] if self._shapes else ()),
        ]
        found = Starlette(
            routes=[
                Route(path, self._guard(endpoint), methods=methods)
                for path, endpoint, methods in routes
            ],
            exception_handlers={HTTPException: no_route},
        )
        # A redirection would name the host that the client did.
        found.router.redirect_slashes = False
        return found

    def _guard(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint, with answers for everything that it raises."""
        infer = endpoint == self.infer

        async def guarded(request: Request) -> Response:
            try:
                response = await endpoint(request)
            except AotcError as error:
                if not infer:
                    self._service.metrics.count_refused(error.code)
                response = error_response(error)
            except ClientDisconnect:
                response = Response(status_code=400)
            except Exception as error:  # noqa: BLE001 - never through ASGI, which would drop the connection
                warn_of(error)
                response = error_response(fault())
            if self._service.is_draining:
                response.raw_headers.append((b"connection", b"close"))
            return response

        return guarded

    async def infer(self, request: Request) -> Response:
        """Return an inference request."""
        traces = self._service.traces
        if traces is None:
            return await self._infer(request, ())
        with traces.request("rest", request.scope["headers"]) as span:
            return await self._infer(request, (span,))

    async def _infer(self, request: Request, spans: Sequence[Span]) -> Response:
        service, limits = self._service, self._service.limits
        length = header_length(request.scope["headers"])
        most = min(limits.body, limits.json) if length is None else limits.body
        try:
            body = await read_body(request, limits, service.memory, length or 0, most)
        except AotcError as error:
            service.metrics.count_refused(error.code)
            raise
        path = request.path_params
        size = len(body.data)
        asked = Asked("rest", path["name"], path.get("version", ""), size, body.claim, spans)
        answering = service.infer(asked, self._reader(body.data, length, body.claim), self._write)
        if service.is_quick(asked.name, asked.version, size):
            return await answering
        return await _while_connected(request, answering)

    async def live(self, _: Request) -> Response:
        """Report that the process is alive."""
        return encode_json({"live": True})

    async def ready(self, _: Request) -> Response:
        """Report whether every bundle has matched its fixtures and the server is not stopping."""
        is_ready = self._service.is_ready
        return encode_json({"ready": is_ready}, 200 if is_ready else 503)

    async def model_ready(self, request: Request) -> Response:
        """Report whether the model serves."""
        path = request.path_params
        name, version = path["name"], path.get("version", "")
        is_ready = self._service.repository.is_model_ready(name, version)
        found = {"name": self._find(request).name, "ready": is_ready}
        return encode_json(found, 200 if is_ready else 503)

    async def server(self, _: Request) -> Response:
        """Return the metadata of this server."""
        return encode_json({"name": "aotc", "version": VERSION, "extensions": EXTENSIONS})

    async def metadata(self, request: Request) -> Response:
        """Return the metadata of a model."""
        model = self._find(request)
        return encode_json(
            {
                "name": model.name,
                "versions": self._service.repository.versions(model.name),
                "platform": model.platform,
                "inputs": [metadata_of(port) for port in model.inputs],
                "outputs": [metadata_of(port) for port in model.outputs],
                "parameters": {"version": model.version, **model.facts},
            }
        )

    async def shapes(self, request: Request) -> Response:
        """Return the sizes of a model's calls, as `aotc profiles suggest` reads them."""
        entry_point = self._find(request).entry_point
        counted = await asyncio.to_thread(entry_point.report)
        kept = {key: counted[key] for key in ("shapes", "shapes_dropped")}
        return encode_json({"entry_points": {entry_point.name: kept}})

    async def index(self, request: Request) -> Response:
        """Return every model and version."""
        wanted = await self._small_document(request)
        rows = self._service.repository.index()
        if wanted.get("ready"):
            rows = [row for row in rows if row.state == "READY"]
        return encode_json([msgspec.to_builtins(row) for row in rows])

    async def load(self, request: Request) -> Response:
        """Load a model's bundle, or load it again if its file was changed."""
        await self._check_allowed(request)
        await asyncio.to_thread(self._service.repository.load_model, request.path_params["name"])
        return encode_json({})

    async def unload(self, request: Request) -> Response:
        """Unload a model's bundle when its last call has ended."""
        await self._check_allowed(request)
        await asyncio.to_thread(self._service.repository.unload_model, request.path_params["name"])
        return encode_json({})

    async def metrics(self, _: Request) -> Response:
        """Return the metrics in Prometheus's text format."""
        text = await asyncio.to_thread(self._service.metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    def _find(self, request: Request) -> Model:
        path = request.path_params
        return self._service.repository.find(path["name"], path.get("version", ""))

    async def _check_allowed(self, request: Request) -> None:
        """Raises ServerError: AOTC-E768, E767 for a bundle that comes with the request."""
        # Pages of other sites can make a browser send such a request; it then says which.
        if not self._control or "origin" in request.headers:
            raise not_allowed(TO_BROWSERS if self._control else self._change)
        refuse_parameters((await self._small_document(request)).get("parameters") or ())

    async def _small_document(self, request: Request) -> dict[str, Any]:
        limits = msgspec.structs.replace(self._service.limits, body=CONTROL_BODY_MAX)
        body = await read_body(request, limits, self._service.memory)
        try:
            text = bytes(body.data)
            return msgspec.json.decode(text, type=dict[str, Any]) if text.strip() else {}
        except (msgspec.MsgspecError, RecursionError) as error:
            raise invalid_request("request", str(error), "a JSON object") from None
        finally:
            body.claim.close()
