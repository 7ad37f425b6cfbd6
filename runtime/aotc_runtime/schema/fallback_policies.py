"""The policies of an entry point for calls whose sizes match no profile."""

from aotc_runtime.schema.bundle_manifest import (
    CompileHere,
    EntryPoint,
    OutOfProfilePolicy,
    Pad,
    Range,
    Split,
)

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
