"""The Open Inference Protocol over gRPC, with its extension for repositories."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np

from aotc_runtime.errors import AotcError
from aotc_runtime.rendering import warn_of
from aotc_runtime.schema.facts import VERSION
from aotc_runtime.servers import grpc_messages as messages
from aotc_runtime.servers.inference import (
    Outcome,
    Prepared,
    complete,
    outputs_of,
    placed,
    refuse_large,
    refuse_what_is_not_offered,
)
from aotc_runtime.servers.models import Model
from aotc_runtime.servers.options import Options
from aotc_runtime.servers.service import Service
from aotc_runtime.servers.statuses import (
    fault,
    grpc_status,
    let_go,
    not_allowed,
    not_listening,
    refuse_parameters,
    sentence,
)
from aotc_runtime.servers.tensors import Array, Port, from_bytes, from_values, misfit, to_bytes

if TYPE_CHECKING:
    from opentelemetry.trace import Span

EXTENSIONS = ["model_repository"]
CODE = "aotc-code"
"""Trailing metadata of an error: our code."""

Handler = Callable[[Any, Any], Awaitable[Any]]

METADATA_BYTES_MAX = 2**16
ENVELOPE = 2**16
"""Bytes of a message beside its tensors."""

TEXT_MAX = 2000
"""Characters of an error: clients take no more metadata than 8 KiB."""

_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}
"""The field of typed contents, by datatype; others come raw."""


class GrpcServer:
    """A server of gRPC beside that of HTTP, in the same event loop."""

    def __init__(self, server: Any, host: str, port: int) -> None:
        self._server, self.host, self.port = server, host, port

    @classmethod
    async def started(cls, service: Service, options: Options) -> GrpcServer:
        """Raises ServerError (AOTC-E782)."""
        limits = options.limits
        server = grpc.aio.server(
            maximum_concurrent_rpcs=limits.requests,
            options=[
                ("grpc.max_receive_message_length", limits.body + ENVELOPE),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_metadata_size", METADATA_BYTES_MAX),
                ("grpc.max_connection_idle_ms", int(limits.idle_seconds * 1000)),
                ("grpc.so_reuseport", 0),
            ],
        )
        server.add_generic_rpc_handlers((_handlers(_Calls(service, options.control)),))
        host = options.host
        address = f"{f'[{host}]' if ':' in host else host}:{options.grpc_port}"
        try:
            port = server.add_insecure_port(address)
        except RuntimeError as error:
            raise not_listening(address, str(error)) from error
        await server.start()
        return cls(server, host, port)

    async def stop(self, seconds: float) -> None:
        """Take no more calls, and wait for those that are under way."""
        await self._server.stop(seconds)


def _handlers(calls: _Calls) -> Any:
    """How gRPC finds what answers a call."""
    answered: dict[str, Handler] = {
        "ServerLive": calls.live,
        "ServerReady": calls.ready,
        "ModelReady": calls.model_ready,
        "ServerMetadata": calls.server,
        "ModelMetadata": calls.metadata,
        "ModelInfer": calls.infer,
        "RepositoryIndex": calls.index,
        "RepositoryModelLoad": calls.load,
        "RepositoryModelUnload": calls.unload,
    }
    return grpc.method_handlers_generic_handler(
        messages.SERVICE,
        {
            name: grpc.unary_unary_rpc_method_handler(
                _guarded(handler),
                request_deserializer=messages.message(f"{name}Request").FromString,
                response_serializer=messages.message(f"{name}Response").SerializeToString,
            )
            for name, handler in answered.items()
        },
    )


def _guarded(handler: Handler) -> Handler:
    """The handler, with statuses for everything that it raises."""

    async def guarded(request: Any, context: Any) -> Any:
        try:
            return await handler(request, context)
        except AotcError as error:
            let_go(error)
            refused = error
        except Exception as error:  # noqa: BLE001 - told in the log, and to the client without its text
            warn_of(error)
            refused = fault()
        context.set_trailing_metadata(((CODE, refused.code),))
        status = getattr(grpc.StatusCode, grpc_status(refused))
        text = " | ".join(map(sentence, refused.findings))
        return await context.abort(status, text[:TEXT_MAX])

    return guarded


class _Calls:
    """What answers each call; it gives a message, or raises an AotcError."""

    def __init__(self, service: Service, control: bool) -> None:
        self._service, self._control = service, control

    async def live(self, _: Any, __: Any) -> Any:
        return messages.message("ServerLiveResponse")(live=True)

    async def ready(self, _: Any, __: Any) -> Any:
        return messages.message("ServerReadyResponse")(ready=self._service.is_ready)

    async def model_ready(self, request: Any, _: Any) -> Any:
        self._service.repository.find(request.name, request.version)
        return messages.message("ModelReadyResponse")(ready=True)

    async def server(self, _: Any, __: Any) -> Any:
        kind = messages.message("ServerMetadataResponse")
        return kind(name="aotc", version=VERSION, extensions=EXTENSIONS)

    async def metadata(self, request: Any, _: Any) -> Any:
        repository = self._service.repository
        model = repository.find(request.name, request.version)
        found = messages.MetadataResponse(
            name=model.name, versions=repository.versions(model.name), platform=model.platform
        )
        for ports, listed in ((model.inputs, found.inputs), (model.outputs, found.outputs)):
            for port in ports:
                listed.add(name=port.name, datatype=port.datatype, shape=port.shape)
        return found

    async def infer(self, request: Any, context: Any) -> Any:
        traces = self._service.traces
        if traces is None:
            return await self._infer(request, ())
        with traces.request("grpc", context.invocation_metadata() or ()) as span:
            return await self._infer(request, (span,))

    async def _infer(self, request: Any, spans: Sequence[Span]) -> Any:
        service, limits = self._service, self._service.limits
        size = request.ByteSize()
        service.memory.take(size)
        return await service.infer(
            "grpc",
            request.model_name,
            request.model_version,
            size,
            lambda model: _prepare(model, request, limits.tensor),
            _response,
            spans,
        )

    async def index(self, request: Any, _: Any) -> Any:
        found = messages.IndexResponse()
        for row in self._service.repository.index():
            if row.state == "READY" or not request.ready:
                found.models.add(
                    name=row.name, version=row.version, state=row.state, reason=row.reason
                )
        return found

    async def load(self, request: Any, _: Any) -> Any:
        self._require_control(request)
        await asyncio.to_thread(self._service.repository.load_model, request.model_name)
        return messages.message("RepositoryModelLoadResponse")()

    async def unload(self, request: Any, _: Any) -> Any:
        self._require_control(request)
        await asyncio.to_thread(self._service.repository.unload_model, request.model_name)
        return messages.message("RepositoryModelUnloadResponse")()

    def _require_control(self, request: Any) -> None:
        if not self._control:
            raise not_allowed("a server without it")
        refuse_parameters(request.parameters)


def _prepare(model: Model, request: Any, tensor_bytes_max: int) -> Prepared:
    """Arguments from raw contents, or from typed ones.

    Raises ServerError (AOTC-E761, E763, E767), ShapeError (AOTC-E606).
    """
    refuse_what_is_not_offered(_plain(request.parameters), "request")
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        expected = f"{len(request.inputs)}, one for each input"
        raise misfit("raw_input_contents", str(len(raw)), expected)
    arrays: list[Array | None] = [None] * len(model.inputs)
    for number, tensor in enumerate(request.inputs):
        refuse_what_is_not_offered(_plain(tensor.parameters), f"input {tensor.name[:100]}")
        place, port = placed(model, arrays, tensor.name, tensor.datatype)
        shape = list(tensor.shape)
        if any(axis < 0 for axis in shape):
            raise misfit(f"input {port.name}", str(shape), "a shape without negative axes")
        refuse_large(port, shape, tensor_bytes_max)
        if raw:
            if tensor.HasField("contents"):
                raise misfit(f"input {port.name}", "both", "raw or typed contents")
            arrays[place] = from_bytes(port, shape, raw[number])
        else:
            arrays[place] = _typed(port, shape, tensor.contents)
    for output in request.outputs:
        refuse_what_is_not_offered(_plain(output.parameters), f"output {output.name[:100]}")
    wanted = [(output.name, True) for output in request.outputs]
    return Prepared(request.id, complete(model, arrays), outputs_of(model, wanted, True))


def _typed(port: Port, shape: list[int], contents: Any) -> Array:
    """Raises ServerError (AOTC-E761)."""
    name = _CONTENTS.get(port.datatype)
    others = [field.name for field, _ in contents.ListFields() if field.name != name]
    if name is None or others:
        expected = f"{name or 'raw contents'} for {port.datatype}"
        raise misfit(f"input {port.name}", ", ".join(others) or "none of those", expected)
    values = getattr(contents, name)
    if port.dtype.kind == "f":
        # Infinities are numbers here, as they are in raw contents.
        array: Array = np.fromiter(values, port.dtype, len(values))
        return from_bytes(port, shape, to_bytes(array))
    return from_values(port, shape, list(values))


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON would have them."""
    plain = {}
    for name, value in parameters.items():
        chosen = value.WhichOneof("parameter_choice")
        plain[name] = getattr(value, chosen) if chosen else None
    return plain


def _response(outcome: Outcome) -> Any:
    model = outcome.model
    response = messages.InferResponse(
        model_name=model.name, model_version=model.version, id=outcome.prepared.id
    )
    for name, value in outcome.parameters.items():
        parameter = response.parameters[name]
        if isinstance(value, int):
            parameter.int64_param = value
        else:
            parameter.string_param = str(value)
    for place, _ in outcome.prepared.outputs:
        port, array = model.outputs[place], outcome.arrays[place]
        response.outputs.add(name=port.name, datatype=port.datatype, shape=array.shape)
        response.raw_output_contents.append(bytes(to_bytes(array)))
    return response
