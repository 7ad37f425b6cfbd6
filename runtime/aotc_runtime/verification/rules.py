"""What a policy says beyond whose signatures count: rules on the bundle's sizes, on its signed
content and on the runtime. Each yields what it refuses and what would satisfy it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping

from aotc_runtime.errors import Finding
from aotc_runtime.formats.oci import BlobSource
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.labels import policies_of
from aotc_runtime.schema.manifest import BundleManifest
from aotc_runtime.schema.policy import FALLBACK_UNSTATED, FALLBACKS, TrustPolicy
from aotc_runtime.version import VERSION


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
            yield Finding(
                code="AOTC-E320",
                where=where,
                expected=f"at most {limit} {unit}, the policy's limits.{name}",
                found=f"{found} {unit}",
                hint="deploy a smaller bundle, or raise the limit in the policy",
            )


def check_revoked_root(root_digest: str, policy: TrustPolicy, where: str) -> Iterator[Finding]:
    """docs/trust.md 2: AOTC-E313."""
    if root_digest in policy.revoked.roots:
        yield Finding(
            code="AOTC-E313",
            where=where,
            expected="a bundle that the policy does not list under revoked.roots",
            found=root_digest,
            hint="deploy another build; ask whoever revoked this one for the reason",
        )


def check_revoked_blobs(roles: Mapping[str, str], policy: TrustPolicy) -> Iterator[Finding]:
    """docs/trust.md 7: AOTC-E314. roles: what each blob of the bundle is, by digest."""
    for digest in policy.revoked.blobs:
        if digest in roles:
            yield Finding(
                code="AOTC-E314",
                where=roles[digest],
                expected="a blob that the policy does not list under revoked.blobs",
                found=digest,
                hint="deploy a build without it; ask whoever revoked it for the reason",
            )


def check_identity(manifest: BundleManifest, policy: TrustPolicy) -> Iterator[Finding]:
    """docs/trust.md 7: AOTC-E306 name, E307 version."""
    where = f"{manifest.name} {manifest.version}"
    if not fnmatch.fnmatchcase(manifest.name, policy.name):
        yield Finding(
            code="AOTC-E306",
            where=where,
            expected=f"a bundle named {policy.name}, as the trust policy says",
            found=manifest.name,
            hint="load the bundle this policy is for, or write a policy for this one",
        )
    if policy.minimum_version:
        from aotc_runtime.verification.versions import version_key

        minimum, found = version_key(policy.minimum_version), version_key(manifest.version)
        if minimum is None or found is None or found < minimum:
            yield Finding(
                code="AOTC-E307",
                where=where,
                expected=f"version {policy.minimum_version} or later, as the trust policy says",
                found=manifest.version,
                hint="deploy the newer version; lowering minimum_version allows rollback",
            )


def check_fallbacks(manifests: Iterable[BundleManifest], policy: TrustPolicy) -> Iterator[Finding]:
    """docs/trust.md 7: AOTC-E319, for every entry point of every target that goes too far."""
    furthest = FALLBACKS.index(policy.furthest_fallback or FALLBACK_UNSTATED)
    for manifest in manifests:
        for name, entry_point in manifest.entry_points.items():
            for dimension, policy_ in policies_of(entry_point).items():
                if FALLBACKS.index(policy_) <= furthest:
                    continue
                where = f"{manifest.name} {manifest.version} {name} for {manifest.target.name}"
                yield Finding(
                    code="AOTC-E319",
                    where=f"{where}, {dimension}",
                    expected=f"{' or '.join(FALLBACKS[: furthest + 1])} for calls whose shapes "
                    "match no profile, the policy's furthest_fallback",
                    found=policy_.value,
                    hint="build the entry point with another policy, or move furthest_fallback",
                )


def check_runtime(host: HostFacts, policy: TrustPolicy) -> Iterator[Finding]:
    """docs/trust.md 7: AOTC-E318. What the bundle itself accepts is asked later (E401)."""
    accepts = policy.accepts
    for name, accepted, running in (
        ("jaxlib", accepts.jaxlib, host.jaxlib),
        ("aotc_runtime", accepts.aotc_runtime, VERSION),
    ):
        if accepted is not None and running not in accepted:
            package = name.replace("_", "-")
            yield Finding(
                code="AOTC-E318",
                where=f"trust policy accepts.{name}",
                expected=f"{package} {' or '.join(accepted)}",
                found=f"{package} {running}",
                hint=f"`pip install {package}=={accepted[-1]}`, or add {running} to the policy "
                "once it is approved",
            )
