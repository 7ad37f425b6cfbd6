"""What people are told of a bundle: how far it gets in verification, by the same stages, and what
it contains where nobody vouches for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.bundle_contents import (
    ALL_READ,
    Contents,
    Envelopes,
    Root,
    begin_contents,
    read_envelopes,
    read_root,
)
from aotc_runtime.verification.host_compatibility import Choice
from aotc_runtime.verification.verify_bundle import (
    VerifiedBundle,
    accept,
    accept_bundle,
    authenticate,
    collect,
    evaluate,
    parse,
    require_compatible,
    unpack,
)

BUT_WEIGHTS = "digests but of weights"
"""In place of the gate `digests`, where weights were left elsewhere."""


def verify(
    source: BlobSource,
    policy: TrustPolicy,
    facts: HostFacts,
    now: float,
    target: str | None = None,
) -> VerifiedBundle:
    """All stages in one, for whoever has nothing to do meanwhile.

    Raises what `accept_bundle`, `require_compatible` and `Compatible.finish` raise.
    """
    with accept_bundle(source, policy, now) as accepted:
        return require_compatible(accepted, facts, target).finish()


class Verdict(Struct, frozen=True):
    """What `examine` found. gates: those that opened, by name; all of them for a bundle that may be
    loaded, which has no findings.  choice: of the target, once it was made.  manifest: of the
    target, if it is there.
    """

    root_digest: str
    signers: tuple[str, ...]
    choice: Choice | None
    manifest: BundleManifest | None
    gates: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def target(self) -> str:
        """The name of the target that was chosen; empty if none was."""
        return self.choice.target if self.choice else ""


def examine(
    source: BlobSource,
    policy: TrustPolicy,
    facts: HostFacts,
    now: float,
    target: str | None = None,
    unread: Mapping[str, int] = ALL_READ,
) -> Verdict:
    """How far a bundle gets, gate by gate, on the host with these facts, and what stops it.

    now: the time of checking, seconds since the epoch.  target: one of the bundle's, or None for
    the best that the host can run.  unread: sizes by digest of weights that are not there: whatever
    the verdict is, it does not say that they are the signed ones.
    """
    gates: list[str] = []
    root_digest = ""
    signers: tuple[str, ...] = ()
    try:
        parsed = parse(source, policy, unread)
        root_digest = parsed.root_digest
        gates.append("framing")
        attested = collect(parsed)
        gates.append("attestations")
        signed = authenticate(attested, now)
        signers = signed.signers
        gates.append("signatures")
        with unpack(signed) as unpacked:
            unpacked.finish()
            if unread:
                gates.append(BUT_WEIGHTS)
            else:
                gates.append("digests")
            evaluated = evaluate(accept(unpacked), facts, target)
            gates.append("policy")
    except AotcError as error:
        return Verdict(root_digest, signers, None, None, tuple(gates), error.findings)
    choice = evaluated.choice
    if not choice.findings:
        gates.append("host")
    return Verdict(root_digest, signers, choice, evaluated.manifest, tuple(gates), choice.findings)


def read_contents(
    source: BlobSource, root: Root, attested: Collection[str], unread: Collection[str] = ALL_READ
) -> Contents:
    """Everything below the root, of which every blob is the one that was signed, weights included
    but for those that are left unread. Raises what `begin_contents` raises, and IntegrityError
    (AOTC-E201) for weights.
    """
    contents, weights = begin_contents(source, root, attested, unread)
    weights.finish()
    return contents


def read_unverified(
    source: BlobSource, unread: Collection[str] = ALL_READ
) -> tuple[Contents, Envelopes]:
    """What a bundle contains and its envelopes, digests checked, signatures not.

    For `aotc inspect`; the result cannot be loaded. Raises BundleFormatError, IntegrityError.
    """
    _, envelopes, contents = read_whole(source, unread)
    return contents, envelopes


def read_whole(
    source: BlobSource, unread: Collection[str] = ALL_READ
) -> tuple[Root, Envelopes, Contents]:
    """What index.json names, and what `read_unverified` gives: of one reading, since an index that
    somebody writes into may say something else the next time.
    """
    root = read_root(source)
    envelopes = read_envelopes(source, root)
    return root, envelopes, read_contents(source, root, envelopes.blobs, unread)
