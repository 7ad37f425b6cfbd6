"""The verification workflow: its stages are types, each made by a function of the one before.

They stand here in the order of trust-policy.md and carry its numbers. A load is

    with accept_bundle(source, policy, now) as accepted:  # 1 to 7; weights begin to be hashed
        facts = ...  # of this host, as `accepted.wanted` asks for
        compatible = require_compatible(accepted, facts, target)  # the end of 7, and 8 to 10
        ...  # `compatible.executables` may be deserialized
        verified = compatible.finish()  # the end of 6

and a command that only inspects a bundle stops at the stage that it needs; `accept_bundle` and
`require_compatible` are made of the steps before them. Gates stop: nothing behind a gate is parsed
before it opens. Checks collect: every mismatch with the host is reported at once. This file alone
makes the stages, `VerifiedBlob` and `VerifiedBundle`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from aotc_runtime.base.errors import AotcError, Finding, raise_if
from aotc_runtime.schema.bundle_manifest import BlobRef, BundleManifest
from aotc_runtime.schema.host_facts import HostFacts, Wanted
from aotc_runtime.schema.trust_policy import Accepts, SizeLimits, TrustPolicy
from aotc_runtime.verification import bundle_contents, root_signatures
from aotc_runtime.verification.bundle_contents import ALL_READ
from aotc_runtime.verification.host_compatibility import Choice, choose_target, wanted_facts

if TYPE_CHECKING:
    from aotc_runtime.formats.blob_source import BlobSource
    from aotc_runtime.schema.certified_releases import AskCertificates, Release, Ruling


class Parsed(Struct, frozen=True):
    """A bundle whose layout is valid and within the policy's limits.

    `unread` has the sizes, by digest, of weights that stay in a registry; such a bundle can be
    evaluated but not used.
    """

    source: BlobSource
    policy: TrustPolicy
    root: bundle_contents.Root
    unread: Mapping[str, int]

    @property
    def root_digest(self) -> str:
        """The subject that signatures must have."""
        return self.root.entry.digest


def parse(source: BlobSource, policy: TrustPolicy, unread: Mapping[str, int] = ALL_READ) -> Parsed:
    """Verification step 1."""
    root = bundle_contents.read_root(source)
    if policy.limits != SizeLimits():
        raise_if(_rules().check_limits(source, policy.limits, unread))
    return Parsed(source, policy, root, unread)


def _rules() -> Any:
    """Return the policy's rules, imported for the first policy and bundle that need one."""
    from aotc_runtime.verification import policy_rules

    return policy_rules


class Attested(Struct, frozen=True):
    """A bundle whose root is not revoked, with its attestations, which nobody has believed yet."""

    parsed: Parsed
    envelopes: bundle_contents.Envelopes


def collect(parsed: Parsed) -> Attested:
    """Verification step 2."""
    source, policy = parsed.source, parsed.policy
    if policy.revoked.roots:
        raise_if(_rules().check_revoked_root(parsed.root_digest, policy, source.name))
    return Attested(parsed, bundle_contents.read_envelopes(source, parsed.root))


class Signed(Struct, frozen=True):
    """A root that enough of the policy's keys have signed.

    `now` is the time of checking, seconds since the epoch.
    """

    parsed: Parsed
    envelopes: bundle_contents.Envelopes
    provenance: tuple[root_signatures.AcceptedProvenance, ...]
    now: float

    @property
    def signers(self) -> tuple[str, ...]:
        """Ids of the keys that vouch for it."""
        return root_signatures.signers_of(self.provenance)


def authenticate(attested: Attested, now: float) -> Signed:
    """Run verification steps 3 and 4; `now` is the time of checking, seconds since the epoch."""
    parsed, envelopes = attested.parsed, attested.envelopes
    root, where = parsed.root_digest, parsed.source.name
    provenance = root_signatures.accepted_provenance(envelopes, root, parsed.policy, where, now)
    return Signed(parsed, envelopes, provenance, now)


def attribute(
    source: BlobSource, policy: TrustPolicy, now: float, unread: Mapping[str, int] = ALL_READ
) -> Signed:
    """Return the accepted signatures of a bundle: verification steps 1 to 4.

    `now` is the time of checking, in seconds since the epoch, `unread` as in `Parsed`. Raises
    BundleFormatError, IntegrityError, TrustError.
    """
    return authenticate(collect(parse(source, policy, unread)), now)


