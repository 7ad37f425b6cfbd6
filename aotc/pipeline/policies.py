"""What a bundle says of its out-of-profile policies: what was asked for, and the proof of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from aotc.config.build_manifest import CompileSpec, PadSpec, PolicySpec, SplitSpec
from aotc_runtime.schema.manifest import CompileHere, DimensionPolicy, Pad, Split, Trial

type Proofs = Mapping[str, Mapping[str, tuple[Trial, ...]]]
"""By entry point and dimension."""


def policies(
    specs: Mapping[str, PolicySpec], proofs: Mapping[str, tuple[Trial, ...]]
) -> dict[str, DimensionPolicy]:
    """The policies of an entry point, by dimension."""
    return {name: _policy(spec, proofs.get(name, ())) for name, spec in specs.items()}


def _policy(spec: PolicySpec, proof: tuple[Trial, ...]) -> DimensionPolicy:
    if isinstance(spec, CompileSpec):
        return CompileHere(
            most=spec.most,
            seconds=spec.seconds,
            meanwhile=UNSET if spec.meanwhile is None else _at_once(spec.meanwhile, proof),
        )
    return _at_once(spec, proof)


def _at_once(spec: PadSpec | SplitSpec, proof: tuple[Trial, ...]) -> Pad | Split:
    if isinstance(spec, SplitSpec):
        return Split(proof=proof)
    fill = {path: repr(value) for path, value in spec.fill.items()}
    return Pad(fill=fill, mask=spec.mask, length=spec.length, proof=proof)
