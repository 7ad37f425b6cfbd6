"""A verified module in memory that can be compiled for more sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import UNSET, Struct

from aotc_runtime.engines.engine_device import Aval, Buffer
from aotc_runtime.schema.bundle_manifest import EntryPoint, ProfileRecord
from aotc_runtime.verification.verify_bundle import VerifiedBlob, VerifiedBundle


class ResidentSymbolic(Struct, frozen=True):
    """A module that can be compiled for more sizes. arguments: as for an executable. weights: the
    avals of those that are bound, in order. options: the compiler's, that the target was compiled
    with. cheapest: the profile whose fixture shows whether code compiled on this host computes the
    same.
    """

    module: VerifiedBlob
    arguments: tuple[Buffer | int, ...]
    weights: tuple[Aval, ...]
    options: Mapping[str, str]
    cheapest: ProfileRecord
    fixture: VerifiedBlob


def resident_symbolic(
    verified: VerifiedBundle,
    spec: EntryPoint,
    arguments: tuple[Buffer | int, ...],
    weights: Sequence[Aval],
) -> ResidentSymbolic:
    """Return the module of an entry point that has one. arguments, weights: as in the result."""
    assert spec.symbolic is not UNSET, "asked only for those that have one"
    cheapest = min(spec.profiles, key=lambda profile: profile.cost.flops)
    return ResidentSymbolic(
        verified.blob(spec.symbolic.module),
        arguments,
        tuple(weights),
        verified.manifest.target.options,
        cheapest,
        verified.blob(cheapest.fixture),
    )
