"""The verification workflow, step by step as docs/trust.md numbers it.

Gates stop: nothing behind a gate is parsed before it opens. Checks collect: every mismatch with the
host is reported at once. This file alone makes `VerifiedBlob` and `VerifiedBundle`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec import UNSET, Struct
from msgspec.structs import replace

from aotc_runtime.errors import AotcError, Finding, raise_if
from aotc_runtime.formats.oci import BlobSource
from aotc_runtime.schema.choice import Choice, Ruling
from aotc_runtime.schema.facts import Accelerator, HostFacts
from aotc_runtime.schema.manifest import BundleManifest
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.schema.proof import VerifiedBlob, VerifiedBundle
from aotc_runtime.verification import rules, signatures
from aotc_runtime.verification.choosing import (
    AskCertificates,
    choose_target,
    wanted_devices,
)
from aotc_runtime.verification.contents import (
    Contents,
    begin_contents,
    read_envelopes,
    read_root,
    references,
)

type Host = HostFacts | Callable[[int], HostFacts]
type Accelerators = Callable[[str], Accelerator | None]
type Meanwhile = Callable[[BundleManifest, Mapping[str, VerifiedBlob]], None]


class Verdict(Struct, frozen=True):
    """The answer of `examine`: findings, or a bundle.

    choice: of the target, once it was made.  gates: those that opened, by name.
    """

    root_digest: str
    signers: tuple[str, ...]
    choice: Choice | None
    manifest: BundleManifest | None
    gates: tuple[str, ...]
    findings: tuple[Finding, ...]
    bundle: VerifiedBundle | None

    @property
    def target(self) -> str:
        """The name of the target that was chosen; empty if none was."""
        return self.choice.target if self.choice else ""


def _no_accelerator(_: str) -> Accelerator | None:
    """The default for `accelerators`: none are known."""
    return None


def _nothing(_: BundleManifest, __: Mapping[str, VerifiedBlob]) -> None:
    """The default for `meanwhile`: do nothing."""


def examine(
    source: BlobSource,
    policy: TrustPolicy,
    host: Host,
    *,
    target: str | None = None,
    now: float | None = None,
    meanwhile: Meanwhile = _nothing,
    accelerators: Accelerators = _no_accelerator,
) -> Verdict:
    """Everything that can be said about a bundle on this host, without loading it.

    host: its facts; or a function that finds them out, called only once the bundle is trusted, with
    the number of devices into which the bundle wants the processor divided. target: one of the
    bundle's, or None for the best this host can run.  now: the time of checking, seconds since the
    epoch, or None for this host's clock, which is then read once.  meanwhile: given the manifest of
    the chosen target and its executables, by digest, while the weights are still being hashed;
    everything but the weights is verified by then.  accelerators: finds out which devices of a
    platform the host has; asked only for platforms that the bundle has targets for and that the
    facts do not mention.
    """
    now = time.time() if now is None else now
    gates: list[str] = []
    root_digest = ""
    signers: tuple[str, ...] = ()
    try:
        root = read_root(source)  # docs/trust.md 1
        raise_if(rules.check_limits(source, policy))
        root_digest = root.entry.digest
        gates.append("framing")
        raise_if(rules.check_revoked_root(root_digest, policy, source.name))  # 2
        envelopes = read_envelopes(source, root)
        attested = envelopes.blobs
        gates.append("attestations")
        vouchers = signatures.vouchers_for(envelopes, root_digest, policy, source.name, now)  # 3, 4
        signers = signatures.signers_of(vouchers)
        gates.append("signatures")
        contents, weights = begin_contents(source, root, attested)  # 5, 6
        try:
            refused = [*check_policy(contents, attested, vouchers, policy, source.name)]  # 7
            if not refused:
                facts = (
                    host
                    if isinstance(host, HostFacts)
                    else host(wanted_devices(contents.manifests, target))
                )
                facts = _with_accelerators(facts, contents.manifests, target, accelerators)
                refused = [*rules.check_runtime(facts, policy)]
            if not refused:
                certificates = _certificates(envelopes, root_digest, policy, source.name, now)
                choice = choose_target(  # 8 to 10
                    contents.manifests, facts, target, contents.absent, certificates
                )
                manifest = contents.manifests.get(choice.target)
                if not choice.findings and manifest is not None:
                    meanwhile(manifest, _executables(manifest, contents))
            weights.finish()  # the end of 6
        finally:
            weights.stop()
        gates.append("digests")
        raise_if(refused)
        gates.append("policy")
    except AotcError as error:
        return Verdict(root_digest, signers, None, None, tuple(gates), error.findings, None)
    bundle = None
    if not choice.findings and manifest is not None:
        blobs = {
            digest: VerifiedBlob(digest, contents.blobs[digest]) for digest in references(manifest)
        }
        bundle = VerifiedBundle(root_digest, signers, manifest, blobs, choice)
        gates.append("host")
    return Verdict(root_digest, signers, choice, manifest, tuple(gates), choice.findings, bundle)


def _with_accelerators(
    facts: HostFacts,
    manifests: Mapping[str, BundleManifest],
    wanted: str | None,
    ask: Accelerators,
) -> HostFacts:
    """The facts, with accelerators of the platforms that the bundle (or the wanted target)
    is for.
    """
    platforms = {
        manifest.requires.platform
        for name, manifest in manifests.items()
        if manifest.requires.device is not UNSET and wanted in (None, name)
    }
    missing = sorted(platforms - {each.platform for each in facts.accelerators})
    found = [each for each in map(ask, missing) if each is not None]
    if not found:
        return facts
    return replace(facts, accelerators=(*facts.accelerators, *found))


def _certificates(
    envelopes: Iterable[bytes], root_digest: str, policy: TrustPolicy, where: str, now: float
) -> AskCertificates | None:
    """docs/trust.md 8: a function that asks certificates about a jaxlib, if the policy names
    certifiers. Nothing is read or imported before it is called.
    """
    if not policy.certifiers:
        return None

    def ask(manifest: BundleManifest, jaxlib: str) -> Ruling:
        from aotc_runtime.verification import certificates

        return certificates.ruling(manifest, jaxlib, envelopes, root_digest, policy, where, now)

    return ask


def _executables(manifest: BundleManifest, contents: Contents) -> dict[str, VerifiedBlob]:
    """The executables of a target, by digest; hashed before the weights are."""
    return {
        profile.executable.digest: VerifiedBlob(
            profile.executable.digest, contents.blobs[profile.executable.digest]
        )
        for entry_point in manifest.entry_points.values()
        for profile in entry_point.profiles
    }


def check_policy(
    contents: Contents,
    attested: Collection[str],
    vouchers: tuple[signatures.Voucher, ...],
    policy: TrustPolicy,
    where: str,
) -> Iterator[Finding]:
    """docs/trust.md 7: everything that the policy refuses in the signed content."""
    manifests = contents.manifests.values()
    yield from rules.check_identity(next(iter(manifests)), policy)
    # Imported here, because most policies do not need it.
    if policy.revoked.blobs:
        from aotc_runtime.verification.roles import roles_by_digest

        roles = roles_by_digest(
            contents.root_digest, contents.targets, contents.manifests, attested
        )
        yield from rules.check_revoked_blobs(roles, policy)
    if policy.asks_about_builds():
        from aotc_runtime.verification import provenance

        yield from provenance.check_builds(vouchers, policy, where)
    yield from rules.check_fallbacks(manifests, policy)


def verify(
    source: BlobSource,
    policy: TrustPolicy,
    host: Host,
    *,
    target: str | None = None,
    now: float | None = None,
    meanwhile: Meanwhile = _nothing,
    accelerators: Accelerators = _no_accelerator,
) -> VerifiedBundle:
    """As `examine`, but raises everything that was found.

    Raises BundleFormatError, IntegrityError, TrustError, IncompatibleRuntimeError,
    IncompatibleHostError, ResourceError.
    """
    verdict = examine(
        source,
        policy,
        host,
        target=target,
        now=now,
        meanwhile=meanwhile,
        accelerators=accelerators,
    )
    raise_if(verdict.findings)
    assert verdict.bundle is not None, "no findings, so there is a bundle"
    return verdict.bundle
