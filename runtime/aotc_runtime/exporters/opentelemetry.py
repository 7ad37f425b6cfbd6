"""Bundles as OpenTelemetry metrics. Needs the extra `aotc-runtime[opentelemetry]`.

from opentelemetry import metrics
from aotc_runtime.exporters.opentelemetry import observe
observe(metrics.get_meter("server"), lambda: [bundle])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from aotc_runtime.serving.loaded import LoadedBundle

Bundles = Callable[[], Iterable[LoadedBundle]]


def observe(meter: Meter, bundles: Bundles) -> None:
    """Register aotc.calls, aotc.call.time, aotc.refusals and aotc.load.time with a meter.

    bundles: gives the bundles that are loaded when the meter asks.
    """

    def calls(_: CallbackOptions) -> Iterator[Observation]:
        for bundle in bundles():
            for entry_point in bundle.entry_points.values():
                for label, count in entry_point.calls.items():
                    yield Observation(count, {**_identity(bundle), "executable": label})

    def call_time(_: CallbackOptions) -> Iterator[Observation]:
        for bundle in bundles():
            for entry_point in bundle.entry_points.values():
                for label, latency in entry_point.latencies().items():
                    attributes = {**_identity(bundle), "executable": label}
                    yield Observation(latency.seconds, attributes)

    def refusals(_: CallbackOptions) -> Iterator[Observation]:
        for bundle in bundles():
            for entry_point in bundle.entry_points.values():
                for code, count in entry_point.refusals.items():
                    attributes = {"entry_point": entry_point.name, "code": code}
                    yield Observation(count, {**_identity(bundle), **attributes})

    def load_time(_: CallbackOptions) -> Iterator[Observation]:
        for bundle in bundles():
            for stage, seconds in bundle.timings.items():
                yield Observation(seconds, {**_identity(bundle), "stage": stage})

    meter.create_observable_counter("aotc.calls", [calls], description="Calls served")
    meter.create_observable_counter(
        "aotc.call.time", [call_time], unit="s", description="Time of the calls served"
    )
    meter.create_observable_counter("aotc.refusals", [refusals], description="Calls refused")
    meter.create_observable_gauge(
        "aotc.load.time", [load_time], unit="s", description="Duration of each stage of loading"
    )


def _identity(bundle: LoadedBundle) -> dict[str, str]:
    return {"bundle": bundle.name, "version": bundle.version}
