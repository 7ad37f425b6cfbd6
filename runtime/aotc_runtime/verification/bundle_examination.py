"""Examine a bundle for reports.

The stages are those of verification; contents are also read from bundles that are not trusted.
"""

from collections.abc import Collection, Mapping

from msgspec import Struct

from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification import bundle_contents, verify_bundle
from aotc_runtime.verification.bundle_contents import Contents, Envelopes, Root
from aotc_runtime.verification.host_compatibility import Choice

BUT_WEIGHTS = "digests but of weights"
"""In place of the gate `digests`, where weights were left elsewhere."""


def verify(
    source: BlobSource, policy: TrustPolicy, facts: HostFacts, now: float, target: str | None = None
) -> verify_bundle.VerifiedBundle:
    """Run all stages of the verification without a pause between them.

    Raises what `accept_bundle`, `require_compatible` and `Compatible.finish` raise.
    """
    with verify_bundle.accept_bundle(source, policy, now) as accepted:
        return verify_bundle.require_compatible(accepted, facts, target).finish()


class Verdict(Struct, frozen=True):
    """The result of `examine`.

    Attributes:
        gates: names of those that passed; all of them, without findings, if the bundle may be
            loaded.
        choice: of the target, once it was made.
        manifest: of the target, if it is present.
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
    unread: Mapping[str, int] = bundle_contents.ALL_READ,
) -> Verdict:
    """Examine a bundle gate by gate, on the host with these facts.

    `now` is the time of checking, in seconds since the epoch. `target` is one of the bundle's, or
    None for the best that the host can run. `unread` has sizes by digest of weights that are not
    stored: whatever the result is, it does not say that they are the signed ones.
    """
    gates: list[str] = []
    root_digest = ""
    signers: tuple[str, ...] = ()
    try:
        parsed = verify_bundle.parse(source, policy, unread)
        root_digest = parsed.root_digest
        gates.append("framing")
        attested = verify_bundle.collect(parsed)
        gates.append("attestations")
        signed = verify_bundle.authenticate(attested, now)
        signers = signed.signers
        gates.append("signatures")
        with verify_bundle.unpack(signed) as unpacked:
            unpacked.finish()
            if unread:
                gates.append(BUT_WEIGHTS)
            else:
                gates.append("digests")
            evaluated = verify_bundle.evaluate(verify_bundle.accept(unpacked), facts, target)
            gates.append("policy")
    except AotcError as error:
        return Verdict(root_digest, signers, None, None, tuple(gates), error.findings)
    choice = evaluated.choice
    if not choice.findings:
        gates.append("host")
    return Verdict(root_digest, signers, choice, evaluated.manifest, tuple(gates), choice.findings)


def read_unverified(
    source: BlobSource, unread: Collection[str] = bundle_contents.ALL_READ
) -> tuple[Contents, Envelopes]:
    """Return a bundle's contents and envelopes; digests are checked, signatures are not.

    For `aotc inspect`; the result cannot be loaded. Raises BundleFormatError, IntegrityError.
    """
    _, envelopes, contents = read_whole(source, unread)
    return contents, envelopes


def read_whole(
    source: BlobSource, unread: Collection[str] = bundle_contents.ALL_READ
) -> tuple[Root, Envelopes, Contents]:
    """Return the root that index.json names, its envelopes and contents, from one reading.

    An index that is written into may differ the next time. Weights in `unread` are not hashed.
    """
    root = bundle_contents.read_root(source)
    envelopes = bundle_contents.read_envelopes(source, root)
    contents, weights = bundle_contents.begin_contents(source, root, envelopes.blobs, unread)
    weights.finish()
    return root, envelopes, contents
