"""Trials: calls of sizes between the profiles, padded or split, compared with exact ones.

Planned after the capture, for every target; judged once executables and plain JAX have run them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aotc.base.errors import raise_if
from aotc.base.stages import CapturedEntryPoint, CapturedProgram
from aotc.check.padding import trial_files
from aotc.check.padding.trial_plan import plan_trials
from aotc.check.padding.trial_samples import ranges
from aotc.check.padding.trial_verdict import At, evidence, refusals, tried
from aotc.config.build_manifest import BuildManifest, EntryPointSpec
from aotc.pipeline.build_plan import Wanted
from aotc.pipeline.policy_proofs import EntryProofs
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.schema.bundle_manifest import TrialRan
from aotc_runtime.serving.readiness import Difference


def plan(
    manifest: BuildManifest, program: CapturedProgram, wanted: Wanted, scratch: Scratch
) -> None:
    """Plan the trials of every target, and leave the plan in the scratch folder."""
    plans = {
        target: [
            planned
            for name, captured in program.entry_points.items()
            if (spec := manifest.entry_points[name]).out_of_profile
            for held in [_held(captured, spec, scratch)]
            for profiles in [[dict(key.sizes) for key in keys if key.entry_point == name]]
            for planned in [plan_trials(captured, spec, manifest.dimensions, profiles, held)]
            if planned.trials
        ]
        for target, keys in wanted.items()
    }
    trial_files.write_plans(scratch.folder, plans)


def _held(
    captured: CapturedEntryPoint, spec: EntryPointSpec, scratch: Scratch
) -> dict[str, tuple[int, int]]:
    return ranges(
        captured.inputs, spec, map(trial_files.read_arrays, map(scratch.inputs, captured.by_key))
    )


def judge(
    scratch: Scratch, on_executables: Mapping[str, Sequence[Sequence[Difference]] | None], at: At
) -> dict[str, EntryProofs]:
    """The proofs of the targets that were tried, by target.

    on_executables: outcomes by target, entry point and trial; None for a target that this host
    cannot run, whose proof is what the function does in plain JAX.

    Raises ParityError: AOTC-E955 a padded call, E956 a split one that gives another result.
    """
    in_jax = trial_files.read_outcomes(scratch.folder)
    proofs: dict[str, EntryProofs] = {}
    for target, entries in trial_files.read_plans(scratch.folder).items():
        if target not in on_executables:
            continue
        outcomes, ran = on_executables[target], TrialRan.EXECUTABLE
        if outcomes is None:
            outcomes, ran = in_jax[target], TrialRan.PLAIN_JAX
        pairs = [(e, tried(e, each)) for e, each in zip(entries, outcomes, strict=True)]
        raise_if(
            finding
            for entry, found in pairs
            for finding in refusals(entry, found, f"the executables for {target}", at)
        )
        proofs[target] = {entry.entry_point: evidence(found, ran) for entry, found in pairs}
    return proofs
