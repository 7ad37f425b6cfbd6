"""Metrics of the server, for Prometheus and OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

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
        meaning = "Connections and requests that were refused before a model was asked"
        name = "aotc_server_turned_away"
        self._turned_away = Counter(name, meaning, ["code"], registry=self._registry)
        self._joined = Histogram(
            "aotc_server_joined_requests",
            "Requests that one call served",
            ["model"],
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
            registry=self._registry,
        )
        meaning = "Loads of bundles by result; code: of the first finding, or empty"
        labels = ["result", "code"]
        self._reloads = Counter("aotc_reloads", meaning, labels, registry=self._registry)
        meaning = "Models at the start by the reason why requests are not joined, or none"
        name = "aotc_server_batching_models"
        self._batching = Gauge(name, meaning, ["reason"], registry=self._registry)

    def watch(
        self,
        requests: Callable[[], Mapping[str, int]],
        memory: Callable[[], float],
        bundles: Callable[[], Iterable[LoadedBundle]],
    ) -> None:
        """Set the sources of gauges: `requests` in flight by model, their `memory` in bytes."""
        self._registry.register(_InFlight(requests))
        meaning = "Bytes of requests and answers in flight"
        self.watch_gauge("aotc_server_in_flight_bytes", meaning, memory)
        self._registry.register(BundleCollector(bundles))
        _observe(bundles)

    def watch_gauge(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """Set the source of a gauge."""
        Gauge(name, meaning, registry=self._registry).set_function(value)

    def request(self, model: str, protocol: str, code: str, seconds: float) -> None:
        """Count a request."""
        key = model, protocol, code
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._seconds.labels(*key)
        known.observe(seconds)

    def count_refused(self, code: str) -> None:
        """Count what was refused before a model was asked."""
        self._turned_away.labels(code).inc()

    def count_reload(self, result: str, codes: Sequence[str] = ("",)) -> None:
        """Count an attempt to load a bundle, refused with these codes or not."""
        self._reloads.labels(result, codes[0]).inc()

    def batching(self, reason: str, models: int) -> None:
        """Note how many models have their requests joined (reason "") or not."""
        self._batching.labels(reason).set(models)

    def count_batch(self, model: str, requests: int) -> None:
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


class _InFlight(Collector):
    def __init__(self, requests: Callable[[], Mapping[str, int]]) -> None:
        self._requests = requests

    def collect(self) -> Iterator[Metric]:
        name, meaning = "aotc_server_in_flight_requests", "Inference requests in flight"
        found = GaugeMetricFamily(name, meaning, labels=["model"])
        for model, number in self._requests().items():
            found.add_metric([model], number)
        yield found


def _observe(bundles: Callable[[], Iterable[LoadedBundle]]) -> None:
    """Register with OpenTelemetry's meter of this process, if OpenTelemetry is installed."""
    try:
        from opentelemetry import metrics
    except ImportError:
        return
    from aotc_runtime.exporters.opentelemetry import observe

    observe(metrics.get_meter("aotc_runtime"), bundles)
