"""Spans of requests are children of those that clients name, and calls are children of requests."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from served import binary_request

from aotc_serve.http.http_app import Rest
from aotc_serve.inference.request_spans import Traces
from aotc_serve.inference.server_metrics import Metrics
from aotc_serve.inference.server_options import Limits
from aotc_serve.service.bundle_repository import Repository
from aotc_serve.service.request_service import Service

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def traced(
    repository: Repository, *requests: tuple[str, int], delay: float | None = None
) -> tuple[list[int], list[ReadableSpan]]:
    """Statuses of requests that are made at the same time, and what was traced. requests: their
    `traceparent` and how many rows they have.
    """
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def run() -> list[int]:
        traces = Traces(provider.get_tracer("test"))
        service = Service(repository, Limits(), Metrics(), 2, delay, traces)
        app = Rest(service, control=False).application()
        try:
            return await asyncio.gather(*(asked(app, *request) for request in requests))
        finally:
            service.close()

    return asyncio.run(run()), list(exporter.get_finished_spans())


async def asked(app: Any, parent: str, rows: int) -> int:
    x = np.ones((rows, 4), np.float32)
    header, data = binary_request({"x": ("FP32", x), "y": ("FP32", x)})
    headers = {"inference-header-content-length": str(len(header)), "traceparent": parent}
    path = "/v2/models/joins.rows/infer"
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "root_path": "", "http_version": "1.1", "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    bodies = [{"type": "http.request", "body": header + data, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if bodies:
            return bodies.pop()
        await asyncio.Event().wait()  # the client stays
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"]


def parent_of(span: ReadableSpan) -> str:
    return f"{span.parent.span_id:016x}" if span.parent is not None else ""


def id_of(span: ReadableSpan) -> str:
    return f"{span.context.span_id:016x}"


def test_request_continues_the_trace_of_its_client(repository: Repository) -> None:
    statuses, (call, request) = traced(repository, (PARENT, 4))
    assert statuses == [200]
    assert {f"{span.context.trace_id:032x}" for span in (call, request)} == {TRACE}
    assert (parent_of(request), parent_of(call)) == (SPAN, id_of(request))
    assert request.kind.name == "SERVER" and request.name == "POST /v2/models/{name}/infer"
    told = dict(call.attributes or {})
    assert len(str(told.pop("aotc.digest"))) == 71
    assert told == {
        "aotc.bundle": "joins",
        "aotc.version": "1.0.0",
        "aotc.entry_point": "rows",
        "aotc.requests": 1,
        "aotc.path": "exact",
        "aotc.executable": "rows[batch=4]",
    }
    assert request.start_time <= call.start_time <= call.end_time <= request.end_time  # type: ignore[operator]


def test_joined_call_is_in_the_trace_of_each_request(repository: Repository) -> None:
    others = [f"00-{number:032x}-{number:016x}-01" for number in (1, 2, 3, 4)]
    statuses, spans = traced(repository, *((parent, 4) for parent in others), delay=10)
    assert statuses == [200] * 4
    calls = [span for span in spans if span.name == "call rows"]
    requests = {id_of(span): span for span in spans if span not in calls}
    assert sorted(span.context.trace_id for span in calls) == [1, 2, 3, 4]
    for call in calls:
        assert (call.attributes or {})["aotc.requests"] == 4
        assert requests[parent_of(call)].context.trace_id == call.context.trace_id


@pytest.mark.parametrize("parent", ["", "00-x", f"00-{'0' * 32}-{SPAN}-01", "é" * 1000])
def test_a_parent_that_is_none_begins_a_trace(repository: Repository, parent: str) -> None:
    statuses, (call, request) = traced(repository, (parent, 4))
    assert statuses == [200]
    assert (parent_of(request), parent_of(call)) == ("", id_of(request))


def test_a_request_that_is_refused_says_why(repository: Repository) -> None:
    statuses, (call, request) = traced(repository, (PARENT, 65))
    assert statuses == [400]
    for span in (call, request):
        assert (span.attributes or {})["error.type"] == "AOTC-E613"
        assert span.events == ()
    assert request.status.status_code.name == "UNSET", "it is the client's fault"


def test_nothing_is_traced_or_imported_unless_asked_for() -> None:
    program = (
        "import sys, json, aotc_serve.server_process\n"
        "print(json.dumps([n for n in sys.modules if 'opentelemetry' in n or 'traces' in n]))"
    )
    assert json.loads(subprocess.check_output([sys.executable, "-c", program])) == []
