"""Evaluation data passed to a loaded bundle, as a server calls it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from aotc.base.errors import refusal
from aotc.base.workers.worker_child import Progress
from aotc.check.evaluation_files import (
    Array,
    Block,
    Prepared,
    Rows,
    block_file,
    input_of,
    slices,
    write_output,
)
from aotc.check.metrics import MetricError, metric_of
from aotc.check.padding.trial_files import read_arrays
from aotc_runtime.schema.manifest_labels import arguments_of, sizes_text
from aotc_runtime.serving.flattened_arguments import flatten
from aotc_runtime.serving.loaded_bundle import LoadedBundle, LoadedEntryPoint


def score(
    loaded: LoadedBundle, prepared: Prepared, target: str, folder: Path, progress: Progress
) -> Rows:
    """Return the rows of a built-in metric; for others write the results, and return no rows.

    `folder` is the scratch folder with the `prepared` data; `progress` reports every call. Raises
    CaptureError: AOTC-E847 for samples that no profile serves, E849 for results without a metric.
    """
    entry_point, metric = loaded[prepared.entry_point], metric_of(prepared.metric)
    rows: list[Array] = []
    for number, block in enumerate(prepared.blocks):
        arrays = read_arrays(block_file(folder, prepared.entry_point, number))
        output = _results(entry_point, prepared, block, arrays, f"for {target}", progress)
        if metric is None:
            write_output(folder, target, prepared.entry_point, number, output)
            continue
        try:
            rows.append(metric.rows(output, arrays[f"target/{prepared.target}"]))
        except MetricError as error:
            where = f"{prepared.entry_point} for {target}"
            raise refusal("AOTC-E849", where, f"{prepared.metric}: {error}") from error
    return Rows.of(np.concatenate(rows) if rows else np.zeros((0, 1)))


def _results(
    entry_point: LoadedEntryPoint,
    prepared: Prepared,
    block: Block,
    arrays: dict[str, Array],
    of_target: str,
    progress: Progress,
) -> Array:
    profiles = [profile.sizes for profile in entry_point.spec.profiles]
    batches = prepared.batches(block, profiles)
    if batches is None:
        raise left_over(f"{prepared.entry_point} {of_target}", block, profiles)
    found: list[Array] = []
    inputs = entry_point.spec.inputs
    for part in slices(batches):
        leaves = [
            None if leaf not in entry_point.passed else input_of(arrays, spec, prepared.axis, part)
            for leaf, spec in enumerate(inputs)
        ]
        positional, named = arguments_of(entry_point.parameters, leaves)
        result = entry_point(*positional, **named)
        flat = dict(flatten(entry_point.spec.result, result, "result"))
        found.append(np.asarray(flat[prepared.output]))
        progress.finished(prepared.entry_point)
    return np.concatenate(found)


def left_over(where: str, block: Block, profiles: list[dict[str, int]]) -> Exception:
    """Return AOTC-E847 for samples that do not fit into the profiles."""
    at = f" at {sizes_text(block.sizes)}" if block.sizes else ""
    return refusal(
        "AOTC-E847",
        where,
        f"{block.samples} samples{at}",
        cause="samples-do-not-fill-the-profiles",
        expected=f"batches of {'; '.join(map(sizes_text, profiles))}",
    )
