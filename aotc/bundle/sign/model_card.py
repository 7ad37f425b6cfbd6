"""The model card of a bundle, from its manifests: a part of the bill of materials.

https://cyclonedx.org/docs/1.6/json/#metadata_component_modelCard
"""

from collections.abc import Iterator, Sequence
from typing import Any

from aotc_runtime.schema.bundle_manifest import BundleManifest, EvaluationRan, ParityRan
from aotc_runtime.schema.tensor_text import tensor_text


def model_card(built: Sequence[BundleManifest]) -> dict[str, Any]:
    """Return inputs, outputs, and what was measured of each target's executables."""
    entries = built[0].entry_points.items()
    sides = {
        side: [
            {"format": f"{name} {spec.path or 'result'}: {tensor_text(spec)}"}
            for name, entry in entries
            for spec in getattr(entry, side)
        ]
        for side in ("inputs", "outputs")
    }
    measured = [metric for manifest in built for metric in _metrics(manifest)]
    card: dict[str, Any] = {"modelParameters": {side: v for side, v in sides.items() if v}}
    return card | ({"quantitativeAnalysis": {"performanceMetrics": measured}} if measured else {})


def _metrics(manifest: BundleManifest) -> Iterator[dict[str, Any]]:
    for name, entry in manifest.entry_points.items():
        for each in entry.evaluations or ():
            if isinstance(each.result, EvaluationRan):
                ends = {"lowerBound": each.result.low, "upperBound": each.result.high}
                yield {
                    "type": each.metric,
                    "value": each.result.value,
                    "slice": f"{name} for {manifest.target.name}, {each.samples} samples",
                    "confidenceInterval": ends,
                }
        ran = [p.parity for p in entry.profiles if isinstance(p.parity, ParityRan)]
        if ran:
            precisions = {p.precision.weights for p in entry.profiles if p.precision}
            weights = f", weights in {' and '.join(sorted(precisions))}" if precisions else ""
            yield {
                "type": "largest absolute error against the reference",
                "value": max((parity.max_abs for parity in ran), key=float),
                "slice": f"{name} for {manifest.target.name}, {len(ran)} executables{weights}",
            }
