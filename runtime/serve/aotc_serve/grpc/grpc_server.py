"""The Open Inference Protocol over gRPC, with its extension for repositories."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.base.rendering import sentence, warn_of
from aotc_runtime.formats.protobuf_wire import WireError
from aotc_runtime.schema.host_facts import VERSION
from aotc_serve.grpc import grpc_messages as messages
from aotc_serve.grpc.grpc_calls import Call, Calls
from aotc_serve.grpc.grpc_inference import encode_response, prepare
from aotc_serve.grpc.grpc_wire import InferRequest, model_of, read_request
from aotc_serve.inference.error_statuses import (
    fault,
    let_go,
    not_allowed,
    refuse_parameters,
    statuses_of,
)
from aotc_serve.inference.inference_requests import Outcome, Prepared
from aotc_serve.inference.protocol_tensors import Take, invalid_request, take_nothing
from aotc_serve.inference.request_memory import COSTS, Claim
from aotc_serve.inference.served_models import Model
from aotc_serve.inference.server_options import Limits, Options
from aotc_serve.service.request_service import Asked, Service

if TYPE_CHECKING:
    from opentelemetry.trace import Span

EXTENSIONS = ["model_repository"]
CODE = "aotc-code"
"""Trailing metadata of an error: our code."""

type Answer = Callable[[Any], Awaitable[Any]]
"""From a message of protobuf's to another."""

type Handler = Callable[[bytes, Any], Awaitable[tuple[bytes, Claim]]]
"""From the bytes of a message, and grpc's context, to those of the answer and what they hold."""

METADATA_BYTES_MAX = 2**14

ENVELOPE = 2**16
"""Bytes of a message beside its tensors."""

SMALL_MESSAGE_MAX = 2**13
"""Bytes of a request that carries no tensors."""

STREAMS_MAX = 32
"""Calls on one connection. More wait at the client, so that others do not wait behind them."""

NOT_COMPRESSED = 1
"""The set of algorithms that has none: compressed messages are refused before they are inflated."""

TEXT_MAX = 2000
"""Characters of an error: clients take no more metadata than 8 KiB."""


class GrpcServer:
    """A server of gRPC beside that of HTTP, in the same event loop."""

    def __init__(self, server: Any, host: str, port: int) -> None:
        self._server, self.host, self.port = server, host, port

    @classmethod
    async def start(cls, service: Service, options: Options) -> GrpcServer:
        """Raises ServerError (AOTC-E782)."""
        server = grpc.aio.server(options=_arguments(service.limits))
        server.add_generic_rpc_handlers((_Calls(service, options.control).handlers(),))
        host = options.host
        address = f"{f'[{host}]' if ':' in host else host}:{options.grpc_port}"
        try:
            port = server.add_insecure_port(address)
        except RuntimeError as error:
            raise refusal("AOTC-E782", address, str(error)) from error
        await server.start()
        return cls(server, host, port)

    async def stop(self, seconds: float) -> None:
        """Take no more calls, and wait for those that are under way."""
        await self._server.stop(seconds)


def _arguments(limits: Limits) -> list[tuple[str, int]]:
    """Return grpc's own limits; an eighth of the memory, or 16, bounds its connections."""
    connections = limits.memory // 8 // COSTS.grpc_connection
    return [
        ("grpc.max_receive_message_length", limits.body + ENVELOPE),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.compression_enabled_algorithms_bitset", NOT_COMPRESSED),
        ("grpc.max_concurrent_streams", STREAMS_MAX),
        ("grpc.max_allowed_incoming_connections", min(limits.connections, max(connections, 16))),
        ("grpc.server_handshake_timeout_ms", _milliseconds(limits.header_seconds)),
        ("grpc.max_connection_idle_ms", _milliseconds(limits.idle_seconds)),
        ("grpc.max_connection_age_ms", _milliseconds(limits.age_seconds)),
        (
            "grpc.max_connection_age_grace_ms",
            _milliseconds(limits.body_seconds + limits.call_seconds + limits.write_seconds),
        ),
        ("grpc.keepalive_time_ms", _milliseconds(limits.idle_seconds)),
        ("grpc.keepalive_timeout_ms", _milliseconds(limits.header_seconds)),
        ("grpc.so_reuseport", 0),
    ]


