"""Requirements of a bundle on a host, and the runtimes that are known to run it."""

from collections.abc import Iterator, Mapping

from msgspec import UNSET

from aotc.bundle.read.bundle_review import Review, accepted_versions
from aotc.bundle.sign.attestation import certificates_in
from aotc.commands.report_page.page_parts import Cell, Mark, Part, Text, comma_list, table
from aotc.report.report_text import size
from aotc_runtime.base import ulps
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats.certificate_predicate import PASSED, Certificate
from aotc_runtime.formats.in_toto import CERTIFICATE_TYPE
from aotc_runtime.schema.bundle_manifest import BundleManifest, ParityRan
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification import certificate_rules
from aotc_runtime.verification.certificate_rules import certifier_keys


def compatibility(review: Review, policy: TrustPolicy | None, now: float) -> Iterator[Part]:
    """Yield requirements, and runtimes with their evidence.

    policy: whose certificates count; None for nobody's.  now: seconds since the epoch.
    """
    manifests = {name: target.manifest for name, target in review.targets.items()}
    yield table(
        "What targets need of a host",
        ("Target", "Platform", "Device", "Processor features", ">Threads", ">Devices", ">Memory"),
        [_needs(name, manifest) for name, manifest in manifests.items()],
    )
    yield table(
        "Runtimes, and how it is known that they run it",
        ("Target", "Runtime", "Known by", "Outcome", "Counts"),
        [*_built(manifests), *_certificate_rows(review, policy, now)],
    )
    yield Text("`aotc compat` says which target runs on which host.")


def _needs(name: str, manifest: BundleManifest) -> tuple[Cell, ...]:
    needs = manifest.requires
    device = "-"
    if needs.device is not UNSET:
        device = f"{comma_list(needs.device.kinds)}, {size(needs.device.memory_bytes)} on it"
    features = comma_list(needs.isa).replace(",", "")
    where = f"{needs.platform} {needs.architecture}"
    numbers = str(manifest.target.threads), str(needs.devices), size(needs.memory_bytes)
    return name, where, device, features, *numbers


def _built(manifests: Mapping[str, BundleManifest]) -> Iterator[tuple[Cell, ...]]:
    for name, manifest in manifests.items():
        every = [p.parity for e in manifest.entry_points.values() for p in e.profiles]
        ran = sum(isinstance(parity, ParityRan) for parity in every)
        tone = "good" if ran == len(every) else "bad"
        outcome = Mark(f"{ran} of {len(every)} fixtures ran", tone)
        builders = {manifest.built_with.jaxlib, *manifest.built_with.tools.values()}
        for package, versions in accepted_versions(manifest).items():
            for version in versions:
                known: tuple[Cell, Cell] = "the bundle manifest, which accepts it", "-"
                if version in builders:
                    known = "the build, which ran it", outcome
                yield name, f"{package} {version}", *known, "yes, by itself"


def _certificate_rows(
    review: Review, policy: TrustPolicy | None, now: float
) -> Iterator[tuple[Cell, ...]]:
    counting = _counting(review, policy, now)
    for claim, envelope in zip(review.claims, review.envelopes, strict=True):
        if claim.predicate_type != CERTIFICATE_TYPE:
            continue
        for certificate, keys in certificates_in([envelope]):
            day = certificate.certifiedOn.isoformat().replace("+00:00", "Z")
            by = comma_list(key[:16] or "a key without id" for key in keys)
            ulp = max((run.ulpMax for run in certificate.fixtures), default=0)
            tone = "good" if certificate.outcome == PASSED else "bad"
            known = f"a certificate of {day} by {by}, on {certificate.surroundings.cpu}"
            yield (
                certificate.target,
                str(certificate.release),
                known,
                Mark(f"{certificate.outcome}, up to {ulps(ulp)} ulp", tone),
                _counts(review, policy, now, certificate, sha256(envelope) in counting),
            )


def _counting(review: Review, policy: TrustPolicy | None, now: float) -> frozenset[str]:
    """Return digests of the envelopes that certifiers of the policy signed."""
    if policy is None or not policy.certifiers:
        return frozenset()
    found = certificate_rules.read_statements(
        review.envelopes, review.root_digest, certifier_keys(policy), review.bundle, now
    )
    return frozenset(digest for _, _, digest, _ in found.by_key)


def _counts(
    review: Review,
    policy: TrustPolicy | None,
    now: float,
    certificate: Certificate,
    is_certifiers: bool,
) -> Cell:
    """Return whether a certificate counts, and the outcome for its target and release."""
    if policy is None:
        return Mark("not checked", "bad")
    target = review.targets.get(certificate.target)
    if not is_certifiers or target is None:
        return "by no certifier of the policy" if target else "for no target of this copy"
    ruling = certificate_rules.ruling(
        target.manifest, certificate.release, review.envelopes, review.root_digest, policy,
        review.bundle, now,
    )  # fmt: skip
    if ruling.certified is not None:
        return Mark("yes: the policy accepts this version", "good")
    return Mark(f"yes: refused by {comma_list(f.code for f in ruling.findings)}", "bad")
