"""Spans of requests, and of the calls that serve them, for OpenTelemetry.

Needs the extra `aotc-runtime[opentelemetry]`; imported if the server traces. The process's
configuration decides where spans go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import time_ns

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from aotc_runtime.base.errors import AotcError
from aotc_runtime.serving.call_metrics import Answer
from aotc_serve.inference.error_statuses import statuses_of
from aotc_serve.inference.protocol_tensors import Array
from aotc_serve.inference.served_models import Masks, Model

Carrier = Iterable[tuple[str | bytes, str | bytes]]
"""Headers of HTTP, or metadata of gRPC."""

NAMES = {
    "rest": "POST /v2/models/{name}/infer",
    "grpc": "inference.GRPCInferenceService/ModelInfer",
}
"""Names of spans by protocol: what clients ask for must not make names up."""

FAULT = 500
"""From this number of HTTP on, an error is the server's."""


class Traces:
    """Makes spans with a tracer, by default that of this process."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("aotc_runtime")

    @contextmanager
    def request(self, protocol: str, carrier: Carrier) -> Iterator[Span]:
        """Yield the span of an inference request, below the span that the carrier names."""
        parent = propagate.extract(dict(_texts(carrier)), Context())
        name = NAMES[protocol]
        with self._tracer.start_as_current_span(
            name, parent, SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except AotcError as error:
                span.set_attribute("error.type", error.code)
                if statuses_of(error)[0] >= FAULT:
                    span.set_status(Status(StatusCode.ERROR))
                raise

    def call(
        self, model: Model, arrays: list[Array], requests: Sequence[Span], masks: Masks = None
    ) -> Answer:
        """Call the model, with a span for each request that the call serves.

        Raises what the call raises.
        """
        started = time_ns()
        try:
            answer = model.call(arrays, masks)
        except AotcError as error:
            self._on_called(model, requests, started, {"error.type": error.code})
            raise
        outcome = {"aotc.path": answer.path.value, "aotc.executable": answer.executable}
        self._on_called(model, requests, started, outcome)
        return answer

    def _on_called(
        self, model: Model, requests: Sequence[Span], started: int, outcome: dict[str, str]
    ) -> None:
        ended = time_ns()
        attributes: dict[str, str | int] = {
            "aotc.bundle": model.bundle.name,
            "aotc.version": model.version,
            "aotc.digest": model.bundle.root_digest,
            "aotc.entry_point": model.entry_point.name,
            "aotc.requests": len(requests),
            **outcome,
        }
        for request in requests:
            parent = trace.set_span_in_context(request, Context())
            span = self._tracer.start_span(
                f"call {model.entry_point.name}", parent, attributes=attributes, start_time=started
            )
            if "error.type" in outcome:
                span.set_status(Status(StatusCode.ERROR))
            span.end(ended)


def _texts(carrier: Carrier) -> Iterator[tuple[str, str]]:
    """Yield the carrier's texts for propagators, without binary metadata."""
    for name, value in carrier:
        key = name.decode("latin-1") if isinstance(name, bytes) else name
        if not key.endswith("-bin"):
            yield key, value.decode("latin-1") if isinstance(value, bytes) else value
