"""Targets that somebody asks for and that a bundle does not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.schema.bundle_manifest import BundleManifest


def missing_target(
    manifests: Mapping[str, BundleManifest], wanted: str, absent: Sequence[str]
) -> Finding:
    """AOTC-E505 for a target that is not there: left out of this copy, or never in the bundle."""
    if wanted in absent:
        return finding(
            "AOTC-E505",
            wanted,
            "a target that was left out of it (`aotc extract`)",
            expected="a target that this copy of the bundle holds: " + ", ".join(sorted(manifests)),
            hint="take the whole bundle, or extract this target from it",
        )
    otherwise = "`aotc inspect` shows a bundle's targets; without one, this host's best is chosen"
    return finding(
        "AOTC-E505",
        wanted,
        "no such target",
        expected="one of the bundle's targets: " + ", ".join(sorted(manifests)),
        hint=did_you_mean(wanted, manifests, otherwise),
    )
