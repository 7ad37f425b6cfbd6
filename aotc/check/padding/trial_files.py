"""The files through which the processes of a build exchange trials and their outcomes."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from aotc.base.msgpack_values import ValueFile
from aotc.base.stages import file_stem
from aotc.check.padding.trial_records import EntryTrials, PlannedTrial
from aotc.check.padding.trial_run import Array, Call
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.schema.bundle_manifest import TensorSpec
from aotc_runtime.schema.manifest_labels import executable_key
from aotc_runtime.serving.readiness import Difference

Plans = dict[str, list[EntryTrials]]
"""The trials of each entry point, by target."""

Outcomes = dict[str, list[list[Difference]]]
"""Outcomes of the trials, by target, in the order of its plans and their trials."""


def plan_file(folder: Path) -> ValueFile[Plans]:
    """Return the file with the plan of trials."""
    return ValueFile(folder / "trials.msgpack", Plans)


def outcome_file(folder: Path) -> ValueFile[Outcomes]:
    """Return the file with the outcomes of the trials in plain JAX."""
    return ValueFile(folder / "outcomes.msgpack", Outcomes)


def count_trials(folder: Path) -> int:
    """Return how many different trials are planned: targets have most of them in common."""
    entries = [entry for each in plan_file(folder).read({}).values() for entry in each]
    return len({trial_key(entry, trial) for entry in entries for trial in entry.trials})


def trial_key(entry: EntryTrials, trial: PlannedTrial) -> bytes:
    """Return what a trial and the same one of another target have in common."""
    return msgspec.msgpack.encode((entry.entry_point, trial))


def call_file(folder: Path, entry_point: str, trial: PlannedTrial) -> Path:
    """Return the file of a trial's inputs and plain JAX's results, in a fixture's layout."""
    stem = file_stem(executable_key(entry_point, trial.sizes))
    return folder / f"call.{stem}.{trial.inputs}.safetensors"


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a safetensors file, by name."""
    views = tensor_views(memoryview(path.read_bytes()), path.name)
    return {name: array for name, (array, _) in views.items()}


def read_fixture(path: Path, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Call:
    """Return a call by a file that is laid out as a fixture."""
    found = read_arrays(path)
    return Call(
        inputs=[found[f"inputs/{spec.path}"] for spec in inputs],
        expected=[found[f"outputs/{spec.path}"] for spec in outputs],
    )
