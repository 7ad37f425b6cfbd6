"""Evaluation data passed to a loaded bundle, as a server calls it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from aotc.base.workers.worker_child import Progress
from aotc.check.evaluation_files import Array, Prepared, write_results
from aotc.check.metrics import metric_of
from aotc.check.plain_structures import Leaf, leaf_of
from aotc_runtime.schema.manifest_labels import arguments_of
from aotc_runtime.serving.flattened_arguments import flatten
from aotc_runtime.serving.loaded_bundle import LoadedBundle


def score(
    loaded: LoadedBundle, prepared: Prepared, target: str, folder: Path, progress: Progress
) -> Leaf | None:
    """Return the rows of a built-in metric; None for a user's, whose results are written instead.

    `folder` is the scratch folder with the `prepared` data; `progress` reports every call. Raises
    CaptureError: AOTC-E847 for samples that no profile serves, E849 for results without a metric.
    """
    entry_point = loaded[prepared.entry_point]
    spec, where = entry_point.spec, f"{prepared.entry_point} for {target}"

    def call(inputs: dict[str, Array], _: dict[str, int]) -> Array:
        leaves = [inputs.get(each.path) for each in spec.inputs]
        positional, named = arguments_of(entry_point.parameters, leaves)
        flat = dict(flatten(spec.result, entry_point(*positional, **named), "result"))
        progress.finished(prepared.entry_point)
        return np.asarray(flat[prepared.output])

    profiles = [profile.sizes for profile in spec.profiles]
    results = prepared.results(folder, profiles, call, where)
    metric = metric_of(prepared.metric)
    if metric.rows is None:
        write_results(folder, target, prepared.entry_point, results)
        return None
    return leaf_of(np.concatenate([metric.score(*each, where) for each in results]))
