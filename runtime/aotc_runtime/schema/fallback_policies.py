"""The policies of an entry point for calls whose sizes match no profile."""

from collections.abc import Sequence

from aotc_runtime.schema.bundle_manifest import (
    CompileHere,
    EntryPoint,
    OutOfProfilePolicy,
    Pad,
    Range,
    Split,
    TensorSpec,
)
from aotc_runtime.schema.size_expressions import parse_expression

type Shape = tuple[int, ...]

_POLICIES = {
    Pad: OutOfProfilePolicy.PAD,
    Split: OutOfProfilePolicy.SPLIT,
    CompileHere: OutOfProfilePolicy.COMPILE,
    Range: OutOfProfilePolicy.RANGE,
}


def policies_of(entry_point: EntryPoint) -> dict[str, OutOfProfilePolicy]:
    """Return what a call does whose size matches no profile, by dimension."""
    policies = entry_point.out_of_profile
    return {
        name: _POLICIES[type(policies[name])] if name in policies else OutOfProfilePolicy.FAIL
        for name in entry_point.dimensions
    }


def without_compiling(entry_point: EntryPoint) -> dict[str, Pad | Split]:
    """Return the pad or split policies by dimension, `meanwhile` included."""
    found: dict[str, Pad | Split] = {}
    for name, policy in entry_point.out_of_profile.items():
        now = policy.meanwhile if isinstance(policy, CompileHere) else policy
        if isinstance(now, Pad | Split):
            found[name] = now
    return found


def masks_and_lengths(entry_point: EntryPoint) -> frozenset[str]:
    """Return the parameters that the loader passes, not the caller: masks and lengths."""
    pads = [p for p in without_compiling(entry_point).values() if isinstance(p, Pad)]
    return frozenset(name for pad in pads for name in (pad.mask, pad.length) if name)


def open_shapes(
    entry_point: EntryPoint, tensors: Sequence[TensorSpec], shapes: tuple[Shape, ...]
) -> tuple[Shape, ...]:
    """Return the shapes of inputs or results, with -1 for a size that follows from a range's."""
    declared = policies_of(entry_point)
    ranged = {name for name, each in declared.items() if each is OutOfProfilePolicy.RANGE}
    return tuple(
        tuple(
            -1 if ranged & parse_expression(axis).names() else size
            for axis, size in zip(tensor.shape if ranged else shape, shape, strict=True)
        )
        for tensor, shape in zip(tensors, shapes, strict=True)
    )
