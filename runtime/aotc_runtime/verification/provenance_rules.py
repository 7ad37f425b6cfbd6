"""A policy's rules on how a bundle was built, asked of the provenance that counted.

Every provenance that describes a build has to satisfy them, and one at least has to describe it:
which of two accounts is true cannot be known. What `aotc sign` adds describes no build. It counts
for the threshold, and neither satisfies nor breaks a rule on builds.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.formats.slsa_provenance import SIGN_TYPE, Provenance
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.root_signatures import AcceptedProvenance

CLOCKS_DIFFER = 300
"""Seconds by which a builder's clock may be ahead of this host's."""

Rule = Callable[[Provenance, TrustPolicy, str], Iterable[Finding]]


def check_builds(
    accepted: Iterable[AcceptedProvenance], policy: TrustPolicy, where: str, now: float
) -> Iterator[Finding]:
    """Check who built a bundle, when and from what: verification step 7.

    AOTC-E323 the signer of the provenance, E315 the build time, E316 the builder, E317 the sources.
    `now` is the time of checking, in seconds since the epoch.

    Provenance is read only where a policy asks about builds. Raises BundleFormatError (AOTC-E106)
    for provenance that is no SLSA provenance v1.
    """
    rules = [rule for rule, stated in _stated_rules(policy) if stated]
    builds = [
        (provenance, each)
        for each in accepted
        for provenance in (decode_foreign(each.predicate, Provenance, where=each.where),)
        if provenance.buildDefinition.buildType != SIGN_TYPE
    ]
    if not builds:
        found, cause = "endorsements only", "no-provenance-of-a-build"
        yield finding("AOTC-E316", where, found, cause=cause)
    for provenance, each in builds:
        yield from _check_speaker(provenance, each)
        yield from _check_clock(provenance, each.where, now)
        for rule in rules:
            yield from rule(provenance, policy, each.where)


def _stated_rules(policy: TrustPolicy) -> Iterable[tuple[Rule, bool]]:
    return (
        (_check_time, policy.minimum_build_time is not None),
        (_check_builder, policy.accepts.builders is not None),
        (_check_sources, policy.accepts.sources is not None),
    )


def _check_speaker(provenance: Provenance, each: AcceptedProvenance) -> Iterator[Finding]:
    """Yield errors unless the keys that describe a build are bound to its builder."""
    builder = provenance.runDetails.builder.id
    if each.builders is not None and builder not in each.builders:
        signers = " and ".join(signer[:16] for signer in sorted(each.signers))
        may = " or ".join(sorted(each.builders)) or "no builder"
        found = f"{builder or 'no builder'}, signed by key {signers}"
        expected = f"{may} (keys.builders)"
        yield finding("AOTC-E323", each.where, found, expected=expected)


def _check_clock(provenance: Provenance, where: str, now: float) -> Iterator[Finding]:
    """Reject build times in the future, which would satisfy every later minimum_build_time."""
    finished = provenance.runDetails.metadata.finishedOn
    if finished is not None and finished.timestamp() > now + CLOCKS_DIFFER:
        clock = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        found, cause = finished.isoformat(), "build-time-is-in-the-future"
        yield finding("AOTC-E315", where, found, cause=cause, expected=f"{clock} or earlier")


def _check_time(provenance: Provenance, policy: TrustPolicy, where: str) -> Iterator[Finding]:
    minimum, finished = policy.minimum_build_time, provenance.runDetails.metadata.finishedOn
    assert minimum is not None, "asked only where it is stated"
    expected = f"{minimum.isoformat()} or later (minimum_build_time)"
    if finished is None:
        yield finding("AOTC-E315", where, "", cause="build-time-is-missing", expected=expected)
    elif finished < minimum:
        yield finding("AOTC-E315", where, finished.isoformat(), expected=expected)


def _check_builder(provenance: Provenance, policy: TrustPolicy, where: str) -> Iterator[Finding]:
    found = provenance.runDetails.builder.id
    accepted = policy.accepts.builders or ()
    if found not in accepted:
        expected = f"{' or '.join(accepted)} (accepts.builders)"
        yield finding("AOTC-E316", where, found or "no builder", expected=expected)


def _check_sources(provenance: Provenance, policy: TrustPolicy, where: str) -> Iterator[Finding]:
    accepted = set(policy.accepts.sources or ())
    sources = provenance.sources()
    if not sources:
        yield finding("AOTC-E317", where, "", cause="provenance-names-no-sources")
    for source in sources:
        digests = [f"{algorithm}:{value}" for algorithm, value in sorted(source.digest.items())]
        if not accepted.intersection(digests):
            place, found = f"{where} {source.name or source.uri}".rstrip(), " ".join(digests)
            expected = "a digest under accepts.sources"
            hint = "deploy a build of accepted sources, or review this one and add its digest"
            yield finding("AOTC-E317", place, found, expected=expected, hint=hint)
