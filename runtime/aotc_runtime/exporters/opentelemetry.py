"""Bundles as OpenTelemetry metrics. Needs the extra `aotc-runtime[opentelemetry]`.

from opentelemetry import metrics
from aotc_runtime.exporters.opentelemetry import observe
observe(metrics.get_meter("server"), lambda: [bundle])
"""

from collections.abc import Callable, Iterable, Iterator

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from aotc_runtime.serving.call_metrics import Latency
from aotc_runtime.serving.loaded_bundle import LoadedBundle, LoadedEntryPoint

Bundles = Callable[[], Iterable[LoadedBundle]]


def observe(meter: Meter, bundles: Bundles) -> None:
    """Register the loader's metrics with a meter.

    They are aotc.calls and aotc.call.time (by path and executable), aotc.refusals,
    aotc.padding.elements (real and filled) and aotc.load.time. `bundles` returns the bundles that
    are loaded when the meter collects.
    """

    def served() -> Iterator[tuple[dict[str, str], Latency]]:
        for identity, entry_point in every():
            for each in entry_point.metrics.served_calls():
                way = {"path": each.path.value, "executable": each.executable}
                yield {**identity, **way}, each.latency

    def every() -> Iterator[tuple[dict[str, str], LoadedEntryPoint]]:
        for bundle in bundles():
            for entry_point in bundle.entry_points.values():
                yield _identity(bundle), entry_point

    def calls(_: CallbackOptions) -> Iterator[Observation]:
        return (Observation(latency.calls, way) for way, latency in served())

    def call_time(_: CallbackOptions) -> Iterator[Observation]:
        return (Observation(latency.seconds, way) for way, latency in served())

    def refusals(_: CallbackOptions) -> Iterator[Observation]:
        for identity, entry_point in every():
            for code, count in entry_point.refusals.items():
                place = {"entry_point": entry_point.name, "code": code}
                yield Observation(count, {**identity, **place})

    def padding(_: CallbackOptions) -> Iterator[Observation]:
        for identity, entry_point in every():
            place = {**identity, "entry_point": entry_point.name}
            found = entry_point.metrics.padding
            yield Observation(found.elements, {**place, "kind": "real"})
            yield Observation(found.filled, {**place, "kind": "filled"})

    def load_time(_: CallbackOptions) -> Iterator[Observation]:
        for bundle in bundles():
            for stage, seconds in bundle.timings.items():
                yield Observation(seconds, {**_identity(bundle), "stage": stage})

    meter.create_observable_counter("aotc.calls", [calls], description="Calls served")
    meter.create_observable_counter(
        "aotc.call.time", [call_time], unit="s", description="Time of the calls served"
    )
    meter.create_observable_counter("aotc.refusals", [refusals], description="Calls refused")
    meter.create_observable_counter(
        "aotc.padding.elements", [padding], description="Elements of inputs that were padded"
    )
    meter.create_observable_gauge(
        "aotc.load.time", [load_time], unit="s", description="Duration of each stage of loading"
    )


def _identity(bundle: LoadedBundle) -> dict[str, str]:
    return {"bundle": bundle.name, "version": bundle.version}
