"""A bundle that a command looks into: read once, and only as far as the command relies on it."""

from collections.abc import Mapping
from dataclasses import dataclass

from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.bundle_contents import ALL_READ, Contents, Envelopes, Root
from aotc_runtime.verification.bundle_examination import read_whole
from aotc_runtime.verification.root_signatures import AcceptedProvenance, signers_of
from aotc_runtime.verification.verify_bundle import Unpacked, accept, attribute, unpack


@dataclass(frozen=True, slots=True)
class Opened:
    """A bundle whose digests were all checked, and of which nothing is loaded.

    Attributes:
        bundle: The bundle, as messages name it.
        root: The root that index.json named when it was read.
        verified: Whether a trust policy was evaluated, and accepts the bundle.
        provenance: The provenance for which the policy accepts it; empty without a policy.
        contents: The targets' manifests and all blobs.
        envelopes: All attestations, whichever key signed them.
        unread: Sizes by digest of weights that are stored elsewhere, with unchecked digests.
    """

    bundle: str
    root: Root
    verified: bool
    provenance: tuple[AcceptedProvenance, ...]
    contents: Contents
    envelopes: Envelopes
    unread: Mapping[str, int]

    @property
    def name(self) -> str:
        """The name that all targets have."""
        return next(iter(self.contents.manifests.values())).name

    @property
    def version(self) -> str:
        """The version that all targets have."""
        return next(iter(self.contents.manifests.values())).version

    @property
    def root_digest(self) -> str:
        """Return what was signed."""
        return self.root.entry.digest

    @property
    def signers(self) -> tuple[str, ...]:
        """Ids of the keys that the policy counted."""
        return signers_of(self.provenance)


def open_valid(
    source: BlobSource, policy: TrustPolicy | None, now: float, unread: Mapping[str, int] = ALL_READ
) -> Opened:
    """Open a bundle that a policy accepts, except its rules on the host: verification steps 1 to 7.

    With `policy` None, digests are checked and no signatures. `now` is the time of the check,
    seconds since the epoch; `unread` has the sizes by digest of weights that are not there, and not
    checked. Raises BundleFormatError, IntegrityError, TrustError.
    """
    if policy is None:
        return _open_untrusted(source, unread)
    with accept(unpack(attribute(source, policy, now, unread))) as accepted:
        return _as_opened(accepted)


def open_attributed(
    source: BlobSource, policy: TrustPolicy | None, now: float, unread: Mapping[str, int] = ALL_READ
) -> Opened:
    """Open a bundle whose signatures a policy accepts: verification steps 1 to 6.

    The policy's other rules are not applied, so that a caller can apply them for other hosts. The
    arguments, BundleFormatError, IntegrityError and TrustError are those of `opened`.
    """
    if policy is None:
        return _open_untrusted(source, unread)
    with unpack(attribute(source, policy, now, unread)) as unpacked:
        return _as_opened(unpacked)


def _open_untrusted(source: BlobSource, unread: Mapping[str, int]) -> Opened:
    root, envelopes, contents = read_whole(source, unread)
    return Opened(source.name, root, False, (), contents, envelopes, unread)


def _as_opened(unpacked: Unpacked) -> Opened:
    contents, signed = unpacked.finish(), unpacked.signed
    source, root, unread = signed.parsed.source, signed.parsed.root, signed.parsed.unread
    return Opened(source.name, root, True, signed.provenance, contents, signed.envelopes, unread)
