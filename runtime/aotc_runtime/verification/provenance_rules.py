"""A policy's rules on how a bundle was built, asked of the provenance that counted.

Every provenance that describes a build has to satisfy them, and one at least has to describe it:
which of two accounts is true cannot be known. What `aotc sign` adds describes no build. It counts
for the threshold, and neither satisfies nor breaks a rule on builds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.formats.in_toto import SIGN_TYPE
from aotc_runtime.formats.slsa_provenance import Provenance
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.root_signatures import AcceptedProvenance

CLOCKS_DIFFER = 300
"""Seconds by which a builder's clock may be ahead of this host's."""

Rule = Callable[[Provenance, TrustPolicy, str], Iterable[Finding]]


def check_builds(
    accepted: Iterable[AcceptedProvenance], policy: TrustPolicy, where: str, now: float
) -> Iterator[Finding]:
    """docs/trust.md 7: AOTC-E323 who may speak for the builder, E315 build time, E316 builder, E317
    sources. now: the time of checking, seconds since the epoch.

    Provenance is read only where a policy asks about builds. Raises BundleFormatError (AOTC-E106)
    for provenance that is no SLSA provenance v1.
    """
    rules = [rule for rule, stated in _stated(policy) if stated]
    builds = [
        (provenance, each)
        for each in accepted
        for provenance in (decode_foreign(each.predicate, Provenance, where=each.where),)
        if provenance.buildDefinition.buildType != SIGN_TYPE
    ]
    if not builds:
        found = "only signatures added by `aotc sign`, which describe no build"
        expected = "provenance of the build, which the policy's rules on builds ask about"
        hint = "build with --key, so that the builder signs what it did"
        yield finding("AOTC-E316", where, found, expected=expected, hint=hint)
    for provenance, each in builds:
        yield from _check_speaker(provenance, each)
        yield from _check_clock(provenance, each.where, now)
        for rule in rules:
            yield from rule(provenance, policy, each.where)


def _stated(policy: TrustPolicy) -> Iterable[tuple[Rule, bool]]:
    return (
        (_check_time, policy.minimum_build_time is not None),
        (_check_builder, policy.accepts.builders is not None),
        (_check_sources, policy.accepts.sources is not None),
    )


def _check_speaker(provenance: Provenance, each: AcceptedProvenance) -> Iterator[Finding]:
    """What the keys that signed say of a build, they may say of this builder."""
    builder = provenance.runDetails.builder.id
    if each.builders is not None and builder not in each.builders:
        signers = " and ".join(signer[:16] for signer in sorted(each.signers))
        may = " or ".join(sorted(each.builders)) or "none: it only endorses"
        found = f"a build by {builder or 'nobody'}, described by key {signers}"
        expected = f"a builder that this key may speak for, by the policy's keys.builders: {may}"
        yield finding("AOTC-E323", each.where, found, expected=expected)


def _check_clock(provenance: Provenance, where: str, now: float) -> Iterator[Finding]:
    """No build has ended in the future: one that says so would satisfy minimum_build_time later."""
    finished = provenance.runDetails.metadata.finishedOn
    if finished is not None and finished.timestamp() > now + CLOCKS_DIFFER:
        clock = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        expected = f"a build that has ended by {clock}, the time of checking"
        hint = "set the clock of the builder, or of this host, or SOURCE_DATE_EPOCH of the build"
        yield finding("AOTC-E315", where, finished.isoformat(), expected=expected, hint=hint)


def _check_time(provenance: Provenance, policy: TrustPolicy, where: str) -> Iterator[Finding]:
    minimum, finished = policy.minimum_build_time, provenance.runDetails.metadata.finishedOn
    assert minimum is not None, "asked only where it is stated"
    if finished is None or finished < minimum:
        yield finding(
            "AOTC-E315",
            where,
            finished.isoformat() if finished else "provenance that states no time",
            expected=f"a build finished at {minimum.isoformat()} or later, the policy's "
            "minimum_build_time",
        )


def _check_builder(provenance: Provenance, policy: TrustPolicy, where: str) -> Iterator[Finding]:
    found = provenance.runDetails.builder.id
    accepted = policy.accepts.builders or ()
    if found not in accepted:
        expected = f"built by {' or '.join(accepted)}, the policy's accepts.builders"
        hint = "deploy what an accepted builder built, or add this one to the policy"
        yield finding("AOTC-E316", where, found or "no builder id", expected=expected, hint=hint)


def _check_sources(provenance: Provenance, policy: TrustPolicy, where: str) -> Iterator[Finding]:
    accepted = set(policy.accepts.sources or ())
    sources = provenance.sources()
    if not sources:
        expected = "provenance with digests of its sources, for the policy's accepts.sources"
        hint = "deploy a build whose provenance names them"
        yield finding("AOTC-E317", where, "none", expected=expected, hint=hint)
    for source in sources:
        digests = [f"{algorithm}:{value}" for algorithm, value in sorted(source.digest.items())]
        if not accepted.intersection(digests):
            yield finding(
                "AOTC-E317",
                f"{where} {source.name or source.uri}".rstrip(),
                " ".join(digests),
                expected="a source that the policy lists under accepts.sources",
                hint="deploy a build of accepted sources, or add this digest once it is reviewed",
            )
