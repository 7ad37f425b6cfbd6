"""What a policy says beyond whose signatures count: rules on the bundle's sizes, on its signed
content and on the runtime. Each yields what it refuses and what would satisfy it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Set

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.formats.oci_layout import BlobSource
from aotc_runtime.schema.bundle_manifest import BundleManifest, OutOfProfilePolicy, engine_name
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.manifest_labels import policies_of
from aotc_runtime.schema.trust_policy import FALLBACK_UNSTATED, SizeLimits, TrustPolicy


def check_limits(
    source: BlobSource, policy: TrustPolicy, unread: Mapping[str, int]
) -> Iterator[Finding]:
    """docs/trust.md 1: AOTC-E320. unread: sizes by digest of what was left where it is."""
    if policy.limits != SizeLimits():
        from aotc_runtime.verification import optional_rules

        yield from optional_rules.check_limits(source, policy.limits, unread)


def check_revoked_root(root_digest: str, policy: TrustPolicy, where: str) -> Iterator[Finding]:
    """docs/trust.md 2: AOTC-E313."""
    if root_digest in policy.revoked.roots:
        yield finding("AOTC-E313", where, root_digest)


def check_revoked_blobs(roles: Mapping[str, str], policy: TrustPolicy) -> Iterator[Finding]:
    """docs/trust.md 7: AOTC-E314. roles: what each blob of the bundle is, by digest."""
    for digest in policy.revoked.blobs:
        if digest in roles:
            yield finding("AOTC-E314", roles[digest], digest)


def check_identity(manifest: BundleManifest, policy: TrustPolicy) -> Iterator[Finding]:
    """docs/trust.md 7: AOTC-E306 name, E307 version."""
    where = f"{manifest.name} {manifest.version}"
    if not fnmatch.fnmatchcase(manifest.name, policy.name):
        yield finding(
            "AOTC-E306",
            where,
            manifest.name,
            expected=f"a bundle named {policy.name}, as the trust policy says",
        )
    if policy.minimum_version:
        from aotc_runtime.verification import optional_rules

        yield from optional_rules.check_version(manifest, policy.minimum_version)


def check_fallbacks(manifests: Iterable[BundleManifest], policy: TrustPolicy) -> Iterator[Finding]:
    """docs/trust.md 7: AOTC-E319, for every entry point of every target that goes too far."""
    known = tuple(OutOfProfilePolicy)
    furthest = known.index(policy.furthest_fallback or FALLBACK_UNSTATED)
    for manifest in manifests:
        for name, entry_point in manifest.entry_points.items():
            for dimension, policy_ in policies_of(entry_point).items():
                if known.index(policy_) <= furthest:
                    continue
                where = f"{manifest.name} {manifest.version} {name} for {manifest.target.name}"
                yield finding(
                    "AOTC-E319",
                    f"{where}, {dimension}",
                    policy_.value,
                    expected=f"{' or '.join(known[: furthest + 1])} for calls whose shapes "
                    "match no profile, the policy's furthest_fallback",
                )


def check_numerics(manifests: Iterable[BundleManifest], policy: TrustPolicy) -> Iterator[Finding]:
    """docs/trust.md 7: AOTC-E336."""
    if policy.numerics is not None:
        from aotc_runtime.verification import optional_rules

        yield from optional_rules.check_numerics(manifests)


def accepted_targets(
    manifests: Mapping[str, BundleManifest],
    host: HostFacts,
    policy: TrustPolicy,
    target: str | None,
) -> tuple[Mapping[str, BundleManifest], list[Finding]]:
    """The end of docs/trust.md 7: the targets whose engines the policy accepts, and what it refuses
    of engines and versions. target: the one that the caller named.
    """
    findings: list[Finding] = []
    if policy.engines is not None:
        from aotc_runtime.verification import optional_rules

        findings += optional_rules.check_engines(manifests, policy.engines, target)
        manifests = optional_rules.accepted(manifests, policy.engines)
    engines = {engine_name(m.target) for name, m in manifests.items() if target in (None, name)}
    return manifests, [*findings, *check_runtime(host, policy, engines)]


def check_runtime(host: HostFacts, policy: TrustPolicy, engines: Set[str]) -> Iterator[Finding]:
    """docs/trust.md 7: AOTC-E318; the bundle's own word comes later. engines: of the targets."""
    if policy.accepts.jaxlib is not None or policy.accepts.aotc_runtime is not None:
        from aotc_runtime.verification import optional_rules

        yield from optional_rules.check_runtime(host, policy.accepts, engines)
