"""Captures programs that only plain JAX runs: the plan of trials, their inputs and digests.

A trial has sizes that are no profile's, and a program for a mesh runs on one device. It may be
another program there, so that it is traced there as well: the results of plain JAX depend on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
from msgspec import structs

from aotc.base.stages import UNTRACED, CapturedEntryPoint
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


def plan_and_trace(
    captured: CapturedEntryPoint,
    plan: CallPlan,
    manifest: BuildManifest,
    weights: Mapping[str, Weights],
    wanted: Mapping[str, Sequence[ExecutableKey]],
    recorded: Recorded | None,
    scratch: Scratch,
) -> tuple[CapturedEntryPoint, dict[str, EntryTrials]]:
    """Return an entry point with digests of uncompiled programs, and its trials by target.

    The inputs of their calls are written. `wanted` has the executables of each target; `recorded`
    the entry point's recorded inputs, if any. Raises CaptureError (AOTC-E829, E831) if inputs of
    such sizes cannot be made.
    """
    name, where = captured.name, manifest.where("entry_points", captured.name, "fixtures")
    planned = _plan(captured, manifest, wanted, scratch)
    calls = {
        executable_key(name, trial.sizes): trial.sizes
        for entry in planned.values()
        for trial in entry.trials
    }
    for key, sizes in calls.items():
        if not scratch.inputs(key).exists():
            inputs = fixture_inputs.fixture_inputs(plan, manifest, sizes, recorded)
            scratch.inputs(key).write_bytes(write_tensors(inputs, where=where))
    if captured.mesh is not None and not captured.recorded:
        calls |= {key: profile.sizes for key, profile in captured.by_key.items()}
    uncompiled = {
        key.label: _digest(plan, manifest, weights, sizes) for key, sizes in sorted(calls.items())
    }
    return replace(captured, uncompiled=uncompiled), planned


def _plan(
    captured: CapturedEntryPoint,
    manifest: BuildManifest,
    wanted: Mapping[str, Sequence[ExecutableKey]],
    scratch: Scratch,
) -> dict[str, EntryTrials]:
    """Return the trials of an entry point by target, without targets that have none."""
    spec = manifest.entry_points[captured.name]
    if not spec.out_of_profile:
        return {}
    fixtures = (trial_files.read_arrays(scratch.inputs(key)) for key in captured.by_key)
    held = ranges(captured.inputs, spec, fixtures)
    precisions = (manifest.precision.get(each) for each in spec.precision)
    rounds = any(each is not None and each.activations != "none" for each in precisions)
    planned: dict[str, EntryTrials] = {}
    for target, keys in wanted.items():
        profiles = [dict(key.sizes) for key in keys if key.entry_point == captured.name]
        entry = plan_trials(captured, spec, manifest.dimensions, profiles, held)
        if entry.trials:
            planned[target] = structs.replace(entry, rounds=rounds)
    return planned


def _digest(
    plan: CallPlan, manifest: BuildManifest, weights: Mapping[str, Weights], sizes: Sizes
) -> str:
    """Return the digest of the program's module and its arguments at these sizes on one device."""
    try:
        with on_one_device(manifest.mesh):
            traced = trace_profile(flat_call(plan, weights, manifest, sizes), sizes, manifest.root)
            module = portable(jax_private.static_module(traced.lowered[HOST]))
    except Exception:  # noqa: BLE001 - whatever it is, the reference reports it
        return UNTRACED
    return sha256(module.artifact + msgspec.msgpack.encode(traced.arguments))