class Unpacked(Struct, frozen=True):
    """A bundle whose documents and small blobs are the signed ones.

    Its weights are being hashed until `finish`, or the end of the `with` statement.
    """

    signed: Signed
    _contents: bundle_contents.Contents
    _weights: bundle_contents.WeightsHashing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._weights.stop()

    def finish(self) -> bundle_contents.Contents:
        """Finish verification step 6: return all contents once every blob is hashed.

        Raises IntegrityError (AOTC-E201).
        """
        self._weights.finish()
        return self._contents


def unpack(signed: Signed) -> Unpacked:
    """Verification step 5, and the beginning of 6."""
    parsed = signed.parsed
    attested, unread = signed.envelopes.blobs, parsed.unread
    contents, weights = bundle_contents.begin_contents(parsed.source, parsed.root, attested, unread)
    return Unpacked(signed, contents, weights)


class Accepted(Unpacked, frozen=True):
    """A bundle that the policy accepts, but for what it may say of engines and versions here."""

    def facts_for(self, target: str | None) -> Wanted:
        """Return the host facts that this target, or any, needs."""
        return wanted_facts(self._contents.manifests, target)


def accept(unpacked: Unpacked) -> Accepted:
    """Verification step 7, without the rules on engines and versions that run here.

    Refusals are raised once the weights are hashed. Any exception stops the hashing.
    """
    try:
        _refuse(unpacked, check_policy(unpacked.signed, unpacked._contents))
    except BaseException:
        unpacked._weights.stop()
        raise
    return Accepted(unpacked.signed, unpacked._contents, unpacked._weights)


def accept_bundle(source: BlobSource, policy: TrustPolicy, now: float) -> Accepted:
    """Run the checks that are the same on any host: verification steps 1 to 7.

    `now` is the time of checking, in seconds since the epoch. Weights are hashed from then on: use
    the result in a `with` statement, which ends that.
    Raises BundleFormatError, IntegrityError, TrustError.
    """
    return accept(unpack(attribute(source, policy, now)))


class Evaluated(Struct, frozen=True):
    """A bundle and which of its targets this host is to run; the choice says if none fits."""

    accepted: Accepted
    choice: Choice

    @property
    def manifest(self) -> BundleManifest | None:
        """The manifest of the target, if it is there."""
        return self.accepted._contents.manifests.get(self.choice.target)


def evaluate(accepted: Accepted, facts: HostFacts, target: str | None = None) -> Evaluated:
    """Run the end of verification step 7, and return the results of steps 8 to 10.

    `facts` are the host's. `target` is one of the bundle's, or None for the best it can run.
    Raises TrustError (AOTC-E318, E322), IntegrityError if the weights are not the signed ones.
    """
    contents, policy = accepted._contents, accepted.signed.parsed.policy
    manifests = contents.manifests
    if policy.engines is not None or policy.accepts != Accepts():
        manifests, findings = _rules().accepted_targets(manifests, facts, policy, target)
        _refuse(accepted, findings)
    certificates = certificates_of(accepted.signed)
    choice = choose_target(manifests, facts, target, contents.absent, certificates)
    return Evaluated(accepted, choice)


class VerifiedBlob(Struct, frozen=True):
    """Bytes whose digest and size are the signed ones.

    Engines require this type, so that unverified bytes cannot reach one. `data` is a read-only
    view, mapped.
    """

    digest: str
    data: memoryview


class VerifiedBundle(Struct, frozen=True):
    """A bundle that this policy trusts and this host can run; every blob of its target was hashed.

    `root_digest` is the signed digest and `signers` are ids of the trusted keys that signed it.
    `manifest` is the chosen target's, `choice` says why. `blobs` are by digest.
    """

    root_digest: str
    signers: tuple[str, ...]
    manifest: BundleManifest
    blobs: Mapping[str, VerifiedBlob]
    choice: Choice

    def blob(self, ref: BlobRef) -> VerifiedBlob:
        """Return the verified bytes behind a reference of the manifest."""
        return self.blobs[ref.digest]


