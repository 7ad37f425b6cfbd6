"""The calls that trials compare with, as far as the capture process makes them: the plan of the
trials, the inputs of each call, and what the program is at its sizes.

A trial has sizes that are no profile's, at which the program may be another one. It is traced there
as well, so that the plan names everything that the reference's results depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import structs

from aotc.base.stages import CapturedEntryPoint
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.capture import fixture_inputs, jax_private
from aotc.capture.call_arguments import CallPlan, flat_call
from aotc.capture.fixture_inputs import Recorded
from aotc.capture.portable_stablehlo import portable
from aotc.capture.profile_trace import HOST, trace_profile
from aotc.capture.traced_shardings import on_one_device
from aotc.capture.weight_sets import Weights
from aotc.check.padding import trial_files
from aotc.check.padding.trial_plan import plan_trials
from aotc.check.padding.trial_records import EntryTrials, Sizes
from aotc.check.padding.trial_samples import ranges
from aotc.config.build_manifest import BuildManifest
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.manifest_labels import ExecutableKey, executable_key

UNTRACED = ""
"""In place of a digest: the program could not be traced at these sizes. The reference runs it there
and says why; its results are not looked up.
"""


def plan_and_trace(
    captured: CapturedEntryPoint,
    plan: CallPlan,
    manifest: BuildManifest,
    weights: Mapping[str, Weights],
    wanted: Mapping[str, Sequence[ExecutableKey]],
    recorded: Recorded | None,
    scratch: Scratch,
) -> dict[str, EntryTrials]:
    """Return the trials of an entry point by target, and leave the inputs of their calls.

    wanted: the executables of each target.  recorded: what `fixture_inputs.recorded_inputs` gave.
    Raises CaptureError (AOTC-E829, E831) if inputs of such sizes cannot be made.
    """
    name, spec = captured.name, manifest.entry_points[captured.name]
    if not spec.out_of_profile:
        return {}
    fixtures = (trial_files.read_arrays(scratch.inputs(key)) for key in captured.by_key)
    held = ranges(captured.inputs, spec, fixtures)
    planned: dict[str, EntryTrials] = {}
    for target, keys in wanted.items():
        profiles = [dict(key.sizes) for key in keys if key.entry_point == name]
        entry = plan_trials(captured, spec, manifest.dimensions, profiles, held)
        if entry.trials:
            planned[target] = entry
    where = manifest.where("entry_points", name, "fixtures")
    modules: dict[str, str] = {}
    for key, sizes in _calls(planned.values()):
        modules[key.label] = _module(plan, manifest, weights, sizes)
        if not scratch.inputs(key).exists():
            inputs = fixture_inputs.fixture_inputs(plan, manifest, sizes, recorded)
            scratch.inputs(key).write_bytes(write_tensors(inputs, where=where))
    return {
        target: structs.replace(entry, modules=dict(sorted(modules.items())))
        for target, entry in planned.items()
    }


def _calls(entries: Iterable[EntryTrials]) -> Iterator[tuple[ExecutableKey, Sizes]]:
    """The different sizes of their trials."""
    yield from {
        executable_key(entry.entry_point, trial.sizes): trial.sizes
        for entry in entries
        for trial in entry.trials
    }.items()


def _module(
    plan: CallPlan, manifest: BuildManifest, weights: Mapping[str, Weights], sizes: Sizes
) -> str:
    """The digest of the program at these sizes: its portable module, and what that takes; UNTRACED
    if there is none.
    """
    try:
        with on_one_device(manifest.mesh):
            traced = trace_profile(flat_call(plan, weights, manifest, sizes), sizes, manifest.root)
            module = portable(jax_private.static_module(traced.lowered[HOST]))
    except Exception:  # noqa: BLE001 - whatever it is, the reference reports it
        return UNTRACED
    return sha256(module.artifact + msgspec.msgpack.encode(traced.arguments))
