"""Bundles as OpenTelemetry metrics. Needs the extra `aotc-runtime[opentelemetry]`.

from opentelemetry import metrics
from aotc_runtime.exporters.opentelemetry import observe
observe(metrics.get_meter("server"), lambda: [bundle])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from aotc_runtime.serving.call_metrics import ServedCalls
from aotc_runtime.serving.loaded_bundle import LoadedBundle

Bundles = Callable[[], Iterable[LoadedBundle]]


def observe(meter: Meter, bundles: Bundles) -> None:
    """Register aotc.calls and aotc.call.time (by path and executable), aotc.refusals,
    aotc.padding.elements (real and filled) and aotc.load.time with a meter.

    bundles: gives the bundles that are loaded when the meter asks.
    """

    def calls(_: CallbackOptions) -> Iterator[Observation]:
        for bundle in bundles():
            for entry_point in bundle.entry_points.values():
                for each in entry_point.metrics.served():
                    yield Observation(each.latency.calls, _way(bundle, each))

    def call_time(_: CallbackOptions) -> Iterator[Observation]:
        for bundle in bundles():
            for entry_point in bundle.entry_points.values():
                for each in entry_point.metrics.served():
                    yield Observation(each.latency.seconds, _way(bundle, each))

    def refusals(_: CallbackOptions) -> Iterator[Observation]:
        for bundle in bundles():
            for entry_point in bundle.entry_points.values():
                for code, count in entry_point.refusals.items():
                    attributes = {"entry_point": entry_point.name, "code": code}
                    yield Observation(count, {**_identity(bundle), **attributes})

    def padding(_: CallbackOptions) -> Iterator[Observation]:
        for bundle in bundles():
            for entry_point in bundle.entry_points.values():
                attributes = {**_identity(bundle), "entry_point": entry_point.name}
                for kind, count in (
                    ("real", entry_point.metrics.padding.elements),
                    ("filled", entry_point.metrics.padding.filled),
                ):
                    yield Observation(count, {**attributes, "kind": kind})

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


def _way(bundle: LoadedBundle, each: ServedCalls) -> dict[str, str]:
    return {**_identity(bundle), "path": each.path.value, "executable": each.executable}


def _identity(bundle: LoadedBundle) -> dict[str, str]:
    return {"bundle": bundle.name, "version": bundle.version}
