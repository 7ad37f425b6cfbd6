"""Trials: calls of sizes between the profiles, padded or split, compared with exact ones.

Planned by the capture process, for every target; judged once executables and plain JAX have run
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aotc.base.errors import raise_if
from aotc.check.padding import trial_files
from aotc.check.padding.trial_verdict import At, evidence, refusals, tried
from aotc.pipeline.policy_proofs import EntryProofs
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.schema.bundle_manifest import TrialRan
from aotc_runtime.serving.readiness import Difference


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
