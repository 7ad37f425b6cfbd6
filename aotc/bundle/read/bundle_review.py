"""Everything that a reviewer needs of a bundle: targets, inputs, signatures and evidence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from aotc.base.errors import refusal
from aotc.base.evidence import EntryPointEvidence, Evidence, ProfileEvidence
from aotc.base.source_locations import EntryPointLines, read_locations
from aotc.bundle.read.opened_bundle import Opened, open_valid
from aotc_runtime.base import canonical_json
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.formats.in_toto import PROVENANCE_TYPE, Statement, open_envelope
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.manifest_labels import label, sizes_text
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.bundle_contents import ALL_READ, Contents
from aotc_runtime.verification.policy_reader import policy_keys
from aotc_runtime.verification.policy_rules import roles_by_digest
from aotc_runtime.verification.public_keys import PublicKey, Trials
from aotc_runtime.verification.root_signatures import match_signatures


@dataclass(frozen=True, slots=True)
class Claim:
    """An attestation of a bundle.

    `key_ids` are the claimed signers, and `counts` those of the policy's valid keys that did sign;
    empty without a policy. `stated` is the predicate as JSON, decoded only while it is read, since
    values take many times its bytes.
    """

    key_ids: tuple[str, ...]
    counts: tuple[str, ...]
    predicate_type: str
    stated: bytes

    @property
    def predicate(self) -> Any:
        """Return what the statement says, such as SLSA provenance."""
        return msgspec.json.decode(self.stated)


@dataclass(frozen=True, slots=True)
class ReviewedExecutable:
    """One executable, with its target's mesh; `evidence` is None for a build without evidence."""

    target: str
    mesh: bundle_manifest.Mesh | UnsetType
    entry_point: str
    description: bundle_manifest.EntryPoint
    record: bundle_manifest.ProfileRecord
    evidence: ProfileEvidence | None

    @property
    def label(self) -> str:
        """predict[batch=8]."""
        return label(self.entry_point, self.record.sizes)


@dataclass(frozen=True, slots=True)
class ReviewedTarget:
    """One target; `evidence` is None if the build left none."""

    manifest: bundle_manifest.BundleManifest
    evidence: Evidence | None

    @property
    def entry_points(self) -> Mapping[str, EntryPointEvidence]:
        """The evidence of each entry point; empty if the build left none."""
        return self.evidence.entry_points if self.evidence else {}

    def executables(self) -> Iterator[ReviewedExecutable]:
        """Yield all of them, in the manifest's order."""
        for name, entry_point in self.manifest.entry_points.items():
            known = self.entry_points.get(name)
            for index, record in enumerate(entry_point.profiles):
                evidence, manifest = known.profiles[index] if known else None, self.manifest
                yield ReviewedExecutable(
                    manifest.target.name, manifest.mesh, name, entry_point, record, evidence
                )


@dataclass(frozen=True, slots=True)
class Review(Opened):
    """A bundle under review.

    `claims` are from its attestations; `targets` are by name; `absent` has targets that this copy
    lacks. `blobs` maps digests to roles, and `sizes` media types to bytes.
    """

    claims: tuple[Claim, ...]
    targets: Mapping[str, ReviewedTarget]
    absent: tuple[str, ...]
    blobs: Mapping[str, str]
    sizes: Mapping[str, int]

    def lines(self) -> dict[str, EntryPointLines]:
        """Return the source lines of the evidence, by entry point, from the first provenance.

        For a verified bundle, only provenance that a counted key signed is used.
        """
        found: dict[str, EntryPointLines] = {}
        for claim in self.claims:
            if claim.predicate_type == PROVENANCE_TYPE and (claim.counts or not self.verified):
                found = read_locations(msgspec.Raw(claim.stated)) | found
        return found

    def executables(self) -> Iterator[ReviewedExecutable]:
        """Yield the executables of all targets."""
        for target in self.targets.values():
            yield from target.executables()


