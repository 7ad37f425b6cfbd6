"""The proof of a target's out-of-profile policies, as its bundle holds it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET
from msgspec.structs import replace

from aotc_runtime.schema.bundle_manifest import CompileHere, DimensionPolicy, Trial

type Proofs = Mapping[str, tuple[Trial, ...]]
"""The trials of an entry point, by dimension."""

type EntryProofs = Mapping[str, Proofs]
"""The trials of a target, by entry point."""


def proven_policies(
    policies: Mapping[str, DimensionPolicy], proofs: Proofs
) -> dict[str, DimensionPolicy]:
    """The policies of an entry point, each with its proof."""
    return {name: _proven(policy, proofs.get(name, ())) for name, policy in policies.items()}


def _proven(policy: DimensionPolicy, proof: tuple[Trial, ...]) -> DimensionPolicy:
    if not isinstance(policy, CompileHere):
        return replace(policy, proof=proof)
    if policy.meanwhile is UNSET:
        return policy
    return replace(policy, meanwhile=replace(policy.meanwhile, proof=proof))
