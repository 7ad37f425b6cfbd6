"""`aotc compat`: which target of a bundle runs on which host, by the evidence in the bundle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from aotc.compat.matrix import NO_POLICY, Claim, Row, Word, matrix
from aotc.signing.certificates import claimed
from aotc_runtime.errors import Finding
from aotc_runtime.formats.certificate import Certificate
from aotc_runtime.schema.certified import Ruling
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.manifest import BundleManifest, Target
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification import certificates, rules
from aotc_runtime.verification.contents import Contents
from aotc_runtime.verification.examine import read_unverified
from aotc_runtime.verification.trust import read_policy
from aotc_runtime.verification.verify import attribute, unpack


def judge(
    bundle: Path,
    hosts: Callable[[], Mapping[str, HostFacts]],
    jaxlibs: Sequence[str],
    known: Sequence[Target],
    trust: Path | None,
) -> tuple[Contents, tuple[Row, ...]]:
    """The compatibility matrix of a bundle.

    hosts: called after the bundle is read.  known: all targets, for what a row could be built for.
    trust: the policy of the deployment, whose certifiers count; None to believe no certificate.
    Raises BundleFormatError, IntegrityError, and TrustError where the policy does not accept the
    bundle's signatures: then it runs nowhere.
    """
    source = open_bundle(bundle)
    policy, now = read_policy(trust) if trust is not None else None, time.time()
    if policy is None:
        contents, envelopes = read_unverified(source)
    else:
        signed = attribute(source, policy, now)
        with unpack(signed) as unpacked:
            contents, envelopes = unpacked.finish(), signed.envelopes
    rows = judge_read(contents, envelopes, source.name, hosts(), jaxlibs, known, policy, now)
    return contents, rows


def judge_read(
    contents: Contents,
    envelopes: Iterable[bytes],
    where: str,
    hosts: Mapping[str, HostFacts],
    jaxlibs: Sequence[str],
    known: Sequence[Target],
    policy: TrustPolicy | None,
    now: float,
) -> tuple[Row, ...]:
    """The compatibility matrix of a bundle that was read already and, if there is a policy,
    accepted by it.

    where: what messages call the bundle.  known: all targets, for what a row could be built for.
    now: seconds since the epoch.
    """
    claims = [_claim(*found) for found in claimed(envelopes)]
    word = NO_POLICY
    if policy is not None:
        word = _word(policy, envelopes, contents.root_digest, where, now)
    return matrix(contents.manifests, hosts, jaxlibs, known, claims, word)


def _word(
    policy: TrustPolicy, envelopes: Iterable[bytes], root: str, where: str, now: float
) -> Word:
    def ask(manifest: BundleManifest, jaxlib: str) -> Ruling:
        return certificates.ruling(manifest, jaxlib, envelopes, root, policy, where, now)

    # The rule on aotc-runtime would look at the version that runs here, not at the hosts'.
    accepts = msgspec.structs.replace(policy.accepts, aotc_runtime=None)
    asked = msgspec.structs.replace(policy, accepts=accepts)

    def refuse(facts: HostFacts) -> Iterable[Finding]:
        return rules.check_runtime(facts, asked)

    return Word(ask if policy.certifiers else None, refuse)


def _claim(certificate: Certificate, keys: tuple[str, ...]) -> Claim:
    return Claim(
        target=certificate.target,
        jaxlib=certificate.jaxlib,
        outcome=certificate.outcome,
        certified_on=certificate.certifiedOn.isoformat().replace("+00:00", "Z"),
        cpu=certificate.surroundings.cpu,
        keys=keys,
        ulp_max=max((run.ulpMax for run in certificate.fixtures), default=0),
    )
