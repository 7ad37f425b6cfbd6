"""Which target of a bundle runs on which host, by the evidence in the bundle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec

from aotc.bundle.compat.compat_matrix import NO_POLICY, Claim, Row, Word, matrix
from aotc.bundle.read.opened_bundle import Opened
from aotc.bundle.sign.attestation import claimed
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats.certificate_predicate import Certificate
from aotc_runtime.schema.bundle_manifest import BundleManifest, Target
from aotc_runtime.schema.certified_releases import Release, Ruling
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification import certificate_rules, optional_rules


def judge(
    read: Opened,
    hosts: Mapping[str, HostFacts],
    jaxlibs: Sequence[str],
    known: Sequence[Target],
    policy: TrustPolicy | None,
    now: float,
) -> tuple[Row, ...]:
    """The compatibility matrix of a bundle.

    jaxlibs: to assume on each host instead of its own, if any.  known: all targets, for what a row
    could be built for.  policy: of the deployment, whose certifiers count; None to believe no
    certificate.  now: seconds since the epoch.
    """
    claims = [_claim(*found) for found in claimed(read.envelopes)]
    word = NO_POLICY if policy is None else _word(policy, read, now)
    return matrix(read.contents.manifests, hosts, jaxlibs, known, claims, word)


def _word(policy: TrustPolicy, read: Opened, now: float) -> Word:
    def ask(manifest: BundleManifest, release: Release) -> Ruling:
        return certificate_rules.ruling(
            manifest, release, read.envelopes, read.root_digest, policy, read.bundle, now
        )

    # The rule on aotc-runtime would look at the version that runs here, not at the hosts'.
    accepts = msgspec.structs.replace(policy.accepts, aotc_runtime=None)

    def refuse(facts: HostFacts, engines: Set[str]) -> Iterable[Finding]:
        return optional_rules.check_runtime(facts, accepts, engines)

    return Word(ask if policy.certifiers else None, refuse)


def _claim(certificate: Certificate, keys: tuple[str, ...]) -> Claim:
    return Claim(
        target=certificate.target,
        package=certificate.release.package,
        version=certificate.release.version,
        outcome=certificate.outcome,
        certified_on=certificate.certifiedOn.isoformat().replace("+00:00", "Z"),
        cpu=certificate.surroundings.cpu,
        keys=keys,
        ulp_max=max((run.ulpMax for run in certificate.fixtures), default=0),
    )
