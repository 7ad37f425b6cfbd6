"""Parts of a manifest in words, the same in errors, reports and counters."""

from __future__ import annotations

from collections.abc import Mapping

from aotc_runtime.schema.manifest import (
    CompileHere,
    EntryPoint,
    OutOfProfilePolicy,
    Pad,
    Split,
    TensorSpec,
)

_POLICIES = {
    Pad: OutOfProfilePolicy.PAD,
    Split: OutOfProfilePolicy.SPLIT,
    CompileHere: OutOfProfilePolicy.COMPILE,
}


def sizes_text(sizes: Mapping[str, int]) -> str:
    """batch=8,seq=16; empty for a profile without dimensions."""
    return ",".join(f"{name}={size}" for name, size in sorted(sizes.items()))


def label(entry_point: str, sizes: Mapping[str, int]) -> str:
    """predict[batch=8]."""
    inside = sizes_text(sizes)
    return f"{entry_point}[{inside}]" if inside else entry_point


def policies_of(entry_point: EntryPoint) -> dict[str, OutOfProfilePolicy]:
    """What a call does whose size matches no profile, by dimension."""
    policies = entry_point.out_of_profile
    return {
        name: _POLICIES[type(policies[name])] if name in policies else OutOfProfilePolicy.FAIL
        for name in entry_point.dimensions
    }


def tensor_text(spec: TensorSpec) -> str:
    """float32[batch, 64]."""
    return f"{spec.dtype.value}[{', '.join(map(str, spec.shape))}]"