def _milliseconds(seconds: float) -> int:
    return min(max(int(seconds * 1000), 1), 2**31 - 1)


class _Calls:
    """Handlers of calls, which return a message or raise an AotcError."""

    def __init__(self, service: Service, control: bool) -> None:
        self._service, self._control = service, control
        self._calls = Calls(service.memory, service.limits)

    def handlers(self) -> Any:
        """Return gRPC's handlers of calls.

        They are streams on this side, plain calls on the wire, so that each message and each answer
        has a timeout.
        """
        answered: dict[str, Answer] = {
            "ServerLive": self.live,
            "ServerReady": self.ready,
            "ModelReady": self.model_ready,
            "ServerMetadata": self.server,
            "ModelMetadata": self.metadata,
            "RepositoryIndex": self.index,
            "RepositoryModelLoad": self.load,
            "RepositoryModelUnload": self.unload,
        }
        every = {name: self._parse_small(name, answer) for name, answer in answered.items()}
        every["ModelInfer"] = self.infer
        return grpc.method_handlers_generic_handler(
            messages.SERVICE,
            {
                name: grpc.stream_stream_rpc_method_handler(self._guard(handler))
                for name, handler in every.items()
            },
        )

    def _guard(self, handler: Handler) -> Callable[[Any, Any], Awaitable[None]]:
        """Return the handler, with statuses for everything that it raises."""

        async def guarded(_: Any, context: Any) -> None:
            refused = await self._answer(handler, context)
            if refused is None:
                return
            context.set_trailing_metadata(((CODE, refused.code),))
            status = getattr(grpc.StatusCode, statuses_of(refused)[1])
            text = " | ".join(map(sentence, refused.findings))
            # It raises, and the error may live long: nothing of the request is in this frame.
            await context.abort(status, text[:TEXT_MAX])

        return guarded

    async def _answer(self, handler: Handler, context: Any) -> AotcError | None:
        """Answer a call, or say why not."""
        call: Call | None = None
        try:
            call = self._calls.begin(context.peer())
            message = await self._message(context, call)
            answer, claim = await handler(message, context)
            del message
            self._calls.is_answered(call)
            await context.write(answer)
            claim.close()
        except AotcError as error:
            let_go(error)
            return error
        except Exception as error:  # noqa: BLE001 - told in the log, and to the client without its text
            warn_of(error)
            return fault()
        finally:
            if call is not None:
                self._calls.end(call)
        return None

    async def _message(self, context: Any, call: Call) -> bytes:
        """Return the message of a call. Raises ServerError: AOTC-E761, E764, E766."""
        try:
            message = await context.read()
        except asyncio.CancelledError:
            if call.refused is None:
                raise
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            self._service.metrics.count_refused(call.refused.code)
            raise call.refused from None
        if not isinstance(message, bytes):
            raise invalid_request("request", "no message", "a message")
        self._calls.on_received(call, len(message))
        return message

    def _parse_small(self, name: str, answer: Answer) -> Handler:
        """Return a handler of a small message, which protobuf may parse."""
        kind = messages.message(f"{name}Request")

        async def parsed(message: bytes, _: Any) -> tuple[bytes, Claim]:
            if len(message) > SMALL_MESSAGE_MAX:
                expected = f"at most {SMALL_MESSAGE_MAX} bytes"
                hint = "send only the fields of this method"
                found = f"{len(message)} bytes"
                raise refusal("AOTC-E763", "request", found, expected=expected, hint=hint)
            try:
                request = kind.FromString(message)
            except DecodeError as error:
                raise invalid_request("request", str(error), f"a message {name}Request") from None
            return (await answer(request)).SerializeToString(), Claim(self._service.memory)

        return parsed

    async def live(self, _: Any) -> Any:
        return messages.message("ServerLiveResponse")(live=True)

    async def ready(self, _: Any) -> Any:
        return messages.message("ServerReadyResponse")(ready=self._service.is_ready)

    async def model_ready(self, request: Any) -> Any:
        is_ready = self._service.repository.is_model_ready(request.name, request.version)
        return messages.message("ModelReadyResponse")(ready=is_ready)

    async def server(self, _: Any) -> Any:
        kind = messages.message("ServerMetadataResponse")
        return kind(name="aotc", version=VERSION, extensions=EXTENSIONS)

    async def metadata(self, request: Any) -> Any:
        repository = self._service.repository
        model = repository.find(request.name, request.version)
        found = messages.MetadataResponse(
            name=model.name, versions=repository.versions(model.name), platform=model.platform
        )
        for ports, listed in ((model.inputs, found.inputs), (model.outputs, found.outputs)):
            for port in ports:
                listed.add(name=port.name, datatype=port.datatype, shape=port.shape)
        return found

    async def infer(self, message: bytes, context: Any) -> tuple[bytes, Claim]:
        traces = self._service.traces
        if traces is None:
            return await self._infer(message, ())
        with traces.request("grpc", context.invocation_metadata() or ()) as span:
            return await self._infer(message, (span,))

    async def _infer(self, message: bytes, spans: Sequence[Span]) -> tuple[bytes, Claim]:
        service, limits, data = self._service, self._service.limits, memoryview(message)
        try:
            claim = Claim(service.memory, len(data), is_whole=True)
            name, version = await _model_of(data)
        except AotcError as error:
            service.metrics.count_refused(error.code)
            raise

        def read(model: Model) -> Prepared:
            request = _read(data, claim.take)
            if (request.model_name, request.model_version) != (name, version):
                raise invalid_request("request", "several model names", "one model name")
            return prepare(model, request, limits.tensor, claim.take)

        def write(outcome: Outcome) -> tuple[bytes, Claim]:
            held = Claim(service.memory, is_whole=True)
            return encode_response(outcome, held.take), held

        return await service.infer(
            Asked("grpc", name, version, len(data), claim, spans), read, write
        )

    async def index(self, request: Any) -> Any:
        found = messages.IndexResponse()
        for row in self._service.repository.index():
            if row.state == "READY" or not request.ready:
                found.models.add(
                    name=row.name, version=row.version, state=row.state, reason=row.reason
                )
        return found

    async def load(self, request: Any) -> Any:
        self._require_control(request)
        await asyncio.to_thread(self._service.repository.load_model, request.model_name)
        return messages.message("RepositoryModelLoadResponse")()

    async def unload(self, request: Any) -> Any:
        self._require_control(request)
        await asyncio.to_thread(self._service.repository.unload_model, request.model_name)
        return messages.message("RepositoryModelUnloadResponse")()

    def _require_control(self, request: Any) -> None:
        if not self._control:
            raise not_allowed()
        refuse_parameters(request.parameters)


async def _model_of(data: memoryview) -> tuple[str, str]:
    """Return the model that a message names, and its version. Raises ServerError (AOTC-E761)."""
    try:
        found = model_of(data)
    except WireError as error:
        raise invalid_request("request", str(error), "a message ModelInferRequest") from None
    if found is None:
        request = await asyncio.to_thread(_read, data, take_nothing)
        found = request.model_name, request.model_version
    return found


def _read(data: memoryview, take: Take) -> InferRequest:
    """Raises ServerError: AOTC-E761, E766."""
    try:
        return read_request(data, take)
    except WireError as error:
        raise invalid_request("request", str(error), "a message ModelInferRequest") from None
