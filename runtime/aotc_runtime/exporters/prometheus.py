"""Bundles as Prometheus metrics. Needs the extra `aotc-runtime[prometheus]`.

from prometheus_client import REGISTRY
from aotc_runtime.exporters.prometheus import BundleCollector
REGISTRY.register(BundleCollector(lambda: [bundle]))
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from aotc_runtime.serving.loaded_bundle import LoadedBundle


class BundleCollector(Collector):
    """Reads the counters of bundles when Prometheus asks for them.

    `bundles` returns the bundles that are loaded at the time of the call.
    """

    def __init__(self, bundles: Callable[[], Iterable[LoadedBundle]]) -> None:
        self._bundles = bundles

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of every bundle.

        They are aotc_bundle_info, aotc_load_seconds, aotc_compilations, aotc_compiled_total,
        aotc_call_seconds (histogram by path and executable), aotc_padding_elements_total (real and
        filled) and aotc_refusals_total (by error code).
        """
        identity = ["bundle", "version"]
        info = GaugeMetricFamily(
            "aotc_bundle_info", "Bundles that are loaded", labels=[*identity, "target", "digest"]
        )
        load = GaugeMetricFamily(
            "aotc_load_seconds", "Duration of each stage of loading", labels=[*identity, "stage"]
        )
        compilations = GaugeMetricFamily(
            "aotc_compilations", "Compilations while loading: 0, or a bug", labels=identity
        )
        calls = HistogramMetricFamily(
            "aotc_call_seconds", "Calls served", labels=[*identity, "path", "executable"]
        )
        padding = CounterMetricFamily(
            "aotc_padding_elements",
            "Elements of inputs that were padded: real ones, and those filled up with",
            labels=[*identity, "entry_point", "kind"],
        )
        compiled = CounterMetricFamily(
            "aotc_compiled", "Executables compiled for calls", labels=[*identity, "entry_point"]
        )
        refusals = CounterMetricFamily(
            "aotc_refusals", "Calls refused", labels=[*identity, "entry_point", "code"]
        )
        for bundle in self._bundles():
            name = [bundle.name, bundle.version]
            info.add_metric([*name, bundle.manifest.target.name, bundle.root_digest], 1)
            report = bundle.report()
            compilations.add_metric(name, report["compilations"])
            for stage, seconds in report["timings"].items():
                load.add_metric([*name, stage], seconds)
            for entry_point in bundle.entry_points.values():
                for code, count in entry_point.refusals.items():
                    refusals.add_metric([*name, entry_point.name, code], count)
                for each in entry_point.metrics.served_calls():
                    latency = each.latency
                    pairs = zip(latency.bounds, latency.cumulative, strict=True)
                    buckets = [(repr(bound), float(count)) for bound, count in pairs]
                    calls.add_metric(
                        [*name, each.path.value, each.executable],
                        [*buckets, ("+Inf", float(latency.calls))],
                        latency.seconds,
                    )
                place = [*name, entry_point.name]
                padding.add_metric([*place, "real"], entry_point.metrics.padding.elements)
                padding.add_metric([*place, "filled"], entry_point.metrics.padding.filled)
                if (compiles := entry_point.metrics.compiles()) is not None:
                    compiled.add_metric(place, compiles["compiled"])
        yield from (info, load, compilations, compiled, calls, padding, refusals)
