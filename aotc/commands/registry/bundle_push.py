"""Pushes a bundle to a repository: existing blobs are not sent, and the tag is written last.

So a reader of the tag finds the signatures as well.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from aotc.base.errors import refusal
from aotc.bundle.read.opened_bundle import Opened, open_valid
from aotc.bundle.write.hashed_weights import unmodified
from aotc.bundle.write.oci_descriptors import attestation_name, entry_descriptor, version_name
from aotc_runtime.base import canonical_json, limits
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import RegistryError
from aotc_runtime.formats import oci_layout, oci_referrers
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.formats.oci_layout import AttestationManifest, Descriptor, ImageManifest
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.read_progress import BytesProgress, OnBytes
from aotc_runtime.verification.bundle_contents import read_root
from aotc_serve.oci.oci_references import Reference
from aotc_serve.oci.parallel_transfer import Counted, each, ignore_progress
from aotc_serve.oci.registry_blobs import CHUNK_BYTES, push_blob
from aotc_serve.oci.registry_client import Repository
from aotc_serve.oci.sigstore_bundles import Referrer, referrers_of

REFERRERS_TAG_TRIES = 8
"""Attempts to write a referrers tag, which another client may overwrite at the same time."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """A pushed bundle.

    `place` has the digest of the root; `tag` names it now. `parts` are the blobs and `sent` the
    bytes of those that were missing, by digest.
    """

    name: str
    version: str
    place: Reference
    tag: str
    targets: tuple[str, ...]
    attestations: int
    parts: Mapping[str, Descriptor]
    sent: Mapping[str, int]

    @property
    def size_bytes(self) -> int:
        """The size of all blobs."""
        return sum(part.size for part in self.parts.values())


def push(
    source: BlobSource,
    repository: Repository,
    policy: TrustPolicy | None,
    now: float,
    mounts: Sequence[str] = (),
    on_bytes: OnBytes = ignore_progress,
    chunk_bytes: int = CHUNK_BYTES,
) -> Pushed:
    """Push a bundle with its attestations, under the tag of its reference or its version.

    `policy`, if any, has to accept it at `now`; digests are checked in any case. `mounts` are other
    repositories of the registry whose blobs may be mounted.

    Raises:
        BundleFormatError, IntegrityError, TrustError, RegistryError: It cannot be pushed.
    """
    read = open_valid(source, policy, now)
    root, place, contents = read.root, repository.place, read.contents
    if place.digest and place.digest != read.root_digest:
        at, found, wanted = str(place), read.root_digest, place.digest
        raise refusal(
            "AOTC-E771", at, found, cause="digest-does-not-match-the-bundle", expected=wanted
        )
    tag = place.tag or version_name(contents.manifests)
    tagged = _digest_at(repository, tag)
    attached = [_attestation(source, entry.digest) for entry in root.attestations]
    images = {sha256(canonical_json.encode(image)): image for image in contents.targets.values()}
    parts = _parts((*images.values(), *attached))
    sent = _push_blobs(source, repository, parts, tuple(mounts), on_bytes, chunk_bytes)
    for digest, image in images.items():
        repository.put_manifest(digest, unmodified(source, digest), image.mediaType)
    root_data = unmodified(source, read.root_digest)
    _put_root(repository, read, root_data)
    attestations = [entry.digest for entry in root.attestations]
    _attach(repository, source, entry_descriptor(root.entry), attestations, tuple(mounts))
    if (found := _digest_at(repository, tag)) not in (tagged, read.root_digest):
        where, cause = f"{repository.where}:{tag}", "tag-moved-during-the-push"
        raise refusal("AOTC-E775", where, found or "no tag", cause=cause, expected=tagged or None)
    repository.put_manifest(tag, root_data, oci_layout.INDEX_TYPE)
    return Pushed(
        name=read.name,
        version=read.version,
        place=place.at(read.root_digest),
        tag=tag,
        targets=tuple(sorted(contents.manifests)),
        attestations=len(root.attestations),
        parts=parts,
        sent=sent,
    )


def _digest_at(repository: Repository, tag: str) -> str:
    """Return the digest of a tag; empty if it is missing, or names what is no OCI manifest."""
    try:
        stored = repository.manifest(tag, limits.INDEX_BYTES_MAX)
    except RegistryError as error:
        if error.code != "AOTC-E775":
            raise
        stored = None
    return "" if stored is None else stored.digest


def push_attestations(source: BlobSource, repository: Repository) -> None:
    """Push the attestations of a bundle whose targets are there; no tag of the bundle moves.

    Raises BundleFormatError, IntegrityError, RegistryError.
    """
    root = read_root(source)
    digests = [entry.digest for entry in root.attestations]
    attached = [_attestation(source, digest) for digest in digests]
    _push_blobs(source, repository, _parts(attached), (), ignore_progress, CHUNK_BYTES)
    _attach(repository, source, entry_descriptor(root.entry), digests)


def _parts(manifests: Iterable[ImageManifest | AttestationManifest]) -> dict[str, Descriptor]:
    return {part.digest: part for each_ in manifests for part in (each_.config, *each_.layers)}


def _attestation(source: BlobSource, digest: str) -> AttestationManifest:
    return canonical_json.decode_foreign(
        unmodified(source, digest), AttestationManifest, where=f"{source.name} {digest}"
    )


def _push_blobs(
    source: BlobSource,
    repository: Repository,
    parts: Mapping[str, Descriptor],
    mounts: tuple[str, ...],
    on_bytes: OnBytes,
    chunk_bytes: int,
) -> dict[str, int]:
    """Push missing blobs, the largest first, and return their sizes by digest."""
    tally = BytesProgress(sum(part.size for part in parts.values()), on_bytes)
    sent: dict[str, int] = {}
    lock = threading.Lock()

    def one(digest: str) -> None:
        size = parts[digest].size
        data = source.blob(digest)
        assert data is not None and len(data) == size, "every digest was checked"
        counted = Counted(tally, size)
        if push_blob(repository, digest, data, mounts, counted, chunk_bytes):
            with lock:
                sent[digest] = size
        counted.end()

    each(repository, sorted(parts, key=lambda digest: -parts[digest].size), one)
    return sent


def _put_root(repository: Repository, read: Opened, data: bytes) -> None:
    """Push the root by its digest, unless this copy lacks targets and it is there already."""
    absent = read.contents.absent
    if absent and repository.manifest(read.root_digest, limits.INDEX_BYTES_MAX) is not None:
        return
    try:
        repository.put_manifest(read.root_digest, data, oci_layout.INDEX_TYPE)
    except RegistryError as error:
        if not absent:
            raise
        where, cause = repository.where, "registry-lacks-the-other-targets"
        raise refusal("AOTC-E775", where, f"no {', '.join(absent)}", cause=cause) from error


def _attach(
    repository: Repository,
    source: BlobSource,
    root: Descriptor,
    attestations: Sequence[str],
    mounts: tuple[str, ...] = (),
) -> None:
    """Push attestations as OCI 1.1 referrers of the root, and in the index for older registries.

    That index alone keeps their order. Each has a tag of its own, for tools that know neither.
    """
    listed, has_api = [], True
    for digest in attestations:
        data = unmodified(source, digest)
        has_api &= repository.put_manifest(
            attestation_name(root.digest, digest), data, oci_layout.MANIFEST_TYPE
        )
        reference = oci_referrers.describe(data, oci_layout.MANIFEST_TYPE)
        kind = oci_layout.ATTESTATION_TYPE
        listed.append(msgspec.structs.replace(reference, artifactType=kind))
    for digest in attestations:
        (layer,) = _attestation(source, digest).layers
        for made in referrers_of(unmodified(source, layer.digest), root):
            listed.append(_push_sigstore(repository, made, mounts))
    if listed:
        entries = [msgspec.to_builtins(each_) for each_ in listed]
        _update_referrers_tag(repository, root.digest, entries, has_api=has_api)


def _push_sigstore(repository: Repository, made: Referrer, mounts: tuple[str, ...]) -> Descriptor:
    """Push a Sigstore bundle, which cosign and cluster policies look for."""
    for blob in (made.bundle, oci_layout.EMPTY_BLOB):
        push_blob(repository, sha256(blob), memoryview(blob), mounts)
    repository.put_manifest(made.listed.digest, made.manifest, oci_layout.MANIFEST_TYPE)
    return made.listed


def _update_referrers_tag(
    repository: Repository, root: str, ours: Sequence[dict[str, object]], *, has_api: bool
) -> None:
    """Update the index of a root's referrers for registries without that API.

    It is read, added to, written, and read again, since others may do the same.
    https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md#referrers-tag-schema
    """
    tag = root.replace(":", "-")
    where, cause = f"{repository.where}:{tag}", "registry-response-is-invalid"
    digests = [each["digest"] for each in ours]
    for number in range(REFERRERS_TAG_TRIES):
        stored = repository.manifest(tag, limits.INDEX_BYTES_MAX)
        there: list[dict[str, object]] = []
        if stored is not None and stored.digest == root:
            # Some registries answer a tag of this form with the manifest of the digest.
            if number and has_api:
                return
            if number:
                found = "the bundle's own index under the referrers tag"
                expected = "the referrers API, or a separate referrers tag"
                hint = "push to a registry that has either"
                raise refusal("AOTC-E775", where, found, cause=cause, expected=expected, hint=hint)
        elif stored is not None:
            try:
                there = canonical_json.decoder(_Listed).decode(stored.data).manifests or []
            except (ValueError, RecursionError) as error:
                raise refusal("AOTC-E775", where, "no OCI index", cause=cause) from error
        if [d for each in there if (d := each.get("digest")) in digests] == digests:
            return
        listed = [*ours, *(each for each in there if each.get("digest") not in digests)]
        index = {"schemaVersion": 2, "mediaType": oci_layout.INDEX_TYPE, "manifests": listed}
        repository.put_manifest(tag, canonical_json.encode(index), oci_layout.INDEX_TYPE)
    found = f"{REFERRERS_TAG_TRIES} attempts overwritten"
    raise refusal("AOTC-E775", where, found, cause="concurrent-push-to-the-repository")


class _Listed(msgspec.Struct):
    """An index, whatever its entries hold."""

    manifests: list[dict[str, object]] | None
