"""The trials of padded and split calls, on the executables that a server would run."""

from __future__ import annotations

from pathlib import Path

from aotc.check.padding.trial_files import read_call
from aotc.check.padding.trial_records import EntryTrials, Sizes
from aotc.check.padding.trial_run import Array, run
from aotc_runtime.serving.readiness import Difference
from aotc_runtime.serving.resident_bundle import ResidentBundle


def try_entry(entry: EntryTrials, resident: ResidentBundle, folder: Path) -> list[Difference]:
    """What came of each trial. folder: holds the calls to compare with."""
    loaded = resident.entry_points[entry.entry_point]
    inputs, outputs = loaded.spec.inputs, loaded.spec.outputs

    def execute(sizes: Sizes, leaves: list[Array]) -> list[Array]:
        profile = next(p for p in loaded.profiles if p.record.sizes == sizes)
        device = profile.device
        put = [device.put(leaf, aval) for leaf, aval in zip(leaves, profile.inputs, strict=True)]
        arguments = [put[a] if isinstance(a, int) else a for a in profile.arguments]
        results = device.execute(profile.executable, arguments)
        return [device.to_numpy(r, aval) for r, aval in zip(results, profile.outputs, strict=True)]

    return [
        run(
            trial,
            entry,
            inputs,
            outputs,
            read_call(folder, entry.entry_point, trial, inputs, outputs),
            execute,
        )
        for trial in entry.trials
    ]
