"""Metrics of the server, for Prometheus and OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from aotc_runtime.exporters.prometheus import BundleCollector
from aotc_runtime.serving.loaded_bundle import LoadedBundle

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._known: dict[tuple[str, str, str], Histogram] = {}
        self._seconds = Histogram(
            "aotc_server_request_seconds",
            "Inference requests, from when their body was there; code: of the error, or empty",
            ["model", "protocol", "code"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._turned_away = Counter(
            "aotc_server_turned_away",
            "Connections and requests that were refused before a model was asked",
            ["code"],
            registry=self._registry,
        )
        self._joined = Histogram(
            "aotc_server_joined_requests",
            "Requests that one call served",
            ["model"],
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
            registry=self._registry,
        )
        self._refused = Counter(
            "aotc_server_refused_bundles",
            "Bundles that were refused beside what serves; code: of the first finding",
            ["code"],
            registry=self._registry,
        )

    def watch(
        self,
        requests: Callable[[], float],
        memory: Callable[[], float],
        bundles: Callable[[], Iterable[LoadedBundle]],
    ) -> None:
        """Set the sources of gauges: `requests` in flight, and their `memory` in bytes."""
        under_way = Gauge(
            "aotc_server_requests", "Inference requests under way", registry=self._registry
        )
        under_way.set_function(requests)
        held = Gauge(
            "aotc_server_request_bytes",
            "Bytes of requests and answers under way",
            registry=self._registry,
        )
        held.set_function(memory)
        self._registry.register(BundleCollector(bundles))
        _observe(bundles)

    def watch_connections(self, connections: Callable[[], float]) -> None:
        """Set the source of the number of open HTTP connections."""
        gauge = Gauge(
            "aotc_server_connections", "Connections of HTTP that are open", registry=self._registry
        )
        gauge.set_function(connections)

    def watch_revoked(self, revoked: Callable[[], float]) -> None:
        """Set the source of the number of bundles revoked since they were loaded."""
        gauge = Gauge(
            "aotc_server_revoked_bundles",
            "Bundles that serve, or did, and that their policy has revoked since",
            registry=self._registry,
        )
        gauge.set_function(revoked)

    def request(self, model: str, protocol: str, code: str, seconds: float) -> None:
        """Count a request."""
        key = model, protocol, code
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._seconds.labels(*key)
        known.observe(seconds)

    def turned_away(self, code: str) -> None:
        """Count what was refused before a model was asked."""
        self._turned_away.labels(code).inc()

    def refused(self, codes: Sequence[str]) -> None:
        """Count a bundle that failed to load with these codes."""
        self._refused.labels(codes[0]).inc()

    def joined(self, model: str, requests: int) -> None:
        """Count a call that served so many requests."""
        self._joined.labels(model).observe(requests)

    def samples(self) -> Iterator[tuple[str, str, dict[str, str], float]]:
        """Yield all samples but times of creation: name, description, labels, value."""
        for family in self._registry.collect():
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    yield sample.name, family.documentation, sample.labels, sample.value

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


def _observe(bundles: Callable[[], Iterable[LoadedBundle]]) -> None:
    """Register with OpenTelemetry's meter of this process, if OpenTelemetry is installed."""
    try:
        from opentelemetry import metrics
    except ImportError:
        return
    from aotc_runtime.exporters.opentelemetry import observe

    observe(metrics.get_meter("aotc_runtime"), bundles)
