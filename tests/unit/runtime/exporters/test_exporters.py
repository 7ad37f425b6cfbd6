"""Reports for monitoring systems, read back through their own client libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
    (refusal,) = families["aotc_refusals"].samples
    assert (refusal.labels["code"], refusal.value) == ("AOTC-E611", 1)
    (compilations,) = families["aotc_compilations"].samples
    assert compilations.value == 0
    (info,) = families["aotc_bundle_info"].samples
    assert info.labels["digest"] == bundle.root_digest
    stages = {sample.labels["stage"] for sample in families["aotc_load_seconds"].samples}
    assert stages >= {"verify", "fixtures", "total"}


def test_opentelemetry_reads_what_was_counted(bundle: LoadedBundle) -> None:
    reader = InMemoryMetricReader()
    observe(MeterProvider([reader]).get_meter("test"), lambda: [bundle])
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        (metric.name, point.attributes.get("executable") or point.attributes.get("code")): point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if point.attributes is not None
    }
    assert points["aotc.calls", "predict[batch=8]"].value == 3  # type: ignore[union-attr]
    assert points["aotc.refusals", "AOTC-E611"].value == 1  # type: ignore[union-attr]
    assert points["aotc.call.time", "predict[batch=8]"].value > 0  # type: ignore[union-attr]


def test_neither_library_is_imported_unasked() -> None:
    code = (
        "import sys, aotc_runtime\n"
        "assert not {'prometheus_client', 'opentelemetry'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
