"""What a bundle says of its out-of-profile policies: what was asked for, and the proof of it."""

from __future__ import annotations

from collections.abc import Mapping

from aotc.config.build_manifest import CompileSpec, PadSpec, PolicySpec, SplitSpec
from aotc.config.policies import Fill
from aotc_runtime.schema.manifest import CompileHere, DimensionPolicy, Pad, Split, Trial

type Proofs = Mapping[str, Mapping[str, tuple[Trial, ...]]]
"""By entry point and dimension."""


def policies(
    specs: Mapping[str, PolicySpec], proofs: Mapping[str, tuple[Trial, ...]]
) -> dict[str, DimensionPolicy]:
    """The policies of an entry point, by dimension."""
    return {name: _policy(spec, proofs.get(name, ())) for name, spec in specs.items()}


def _policy(spec: PolicySpec, proof: tuple[Trial, ...]) -> DimensionPolicy:
    match spec:
        case PadSpec(fill=fill, mask=mask, length=length):
            written = {path: fill_text(value) for path, value in fill.items()}
            return Pad(fill=written, mask=mask, length=length, proof=proof)
        case SplitSpec():
            return Split(proof=proof)
        case CompileSpec(meanwhile=meanwhile, most=most, seconds=seconds):
            return CompileHere(meanwhile=meanwhile, most=most, seconds=seconds)


def fill_text(value: Fill) -> str:
    """A number as Python writes it."""
    return repr(value)
