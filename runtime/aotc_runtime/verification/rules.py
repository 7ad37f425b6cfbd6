"""What a policy says beyond whose signatures count: rules on the bundle's sizes, on its signed
content and on the runtime. Each yields what it refuses and what would satisfy it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Set

from aotc_runtime.errors import Finding, finding
from aotc_runtime.formats.oci import BlobSource
from aotc_runtime.schema.facts import NOT_INSTALLED, VERSION, HostFacts
from aotc_runtime.schema.labels import policies_of
from aotc_runtime.schema.manifest import XLA, BundleManifest, OutOfProfilePolicy
from aotc_runtime.schema.policy import FALLBACK_UNSTATED, TrustPolicy


def check_limits(source: BlobSource, policy: TrustPolicy) -> Iterator[Finding]:
    """docs/trust.md 1: AOTC-E320, from the sizes of what is stored, before any of it is read."""
    limits = policy.limits
    if limits == type(limits)():
        return
    sizes = {digest: len(source.blob(digest) or b"") for digest in source.digests()}
    largest = max(sizes, key=lambda digest: (sizes[digest], digest), default="")
    measured = (
        ("blobs", source.name, limits.blobs, len(sizes), "blobs"),
        ("bundle_bytes", source.name, limits.bundle_bytes, sum(sizes.values()), "bytes in blobs"),
        (
            "blob_bytes",
            f"{source.name} {largest}",
            limits.blob_bytes,
            sizes.get(largest, 0),
            "bytes",
        ),
    )
    for name, where, limit, found, unit in measured:
        if limit is not None and found > limit:
            yield finding(
                "AOTC-E320",
                where,
                f"{found} {unit}",
                expected=f"at most {limit} {unit}, the policy's limits.{name}",
            )


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
        from aotc_runtime.verification.versions import version_key

        minimum, found = version_key(policy.minimum_version), version_key(manifest.version)
        if minimum is None or found is None or found < minimum:
            yield finding(
                "AOTC-E307",
                where,
                manifest.version,
                expected=f"version {policy.minimum_version} or later, as the trust policy says",
            )


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


def check_runtime(host: HostFacts, policy: TrustPolicy, engines: Set[str]) -> Iterator[Finding]:
    """docs/trust.md 7: AOTC-E318; the bundle's own word comes later. engines: of the targets."""
    accepts = policy.accepts
    # Without jaxlib only others than XLA can run any code.
    is_asked = XLA in engines and (host.jaxlib != NOT_INSTALLED or engines == {XLA})
    for name, accepted, running in (
        ("jaxlib", accepts.jaxlib if is_asked else None, host.jaxlib),
        ("aotc_runtime", accepts.aotc_runtime, VERSION),
    ):
        if accepted is not None and running not in accepted:
            package = name.replace("_", "-")
            yield finding(
                "AOTC-E318",
                f"trust policy accepts.{name}",
                f"{package} {running}",
                expected=f"{package} {' or '.join(accepted)}",
                hint=f"`pip install {package}=={accepted[-1]}`, or add {running} to the policy "
                "once it is approved",
            )
