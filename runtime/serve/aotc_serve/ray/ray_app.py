"""A bundle on the nodes of a Ray cluster, as an application of Ray Serve.

Start it with `serve run aotc_serve.ray.ray_app:app bundle=digits.aotb trust=trust.toml`. Each
replica of its one deployment verifies and loads the bundle in its own process, and gets requests
once every fixture has matched. Ray 2.60 is the first that starts new replicas before it stops old
ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from aotc_runtime.base.errors import refusal
from aotc_serve.ray.pinned_deployment import Pinned, arguments_of, pin

try:
    from ray import serve
    from ray.serve.metrics import Gauge
    from starlette.types import ASGIApp, Receive, Scope, Send
except ImportError as error:
    if (error.name or "").partition(".")[0] not in ("ray", "starlette"):
        raise
    raise refusal(
        "AOTC-E406",
        "aotc_serve.ray.ray_app",
        f"no {error.name}",
        cause="ray-serve-is-not-installed",
    ) from error

from aotc_serve.http.http_app import Rest
from aotc_serve.http.http_messages import error_response
from aotc_serve.inference.error_statuses import BY_DEPLOYMENT
from aotc_serve.inference.server_metrics import Metrics
from aotc_serve.service.bundle_repository import Repository
from aotc_serve.service.request_service import Service

__all__ = ["app"]

EXPORT_SECONDS = 5.0
"""Interval in which a replica exports its metrics to the node."""

REQUESTS_AT_ONCE = 100
"""Sent by Ray to one replica: enough for batches. Others wait for any replica."""

SURGE_PERCENT = 25
"""Part of the replicas, at least one, that may start beside the old ones."""


@serve.ingress()
class Bundle:
    """A replica, ready once the bundle is verified and loaded."""

    async def __init__(self, what: Pinned) -> None:  # type: ignore[misc]  # Ray awaits it
        metrics = Metrics()
        repository = Repository((what.reference,), (what.policy,), what.settings, _log)
        await asyncio.to_thread(repository.load_all, strict=True)
        self._service = Service(repository, what.limits, metrics, what.workers, what.delay)
        self._exporting = asyncio.create_task(_export(metrics))

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Return the routes of a server, but for its metrics."""
        routes = Rest(self._service, control=False, change=BY_DEPLOYMENT).application()
        missing = refusal("AOTC-E767", "GET /metrics", "", cause="no-metrics-at-this-address")
        no_metrics = error_response(missing)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            path = str(scope.get("path", "")).removeprefix(scope.get("root_path", "").rstrip("/"))
            await (no_metrics if path == "/metrics" else routes)(scope, receive, send)

        return app


def app(arguments: dict[str, Any]) -> Any:
    """Build the application, for `serve run`, a file for `serve deploy`, or `ray.serve.run`.

    The bundle is verified here, and pinned by its digest; an application that served before goes
    on if this raises.

    Args:
        arguments: As in docs/guides/serve.md.

    Raises:
        ServerError: AOTC-E785.
        AotcError: What `aotc_runtime.verify` raises.
    """
    asked = arguments_of(arguments)
    what = pin(asked)
    bundle = serve.deployment(
        Bundle,
        name="bundle",
        num_replicas=asked.replicas,
        max_ongoing_requests=min(asked.max_requests, REQUESTS_AT_ONCE),
        graceful_shutdown_timeout_s=asked.call_seconds,
        max_surge_percent=SURGE_PERCENT,
    )
    return bundle.bind(what)


def _log(event: str, facts: Mapping[str, object]) -> None:
    line = msgspec.json.encode({"event": event, **facts}).decode()
    logging.getLogger("ray.serve").info("%s", line)


async def _export(metrics: Metrics) -> None:
    """Export all metrics to the node, which adds the prefix `ray_`.

    All are gauges, since Ray's histogram cannot take ready counts; PromQL works on them all.
    """
    gauges: dict[str, Any] = {}
    while True:
        for name, meaning, labels, value in await asyncio.to_thread(lambda: [*metrics.samples()]):
            gauge = gauges.get(name)
            if gauge is None:
                gauge = gauges[name] = Gauge(name, meaning, tuple(labels))
            gauge.set(value, tags=dict(labels))
        await asyncio.sleep(EXPORT_SECONDS)
