"""A bundle on the nodes of a Ray cluster, as an application of Ray Serve:
`serve run aotc_serve.ray.ray_app:app bundle=digits.aotb trust=trust.toml`.

Two deployments. `routes` takes requests from Ray's proxies and has a replica answer each, another
one if that ends before. `bundle` are the replicas: each verifies and loads the bundle in a process
of its own, and Ray sends it nothing before every fixture has matched. Only public names of Ray are
used; seen with 2.60, the first that can start new replicas before it stops old ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from aotc_runtime.base.errors import refusal
from aotc_serve.ray.pinned_deployment import QUEUE, Pinned, arguments_of, by_queue, pinned

try:
    from ray import serve
    from ray.exceptions import NodeDiedError, ObjectLostError, OutOfMemoryError, RayActorError
    from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
    from ray.serve.metrics import Gauge
    from starlette.requests import Request
    from starlette.responses import Response
except ImportError as error:
    if (error.name or "").partition(".")[0] not in ("ray", "starlette"):
        raise
    raise refusal(
        "AOTC-E406",
        "aotc_serve.ray.ray_app",
        f"no {error.name}",
        expected="the packages of the extra aotc-serve[ray]",
        hint="install them: in a clone, `pip install ./runtime './runtime/serve[ray]'`",
    ) from error

from aotc_serve.http.http_app import application
from aotc_serve.inference.error_statuses import BY_DEPLOYMENT
from aotc_serve.inference.server_metrics import Metrics
from aotc_serve.inference.server_options import Limits
from aotc_serve.ray.request_relay import (
    Answered,
    Carried,
    LostError,
    Relay,
    UnavailableError,
    answered,
)
from aotc_serve.service.bundle_repository import Repository
from aotc_serve.service.request_service import Service

__all__ = ["app", "by_queue"]

EXPORT_SECONDS = 5.0
"""How often a replica gives its metrics to the node."""

REQUESTS_AT_ONCE = 100
"""That Ray sends to one replica: enough to be joined, and to be seen in its queue. What is beyond
waits where any replica may take it.
"""

SURGE_PERCENT = 25
"""How many of the replicas, at least one, may start beside the old ones that they replace; these
serve until then, and go on if the new ones do not start.
"""


class Bundle:
    """A replica. It is ready when this has been made: the bundle is verified and loaded."""

    async def __init__(self, what: Pinned) -> None:  # type: ignore[misc]  # Ray awaits it
        metrics = Metrics()
        repository = Repository((what.reference,), (what.policy,), what.settings, _tell)
        await asyncio.to_thread(repository.load_all, strict=True)
        # Nothing is answered in the event loop, so that the queue has whatever waits.
        self._service = Service(
            repository, what.limits, metrics, what.workers, what.delay, quick_seconds=0
        )
        self._app = application(self._service, control=False, change=BY_DEPLOYMENT)
        self._exporting = asyncio.create_task(_export(metrics))

    async def answer(self, carried: Carried) -> Answered:
        """What a server of the bundle answers."""
        return await answered(self._app, carried)

    def record_autoscaling_stats(self) -> dict[str, float]:
        """What Ray averages, and asks the policy about."""
        return {QUEUE: float(self._service.requests)}


class Routes:
    """The addresses of the protocol, in front of the replicas."""

    def __init__(self, replicas: Any, limits: Limits) -> None:
        self._replicas = replicas
        self._relay = Relay(self._ask, limits)

    async def __call__(self, request: Request) -> Response:
        return await self._relay.respond(request)

    async def _ask(self, carried: Carried) -> Answered:
        try:
            answer: Answered = await self._replicas.answer.remote(carried)
        except (RayActorError, ObjectLostError, NodeDiedError, OutOfMemoryError) as error:
            raise LostError from error
        except (BackPressureError, DeploymentUnavailableError) as error:
            raise UnavailableError(str(error)) from error
        return answer


def app(arguments: dict[str, Any]) -> Any:
    """The application, for `serve run`, a file for `serve deploy`, or `ray.serve.run`.

    arguments: docs/serving.md lists them.  The bundle is verified here and now, and what was
    verified is pinned by its digest. Raises ServerError (AOTC-E785), and what
    `aotc_runtime.verify` raises; what served before then serves on.
    """
    asked = arguments_of(arguments)
    what = pinned(asked)
    scaling: dict[str, Any] = {"num_replicas": asked.replicas}
    if asked.max_replicas is not None:
        policy = {"policy_function": by_queue}
        scaling = {
            "autoscaling_config": {
                "min_replicas": asked.replicas,
                "max_replicas": asked.max_replicas,
                "target_ongoing_requests": asked.target_requests,
                "policy": policy,
            }
        }
    common = {
        "graceful_shutdown_timeout_s": asked.call_seconds,
        "max_surge_percent": SURGE_PERCENT,
    }
    bundle = serve.deployment(
        Bundle, name="bundle", max_ongoing_requests=REQUESTS_AT_ONCE, **scaling, **common
    )
    routes = serve.deployment(
        Routes,
        name="routes",
        num_replicas=asked.routes,
        max_ongoing_requests=asked.max_requests,
        **common,
    )
    return routes.bind(bundle.bind(what), what.limits)


def _tell(event: str, facts: Mapping[str, object]) -> None:
    """To the log of the replica."""
    logging.getLogger("ray.serve").info(
        "%s", msgspec.json.encode({"event": event, **facts}).decode()
    )


async def _export(metrics: Metrics) -> None:
    """Ours, as the node exports them, with `ray_` before their names: as gauges, whatever they are,
    since Ray has no histogram that takes another's counts. The functions of Prometheus do not mind.
    """
    gauges: dict[str, Any] = {}
    while True:
        for name, meaning, labels, value in await asyncio.to_thread(lambda: [*metrics.samples()]):
            gauge = gauges.get(name)
            if gauge is None:
                gauge = gauges[name] = Gauge(name, meaning, tuple(labels))
            gauge.set(value, tags=dict(labels))
        await asyncio.sleep(EXPORT_SECONDS)
