"""Rules of a trust policy on the signed content of a bundle.

Each yields what it rejects and what would satisfy it. Verification imports them for the first
policy and bundle that one of them may reject.
"""

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from msgspec import UNSET

from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.formats.oci_layout import ImageManifest
from aotc_runtime.schema.bundle_manifest import (
    XLA,
    BundleManifest,
    EvaluationRan,
    OutOfProfilePolicy,
    engine_name,
    engine_of,
)
from aotc_runtime.schema.fallback_policies import policies_of
from aotc_runtime.schema.host_facts import NOT_INSTALLED, VERSION, HostFacts
from aotc_runtime.schema.trust_policy import (
    FALLBACK_UNSTATED,
    Accepts,
    MetricRule,
    SizeLimits,
    TrustPolicy,
)
from aotc_runtime.verification.bundle_contents import roles_of
from aotc_runtime.verification.bundle_versions import version_key
from aotc_runtime.verification.rare_consistency import precisions_of


def check_reference(is_pinned: bool, policy: TrustPolicy, where: str) -> Iterator[Finding]:
    """Before verification step 1, of a bundle in a registry: AOTC-E326."""
    if policy.references is not None and not is_pinned:
        yield finding("AOTC-E326", where, "a tag")


def check_limits(
    source: BlobSource, limits: SizeLimits, unread: Mapping[str, int]
) -> Iterator[Finding]:
    """Verify step 1: check sizes before anything is read (AOTC-E320).

    `unread` has the sizes, by digest, of blobs that stay in a registry.
    """
    sizes = {digest: len(source.blob(digest) or b"") for digest in source.digests()} | dict(unread)
    largest = max(sizes, key=lambda digest: (sizes[digest], digest), default="")
    whole, one = source.name, f"{source.name} {largest}"
    measured = (
        ("blobs", whole, limits.blobs, len(sizes), "blobs"),
        ("bundle_bytes", whole, limits.bundle_bytes, sum(sizes.values()), "bytes in blobs"),
        ("blob_bytes", one, limits.blob_bytes, sizes.get(largest, 0), "bytes"),
    )
    for name, where, limit, found, unit in measured:
        if limit is not None and found > limit:
            expected = f"at most {limit} (limits.{name})"
            yield finding("AOTC-E320", where, f"{found} {unit}", expected=expected)


def check_revoked_root(root_digest: str, policy: TrustPolicy, where: str) -> Iterator[Finding]:
    """Verification step 2: AOTC-E313."""
    if root_digest in policy.revoked.roots:
        yield finding("AOTC-E313", where, root_digest)


def roles_by_digest(
    root_digest: str,
    targets: Mapping[str, ImageManifest],
    manifests: Mapping[str, BundleManifest],
    attested: Iterable[str],
) -> dict[str, str]:
    """Return the role of each blob by digest.

    `targets` and `manifests` are by target name; `attested` are digests of attestations.
    """
    roles = {root_digest: "root index"} | dict.fromkeys(attested, "attestation")
    for target, image in targets.items():
        roles[sha256(canonical_json.encode(image))] = f"image manifest of {target}"
        roles[image.config.digest] = f"bundle manifest of {target}"
        roles |= {ref.digest: f"{role} of {target}" for ref, _, role in roles_of(manifests[target])}
    return roles


def check_revoked_blobs(roles: Mapping[str, str], policy: TrustPolicy) -> Iterator[Finding]:
    """Check revoked blobs (verification step 7, AOTC-E314), with blobs' roles by digest."""
    for digest in policy.revoked.blobs:
        if digest in roles:
            yield finding("AOTC-E314", roles[digest], digest)


def check_identity(manifest: BundleManifest, policy: TrustPolicy) -> Iterator[Finding]:
    """Verification step 7: AOTC-E306 name, E307 version."""
    # Names have no wildcards, so an equal pattern has none, and none has to be compiled.
    if manifest.name != policy.name and not fnmatch.fnmatchcase(manifest.name, policy.name):
        where = f"{manifest.name} {manifest.version}"
        yield finding("AOTC-E306", where, manifest.name, expected=policy.name)
    if policy.minimum_version:
        yield from check_version(manifest, policy.minimum_version)


def check_version(manifest: BundleManifest, minimum_version: str) -> Iterator[Finding]:
    """Verification step 7: AOTC-E307."""
    minimum, found = version_key(minimum_version), version_key(manifest.version)
    if minimum is None or found is None or found < minimum:
        where = f"{manifest.name} {manifest.version}"
        expected = f"{minimum_version} or later (minimum_version)"
        yield finding("AOTC-E307", where, manifest.version, expected=expected)


def check_fallbacks(manifests: Iterable[BundleManifest], policy: TrustPolicy) -> Iterator[Finding]:
    """Verification step 7: AOTC-E319, for every entry point of every target that goes too far."""
    known = tuple(OutOfProfilePolicy)
    furthest = known.index(policy.furthest_fallback or FALLBACK_UNSTATED)
    for manifest in manifests:
        for name, entry_point in manifest.entry_points.items():
            for dimension, policy_ in policies_of(entry_point).items():
                if known.index(policy_) > furthest:
                    where = f"{manifest.name} {manifest.version} {name} for {manifest.target.name}"
                    found = policy_.value
                    expected = f"{' or '.join(known[: furthest + 1])} (furthest_fallback)"
                    yield finding("AOTC-E319", f"{where}, {dimension}", found, expected=expected)


