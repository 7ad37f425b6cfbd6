"""The model card of a bundle, from its manifests: a part of the bill of materials.

https://cyclonedx.org/docs/1.7/json/#metadata_component_modelCard
"""

from collections.abc import Iterator, Sequence
from typing import Any

from cyclonedx.spdx import is_expression

from aotc.config.build_manifest import BuildManifest
from aotc_runtime.schema.bundle_manifest import BundleManifest, EntryPoint, EvaluationRan, ParityRan
from aotc_runtime.schema.tensor_text import tensor_text


def model_card(stated: BuildManifest, built: Sequence[BundleManifest]) -> dict[str, Any]:
    """Return the keys of a component: its card with measurements by target, licence, owners."""
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
    if measured:
        card["quantitativeAnalysis"] = {"performanceMetrics": measured}
    described: dict[str, Any] = {"modelCard": card}
    if text := stated.license:
        expression = {"expression": text}
        described["licenses"] = [expression if is_expression(text) else {"license": {"name": text}}]
    if stated.owners:
        described["authors"] = [{"name": owner} for owner in stated.owners]
    return described


def _metrics(manifest: BundleManifest) -> Iterator[dict[str, Any]]:
    for name, entry in manifest.entry_points.items():
        of, precision = f"{name} for {manifest.target.name}", _precision(entry)
        for each in entry.evaluations or ():
            if isinstance(each.result, EvaluationRan):
                ends = {"lowerBound": each.result.low, "upperBound": each.result.high}
                yield {
                    "type": each.metric,
                    "value": each.result.value,
                    "slice": f"{of}, {each.samples} samples{precision}",
                    "confidenceInterval": ends,
                }
        ran = [p.parity for p in entry.profiles if isinstance(p.parity, ParityRan)]
        if ran:
            yield {
                "type": "largest absolute error against the reference",
                "value": max((parity.max_abs for parity in ran), key=float),
                "slice": f"{of}, {len(ran)} executables{precision}",
            }


def _precision(entry: EntryPoint) -> str:
    """Return the precisions of an entry point's quantized weights; empty if it has none."""
    stored = sorted({p.precision.weights for p in entry.profiles if p.precision})
    return f", weights in {' and '.join(stored)}" if stored else ""