class Compatible(Struct, frozen=True):
    """A bundle that the policy accepts and this host can run, its weights still being hashed.

    `manifest` is the chosen target's; `executables`, by digest, were hashed before the weights.
    """

    _evaluated: Evaluated
    manifest: BundleManifest
    executables: Mapping[str, VerifiedBlob]

    def finish(self) -> VerifiedBundle:
        """Finish verification step 6: return the bundle once every blob is hashed.

        Raises IntegrityError (AOTC-E201).
        """
        evaluated, signed = self._evaluated, self._evaluated.accepted.signed
        blobs = _proofs(evaluated.accepted.finish(), bundle_contents.references(self.manifest))
        return VerifiedBundle(
            signed.parsed.root_digest, signed.signers, self.manifest, blobs, evaluated.choice
        )


def require(evaluated: Evaluated) -> Compatible:
    """Return a bundle that fits this host: verification steps 8 to 10.

    Refusals are raised once the weights are hashed.
    """
    _refuse(evaluated.accepted, evaluated.choice.findings)
    manifest = evaluated.manifest
    assert manifest is not None, "a target that is not there is among the findings"
    executables = (
        profile.executable.digest
        for entry_point in manifest.entry_points.values()
        for profile in entry_point.profiles
    )
    return Compatible(evaluated, manifest, _proofs(evaluated.accepted._contents, executables))


def require_compatible(
    accepted: Accepted, facts: HostFacts, target: str | None = None
) -> Compatible:
    """Return a bundle on the host with these facts: the end of verification step 7, and 8 to 10.

    `target` is one of the bundle's, or None for the best that the host can run.
    Raises IntegrityError, TrustError, IncompatibleRuntimeError, IncompatibleHostError,
    ResourceError.
    """
    return require(evaluate(accepted, facts, target))


def _proofs(contents: bundle_contents.Contents, digests: Iterable[str]) -> dict[str, VerifiedBlob]:
    """Return blobs that were hashed, by digest."""
    return {digest: VerifiedBlob(digest, contents.blobs[digest]) for digest in digests}


def _refuse(unpacked: Unpacked, findings: Iterable[Finding]) -> None:
    """Raise what was found, if anything, after errors in the weights.

    A bundle that is not the signed one has no findings about rules or hosts.
    """
    try:
        raise_if(findings)
    except AotcError:
        unpacked.finish()
        raise


def certificates_of(signed: Signed) -> AskCertificates | None:
    """Return a function for verification step 8: it asks certificates about a release.

    None if the policy names no certifiers. Nothing is read or imported before it is called.
    """
    root, policy, where = signed.parsed.root_digest, signed.parsed.policy, signed.parsed.source.name

    def ask(manifest: BundleManifest, release: Release) -> Ruling:
        from aotc_runtime.verification.certificate_rules import ruling

        return ruling(manifest, release, signed.envelopes, root, policy, where, signed.now)

    return ask if policy.certifiers else None


def check_policy(signed: Signed, contents: bundle_contents.Contents) -> Iterator[Finding]:
    """Verification step 7: everything that the policy refuses in the signed content."""
    policy, where = signed.parsed.policy, signed.parsed.source.name
    manifests = contents.manifests.values()
    manifest = next(iter(manifests))
    if manifest.name != policy.name or policy.minimum_version:
        yield from _rules().check_identity(manifest, policy)
    if policy.revoked.blobs:
        roles = _rules().roles_by_digest(
            contents.root_digest, contents.targets, contents.manifests, signed.envelopes.blobs
        )
        yield from _rules().check_revoked_blobs(roles, policy)
    if policy.asks_about_builds():
        from aotc_runtime.verification import provenance_rules

        yield from provenance_rules.check_builds(signed.provenance, policy, where, signed.now)
    entry_points = (each for manifest in manifests for each in manifest.entry_points.values())
    if any(entry_point.out_of_profile for entry_point in entry_points):
        yield from _rules().check_fallbacks(manifests, policy)
    if policy.numerics is not None or policy.metrics or policy.precisions is not None:
        yield from _rules().check_numerics(manifests, policy)
        yield from _rules().check_metrics(manifests, policy.metrics)
        yield from _rules().check_precisions(manifests, policy.precisions)