def check_numerics(manifests: Iterable[BundleManifest], policy: TrustPolicy) -> Iterator[Finding]:
    """Verification step 7: AOTC-E336, for every entry point that states finite numbers."""
    for manifest in manifests if policy.numerics is not None else ():
        for name, entry_point in manifest.entry_points.items():
            if entry_point.numerics is not UNSET:
                where = f"{manifest.name} {manifest.version} {name} for {manifest.target.name}"
                yield finding("AOTC-E336", where, f'numerics = "{entry_point.numerics}"')


def check_metrics(
    manifests: Iterable[BundleManifest], required: Mapping[str, float | MetricRule]
) -> Iterator[Finding]:
    """Verification step 7: AOTC-E337, for every target without a metric that is good enough.

    Args:
        manifests: Of every target.
        required: By entry point and metric; a number is a limit in the metric's own direction.
    """
    for manifest in manifests:
        for name, stated in required.items():
            owner, _, metric = name.partition(".")
            entry_point = manifest.entry_points.get(owner)
            known = (entry_point.evaluations or ()) if entry_point else ()
            found = next((each for each in known if each.metric == metric), None)
            where = f"{manifest.name} {manifest.version} {owner} for {manifest.target.name}"
            if found is None or not isinstance(found.result, EvaluationRan):
                from aotc_runtime.verification import policy_refusals

                yield policy_refusals.no_metric(manifest, name, where)
                continue
            rule = stated if isinstance(stated, MetricRule) else MetricRule(stated, stated)
            value, is_lower = float(found.result.value), found.better == "lower"
            limit = rule.maximum if is_lower else rule.minimum
            is_met = limit is not None and (value <= limit if is_lower else value >= limit)
            if limit is None:
                cause, least = "limit-is-on-the-wrong-side", "maximum" if is_lower else "minimum"
                yield finding("AOTC-E337", where, metric, cause=cause, expected=f"{least} ({name})")
            elif not is_met or found.samples < rule.samples:
                wanted = f"{'at most' if is_lower else 'at least'} {limit!r}"
                expected = f"{wanted} over at least {rule.samples} samples ({name})"
                shown = f"{metric} {found.result.value} over {found.samples} samples"
                cause = "metric-has-too-few-samples" if is_met else ""
                yield finding("AOTC-E337", where, shown, cause=cause, expected=expected)


def check_precisions(
    manifests: Iterable[BundleManifest], accepted: Sequence[str] | None
) -> Iterator[Finding]:
    """Verification step 7: AOTC-E338, for every entry point with weights in other precisions."""
    for manifest in manifests if accepted else ():
        for name, entry_point in manifest.entry_points.items():
            found = {each for p in entry_point.profiles for each in precisions_of(p, manifest)}
            if refused := sorted(found - {*(accepted or ())}):
                where = f"{manifest.name} {manifest.version} {name} for {manifest.target.name}"
                expected = f"{' or '.join(accepted or ())} (precisions)"
                yield finding("AOTC-E338", where, " and ".join(refused), expected=expected)


def check_runtime(host: HostFacts, accepts: Accepts, engines: Set[str]) -> Iterator[Finding]:
    """Check the runtime by the policy alone (verification step 7, AOTC-E318), for these engines."""
    # Without jaxlib only others than XLA can run any code.
    is_asked = XLA in engines and (host.jaxlib != NOT_INSTALLED or engines == {XLA})
    for name, accepted, running in (
        ("jaxlib", accepts.jaxlib if is_asked else None, host.jaxlib),
        ("aotc_runtime", accepts.aotc_runtime, VERSION),
    ):
        if accepted is not None and running not in accepted:
            package = name.replace("_", "-")
            where = f"trust policy accepts.{name}"
            expected = f"{package} {' or '.join(accepted)}"
            hint = f"run `pip install {package}=={accepted[-1]}`"
            yield finding("AOTC-E318", where, f"{package} {running}", expected=expected, hint=hint)


def accepted_targets(
    manifests: Mapping[str, BundleManifest],
    host: HostFacts,
    policy: TrustPolicy,
    target: str | None,
) -> tuple[Mapping[str, BundleManifest], list[Finding]]:
    """Return the targets whose engines the policy accepts, and its findings: end of step 7.

    `target` is the one that the caller named.
    """
    findings: list[Finding] = []
    if policy.engines is not None:
        findings += check_engines(manifests, policy.engines, target)
        manifests = runnable(manifests, policy.engines)
    engines = {engine_name(m.target) for name, m in manifests.items() if target in (None, name)}
    return manifests, [*findings, *check_runtime(host, policy.accepts, engines)]


def runnable(
    manifests: Mapping[str, BundleManifest], engines: Sequence[str]
) -> dict[str, BundleManifest]:
    """Return the targets of which these engines run every executable."""
    return {name: each for name, each in manifests.items() if not _others(each, engines)}


def _others(manifest: BundleManifest, engines: Sequence[str]) -> list[str]:
    """Return the other engines of a target."""
    return [each for each in map(engine_of, manifest.platforms) if each not in engines]


def check_engines(
    manifests: Mapping[str, BundleManifest], engines: Sequence[str], target: str | None
) -> Iterator[Finding]:
    """Verification step 7: AOTC-E322, for a named target, or for all targets if none is left."""
    left = runnable(manifests, engines)
    for name, manifest in manifests.items():
        if name not in left and (name == target or not left):
            where = f"{manifest.name} {manifest.version} for {name}"
            found = " and ".join(_others(manifest, engines))
            yield finding("AOTC-E322", where, found, expected=f"{' or '.join(engines)} (engines)")