def review(
    source: BlobSource,
    policy: TrustPolicy | None,
    now: datetime,
    unread: Mapping[str, int] = ALL_READ,
) -> Review:
    """Read a bundle for review; nothing of it is loaded.

    `policy` must accept the bundle at this time, except for its rules on the host; None checks
    digests and no signatures. `unread` is as in `opened`. Raises BundleFormatError (AOTC-E118 for
    evidence of other executables), IntegrityError, TrustError.
    """
    keys = policy_keys(policy) if policy else {}
    found = open_valid(source, policy, now.timestamp(), unread)
    contents, trials = found.contents, Trials()
    sizes: dict[str, int] = {}
    for layer in {d.digest: d for i in contents.targets.values() for d in i.layers}.values():
        sizes[layer.mediaType] = sizes.get(layer.mediaType, 0) + layer.size
    return Review(
        **{field.name: getattr(found, field.name) for field in fields(found)},
        claims=tuple(_claim(envelope, keys, trials, now) for envelope in found.envelopes),
        targets={
            name: ReviewedTarget(manifest, _evidence_of(manifest, contents))
            for name, manifest in contents.manifests.items()
        },
        absent=contents.absent,
        blobs=roles_by_digest(contents.root_digest, contents.targets, contents.manifests, ()),
        sizes=dict(sorted(sizes.items())),
    )


def _evidence_of(manifest: bundle_manifest.BundleManifest, contents: Contents) -> Evidence | None:
    """Return the evidence of one target, if its build left any.

    Raises BundleFormatError: AOTC-E101, E102; E118 if it is of other executables.
    """
    if manifest.evidence is UNSET:
        return None
    where = f"evidence of {manifest.target.name}"
    evidence = canonical_json.decode(
        contents.blobs[manifest.evidence.digest], Evidence, where=where
    )
    recorded, known = (
        {name: [profile.sizes for profile in each.profiles] for name, each in stated.items()}
        for stated in (evidence.entry_points, manifest.entry_points)
    )
    if recorded != known:
        expected = "the entry points and profiles of the bundle manifest"
        raise refusal("AOTC-E118", where, "others", expected=expected)
    return evidence


def _claim(data: bytes, keys: Mapping[str, PublicKey], trials: Trials, now: datetime) -> Claim:
    signed = open_envelope(data, "attestation")
    statement = decode_foreign(signed.payload, Statement, where="attestation")
    makers = {maker.id for _, maker in match_signatures(signed, keys, trials) if maker}
    return Claim(
        key_ids=tuple(key_id for key_id, _ in signed.signatures),
        counts=tuple(
            id for id, key in keys.items() if id in makers and key.state(now.timestamp()) == "valid"
        ),
        predicate_type=statement.predicateType,
        stated=bytes(statement.predicate),
    )


def chosen(
    review: Review, entry_point: str | None, sizes: Mapping[str, int] | None, target: str | None
) -> list[ReviewedExecutable]:
    """Return the executables of an entry point that are named. Raises UsageError (AOTC-E055).

    Args:
        review: The bundle.
        entry_point: Its name; None for all.
        sizes: Of the profiles, as far as needed to tell them from others; None for all.
        target: Their target; None for all.
    """
    names = sorted({executable.entry_point for executable in review.executables()})
    if entry_point not in (None, *names):
        expected = f"one of: {', '.join(names)}"
        raise refusal("AOTC-E055", review.bundle, str(entry_point), expected=expected)
    if target is not None and target not in review.targets:
        cause, expected = "target-not-found-in-the-bundle", f"one of: {', '.join(review.targets)}"
        raise refusal("AOTC-E055", "--target", target, cause=cause, expected=expected)
    every = [e for e in review.executables() if entry_point in (None, e.entry_point)]
    found = [
        executable
        for executable in every
        if target in (None, executable.target)
        and (sizes or {}).items() <= executable.record.sizes.items()
    ]
    if not found:
        profiles = dict.fromkeys(sizes_text(e.record.sizes) for e in every)
        if "" in profiles:
            raise refusal("AOTC-E055", "--profile", "", cause="entry-point-has-no-sizes")
        cause, expected = "profile-not-found", f"one of: {', '.join(profiles)}"
        wanted = sizes_text(sizes or {})
        raise refusal("AOTC-E055", "--profile", wanted, cause=cause, expected=expected)
    return found


KINDS = {
    oci_layout.WEIGHTS_TYPE: "weights",
    oci_layout.MODULE_TYPE: "modules",
    oci_layout.EXECUTABLE_TYPE: "executables",
    oci_layout.FIXTURE_TYPE: "fixtures",
    oci_layout.EVIDENCE_TYPE: "evidence",
    oci_layout.ASSET_TYPE: "assets",
}
"""Media types of blobs in words."""
