"""Reports for monitoring systems, read back through their own client libraries."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import aotc_runtime
from aotc_runtime import LoadedBundle, ShapeError
from aotc_runtime.exporters.opentelemetry import observe
from aotc_runtime.exporters.prometheus import BundleCollector
from tests.conftest import Once
from tests.e2e.small_programs import build_signed


@pytest.fixture(scope="module")
def bundle(digits_bundle: tuple[Path, Path]) -> Iterator[LoadedBundle]:
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        for _ in range(3):
            bundle["predict"](np.zeros((8, 64), np.float32))
        with pytest.raises(ShapeError):
            bundle["predict"](np.zeros((7, 64), np.float32))
        yield bundle


def test_prometheus_reads_what_was_counted(bundle: LoadedBundle) -> None:
    registry = CollectorRegistry()
    registry.register(BundleCollector(lambda: [bundle]))
    families = {
        family.name: family
        for family in text_string_to_metric_families(generate_latest(registry).decode())
    }
    samples = {
        (sample.name, sample.labels.get("le")): sample.value
        for sample in families["aotc_call_seconds"].samples
        if sample.labels["executable"] == "predict[batch=8]"
    }
    assert samples["aotc_call_seconds_count", None] == 3
    assert samples["aotc_call_seconds_bucket", "+Inf"] == 3
    paths = {sample.labels["path"] for sample in families["aotc_call_seconds"].samples}
    assert paths == {"exact"}
    (refusal,) = families["aotc_refusals"].samples
    assert (refusal.labels["code"], refusal.value) == ("AOTC-E611", 1)
    (compilations,) = families["aotc_compilations"].samples
    assert compilations.value == 0
    (info,) = families["aotc_bundle_info"].samples
    assert info.labels["digest"] == bundle.root_digest
    stages = {sample.labels["stage"] for sample in families["aotc_load_seconds"].samples}
    assert stages >= {"verify", "fixtures", "total"}


def observed(bundle: LoadedBundle, *attributes: str) -> dict[tuple[str, object], Any]:
    """Return the values that OpenTelemetry reads, by metric and the first of these attributes."""
    reader = InMemoryMetricReader()
    observe(MeterProvider([reader]).get_meter("test"), lambda: [bundle])
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[tuple[str, object], Any] = {}
    for resource in data.resource_metrics:
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            for point in metric.data.data_points:
                stated = point.attributes or {}
                label = next((stated[name] for name in attributes if name in stated), None)
                found[metric.name, label] = getattr(point, "value", None)
    return found


def test_opentelemetry_reads_what_was_counted(bundle: LoadedBundle) -> None:
    values = observed(bundle, "executable", "code")
    assert values["aotc.calls", "predict[batch=8]"] == 3
    assert values["aotc.refusals", "AOTC-E611"] == 1
    assert values["aotc.call.time", "predict[batch=8]"] > 0


@pytest.fixture(scope="module")
def padding_bundle(once: Once) -> Iterator[LoadedBundle]:
    program = "def double(x):\n    return x * 2\n"
    manifest = (
        'schema = 1\nname = "double"\nversion = "1.0.0"\ntargets = ["cpu-x86-64-v3"]\n'
        "[dimensions.batch]\nrange = [1, 8]\nprofiles = [8]\n"
        '[entry_points.double]\nfunction = "program:double"\n'
        'inputs.x = { shape = ["batch", 4], dtype = "float32" }\n'
        'out_of_profile.batch = "pad"\n'
    )
    folder = once("padding", lambda folder: build_signed(folder, "double", program, manifest))
    with aotc_runtime.load(folder / "double.aotb", trust=folder / "trust.toml") as bundle:
        for _ in range(2):
            bundle["double"](np.zeros((6, 4), np.float32))
        yield bundle


def test_prometheus_reads_paths_and_padding(padding_bundle: LoadedBundle) -> None:
    registry = CollectorRegistry()
    registry.register(BundleCollector(lambda: [padding_bundle]))
    text = generate_latest(registry).decode()
    samples = {
        (sample.name, sample.labels.get("path") or sample.labels.get("kind")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["aotc_call_seconds_count", "pad"] == 2
    assert samples["aotc_call_seconds_count", "exact"] == 0
    assert samples["aotc_padding_elements_total", "real"] == 48
    assert samples["aotc_padding_elements_total", "filled"] == 16


def test_opentelemetry_reads_paths_and_padding(padding_bundle: LoadedBundle) -> None:
    values = observed(padding_bundle, "path", "kind")
    assert values["aotc.calls", "pad"] == 2
    assert values["aotc.padding.elements", "real"] == 48
    assert values["aotc.padding.elements", "filled"] == 16
