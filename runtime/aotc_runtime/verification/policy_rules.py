"""Rules of every policy on the signed content of a bundle.

Each yields what it rejects and what would satisfy it. Rules that most policies leave out are in
`optional_rules`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.schema.bundle_manifest import BundleManifest, OutOfProfilePolicy
from aotc_runtime.schema.manifest_labels import policies_of
from aotc_runtime.schema.trust_policy import FALLBACK_UNSTATED, TrustPolicy


def check_revoked_root(root_digest: str, policy: TrustPolicy, where: str) -> Iterator[Finding]:
    """Verification step 2: AOTC-E313."""
    if root_digest in policy.revoked.roots:
        yield finding("AOTC-E313", where, root_digest)


def check_identity(manifest: BundleManifest, policy: TrustPolicy) -> Iterator[Finding]:
    """Verification step 7: AOTC-E306 name, E307 version."""
    # Names have no wildcards, so an equal pattern has none, and none has to be compiled.
    if manifest.name != policy.name and not fnmatch.fnmatchcase(manifest.name, policy.name):
        yield finding(
            "AOTC-E306",
            f"{manifest.name} {manifest.version}",
            manifest.name,
            expected=policy.name,
        )
    if policy.minimum_version:
        from aotc_runtime.verification import optional_rules

        yield from optional_rules.check_version(manifest, policy.minimum_version)


def check_fallbacks(manifests: Iterable[BundleManifest], policy: TrustPolicy) -> Iterator[Finding]:
    """Verification step 7: AOTC-E319, for every entry point of every target that goes too far."""
    known = tuple(OutOfProfilePolicy)
    furthest = known.index(policy.furthest_fallback or FALLBACK_UNSTATED)
    for manifest in manifests:
        for name, entry_point in manifest.entry_points.items():
            for dimension, policy_ in policies_of(entry_point).items():
                if known.index(policy_) > furthest:
                    where = f"{manifest.name} {manifest.version} {name} for {manifest.target.name}"
                    yield finding(
                        "AOTC-E319",
                        f"{where}, {dimension}",
                        policy_.value,
                        expected=f"{' or '.join(known[: furthest + 1])} (furthest_fallback)",
                    )
