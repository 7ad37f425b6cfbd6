"""Contents of a bundle, parsed strictly and hashed: verification steps 1, 2, 5 and 6.

Nothing here knows a policy: this says what is in a bundle, not whether to trust it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Struct

from aotc_runtime.base import canonical_json, limits
from aotc_runtime.base.canonical_json import decode_foreign, decoder
from aotc_runtime.base.digest import begin_hashing, copy_of, cores, sha256, sha256_each
from aotc_runtime.base.errors import Finding, finding, raise_if, refusal
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import Descriptor, Entry, ImageManifest, RootIndex
from aotc_runtime.schema.bundle_manifest import FORMAT_VERSION, BlobRef, BundleManifest
from aotc_runtime.schema.manifest_labels import label
from aotc_runtime.verification.manifest_consistency import check_consistency

if TYPE_CHECKING:
    from aotc_runtime.formats.blob_source import BlobSource

ALL_READ: Mapping[str, int] = {}
"""Nothing was left where it is."""


class Root(Struct, frozen=True):
    """The root and the attestations that index.json names."""

    entry: Entry
    attestations: tuple[Entry, ...]


class Contents(Struct, frozen=True):
    """Everything below a root: blobs with good digests, by digest, and the targets' manifests.

    `absent` has the root's names of targets that are not stored. Made without a policy, this says
    what a bundle contains, not whether to trust it.
    """

    root_digest: str
    manifests: Mapping[str, BundleManifest]
    blobs: Mapping[str, memoryview]
    targets: Mapping[str, ImageManifest]
    absent: tuple[str, ...]


def read_root(source: BlobSource) -> Root:
    """Verification step 1: the layout's own files, within limits.

    Raises BundleFormatError: AOTC-E110 a file is missing, E111 too large, E106 malformed,
    E112 another layout version, E113 not exactly one root, or an entry of unknown kind.
    """
    where = f"{source.name} {oci_layout.LAYOUT_FILE}"
    layout = _file(source, oci_layout.LAYOUT_FILE, oci_layout.Layout)
    if layout.imageLayoutVersion != oci_layout.LAYOUT_VERSION:
        found = layout.imageLayoutVersion
        raise refusal("AOTC-E112", where, found, expected=f"version {oci_layout.LAYOUT_VERSION}")
    where = f"{source.name} {oci_layout.INDEX_FILE}"
    index = _file(source, oci_layout.INDEX_FILE, oci_layout.Entries)
    # By media type alone: registries' tools drop an entry's other fields.
    roots = [entry for entry in index.manifests if entry.mediaType == oci_layout.INDEX_TYPE]
    attestations = [
        entry for entry in index.manifests if entry.mediaType == oci_layout.MANIFEST_TYPE
    ]
    if len(roots) != 1 or len(roots) + len(attestations) != len(index.manifests):
        kinds = ", ".join(entry.mediaType for entry in index.manifests) or "nothing"
        expected = f"one {oci_layout.INDEX_TYPE}, and attestations of {oci_layout.MANIFEST_TYPE}"
        raise refusal("AOTC-E113", where, kinds, expected=expected)
    if len(attestations) > limits.ATTESTATIONS_MAX:
        found, expected = f"{len(attestations)} attestations", f"at most {limits.ATTESTATIONS_MAX}"
        cause = "too-many-entries-in-a-document"
        raise refusal("AOTC-E111", where, found, cause=cause, expected=expected)
    if len({entry.digest for entry in index.manifests}) != len(index.manifests):
        raise refusal("AOTC-E113", where, "", cause="duplicate-index-entry")
    return Root(roots[0], tuple(attestations))


def _file[T](source: BlobSource, name: str, type_: type[T]) -> T:
    data, where = source.file(name), f"{source.name} {name}"
    if data is None:
        raise refusal("AOTC-E110", where, "")
    if len(data) > limits.INDEX_BYTES_MAX:
        expected = f"at most {limits.INDEX_BYTES_MAX} bytes"
        raise refusal("AOTC-E111", where, f"{len(data)} bytes", expected=expected)
    return decode_foreign(copy_of(data), type_, where=where, marks=limits.INDEX_MARKS_MAX)


def _stored_blob(source: BlobSource, ref: Descriptor | Entry | BlobRef, what: str) -> memoryview:
    """Return a blob of the declared size, whose digest is not checked yet."""
    data = source.blob(ref.digest)
    where = f"{source.name} {what}"
    if data is None:
        raise refusal("AOTC-E202", where, "", expected=ref.digest)
    if len(data) != ref.size:
        raise refusal("AOTC-E203", where, f"{len(data)} bytes", expected=f"{ref.size} bytes")
    return data


def _document(source: BlobSource, ref: Descriptor | Entry, what: str, limit: int) -> bytes:
    """Return a blob that will be parsed: copied, so that nothing can change it, then hashed.

    Raises IntegrityError: AOTC-E201 digest, E202 missing, E203 size; BundleFormatError: E111.
    """
    data = _stored_blob(source, ref, what)
    where = f"{source.name} {what}"
    if len(data) > limit:
        raise refusal("AOTC-E111", where, f"{len(data)} bytes", expected=f"at most {limit} bytes")
    copy = copy_of(data)
    if sha256(copy) != ref.digest:
        raise refusal("AOTC-E201", where, sha256(copy), expected=ref.digest)
    return copy


class Envelopes(Struct, frozen=True):
    """The DSSE envelopes attached to a root, as bytes.

    Envelopes are read one at a time, since together they may be large and are not verified yet;
    each is copied and hashed whenever it is read. `blobs` are the digests of everything that
    belongs to attestations.
    """

    source: BlobSource
    layers: tuple[Descriptor, ...]
    blobs: frozenset[str]

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[bytes]:
        for number, layer in enumerate(self.layers, start=1):
            yield _envelope(self.source, layer, f"attestation {number}")


def _envelope(source: BlobSource, layer: Descriptor, what: str) -> bytes:
    return _document(source, layer, f"{what} envelope", limits.ENVELOPE_BYTES_MAX)


def read_envelopes(source: BlobSource, root: Root) -> Envelopes:
    """Verification step 2: the DSSE envelopes attached to the root; each has been read once.

    Raises IntegrityError and BundleFormatError: AOTC-E111 all together are too large, E114 not an
    attestation of this root, or the envelope of another one.
    """
    layers: dict[str, Descriptor] = {}
    reached: set[str] = set()
    total = 0
    for number, reference in enumerate(root.attestations, start=1):
        what = f"attestation {number}"
        where = f"{source.name} {what}"
        data = _document(source, reference, what, limits.ATTESTATION_BYTES_MAX)
        manifest = decode_foreign(
            data, oci_layout.AttestationManifest, where=where, marks=limits.ATTESTATION_MARKS_MAX
        )
        subject = manifest.subject.digest if manifest.subject else "nothing"
        if subject != root.entry.digest or len(manifest.layers) != 1:
            expected = f"1 envelope for {root.entry.digest}"
            found = f"{len(manifest.layers)} for {subject}"
            raise refusal("AOTC-E114", where, found, expected=expected)
        _document(source, manifest.config, f"{what} config", len(oci_layout.EMPTY_BLOB))
        layer = manifest.layers[0]
        if layer.digest in layers:
            raise refusal("AOTC-E114", where, "", cause="duplicate-attestation")
        total += len(data) + len(_envelope(source, layer, what))
        if total > limits.ATTESTATIONS_BYTES_MAX:
            expected = f"at most {limits.ATTESTATIONS_BYTES_MAX} bytes of attestations"
            raise refusal("AOTC-E111", where, f"{total} bytes", expected=expected)
        layers[layer.digest] = layer
        reached |= {reference.digest, manifest.config.digest, layer.digest}
    return Envelopes(source, tuple(layers.values()), frozenset(reached))


class WeightsHashing:
    """The second half of verification step 6: weights that are hashed in the background."""

    def __init__(self, source: BlobSource, weights: Mapping[str, memoryview]) -> None:
        self._where = source.name
        self._digests = tuple(weights)
        self._hashing = begin_hashing(tuple(weights.values()), cores())

    def finish(self) -> None:
        """Wait until all are hashed. Raises IntegrityError (AOTC-E201)."""
        found = self._hashing.finish()
        for index, digest in enumerate(self._digests):
            if found.get(index) != digest:
                where = f"{self._where} {digest} ({oci_layout.WEIGHTS_TYPE})"
                raise refusal("AOTC-E201", where, found.get(index, ""), expected=digest)

    def stop(self) -> None:
        """Hash no more: the result is not needed."""
        self._hashing.stop()


def begin_contents(
    source: BlobSource, root: Root, attested: Collection[str], unread: Collection[str] = ALL_READ
) -> tuple[Contents, WeightsHashing]:
    """Verify steps 5 and 6: read everything below the root, and check digests.

    The digests of weights are known once the returned hashing has finished. Targets may be absent,
    but not all. `unread` are weights that are not present here. Raises IntegrityError: AOTC-E201
    digest, E202 missing, E203 size, E204 an unreferenced blob, E205 layers that differ from the
    manifest; BundleFormatError.
    """
    index_data = _document(source, root.entry, "root index", limits.INDEX_BYTES_MAX)
    index = canonical_json.decode(index_data, RootIndex, where=f"{source.name} root index")
    _check_root(index, source.name)
    reached = {root.entry.digest, *attested}
    manifests: dict[str, BundleManifest] = {}
    targets: dict[str, ImageManifest] = {}
    layers: dict[str, Descriptor] = {}
    sizes: dict[str, int] = {}
    # OCI 1.1 allows an index to list what is not stored. A target is there whole, or not at all:
    # what is left of one whose image manifest is gone is reached by nothing (AOTC-E204).
    stored = [ref for ref in index.manifests if source.blob(ref.digest) is not None]
    for reference in stored or index.manifests:
        what = "image manifest " + reference.digest[7:19]
        data = _document(source, reference, what, limits.MANIFEST_BYTES_MAX)
        image = canonical_json.decode(data, ImageManifest, where=f"{source.name} {what}")
        what = "bundle manifest " + image.config.digest[7:19]
        config = _document(source, image.config, what, limits.MANIFEST_BYTES_MAX)
        manifest = bundle_manifest(config, f"{source.name} {what}")
        if manifest.target.name in manifests:
            where, name = f"{source.name} root index", manifest.target.name
            raise refusal("AOTC-E116", where, name, cause="duplicate-target")
        raise_if(check_consistency(manifest, f"{source.name} {what}"))
        raise_if(check_layers(image, manifest, sizes, source.name))
        manifests[manifest.target.name] = manifest
        targets[manifest.target.name] = image
        for layer in image.layers:
            # What is more than weights in any target is copied, and hashed before it is used.
            if _is_weights(layers.setdefault(layer.digest, layer)):
                layers[layer.digest] = layer
        reached |= {reference.digest, image.config.digest, *(d.digest for d in image.layers)}
    identities = {(manifest.name, manifest.version) for manifest in manifests.values()}
    if len(identities) != 1:
        found = ", ".join(f"{name} {version}" for name, version in sorted(identities))
        raise refusal("AOTC-E116", source.name, found, expected="one name and version")
    if surplus := sorted(source.digests() - reached):
        raise refusal("AOTC-E204", f"{source.name} {surplus[0]}", f"{len(surplus)} unsigned blobs")
    there = {d: layer for d, layer in layers.items() if d not in unread or not _is_weights(layer)}
    blobs, weights = _hash_layers(source, there)
    absent = tuple(_target_name(ref) for ref in index.manifests if ref not in stored)
    return Contents(root.entry.digest, manifests, blobs, targets, absent), weights


def _check_root(index: RootIndex, where: str) -> None:
    """Require targets, and no artifact type, which tools drop that know OCI 1.0 alone."""
    stated = sorted({index.artifactType, *(ref.artifactType for ref in index.manifests)} - {""})
    if not index.manifests or stated:
        found = f"{len(index.manifests)} targets, {' and '.join(stated) or 'no artifactType'}"
        expected = "targets, and no artifactType"
        raise refusal("AOTC-E113", f"{where} root index", found, expected=expected)


def _target_name(reference: oci_layout.ImageDescriptor) -> str:
    """Return the target's name in the root index, for messages only."""
    name = reference.annotations.get(oci_layout.TARGET_ANNOTATION, "")
    return name if name.isprintable() and name else reference.digest


class _Versioned(Struct):
    """The fields that every version of the bundle manifest has."""

    format_version: str


def bundle_manifest(data: bytes, where: str) -> BundleManifest:
    """Parse a bundle manifest, its format version first."""
    # The version first: a later one may hold fields that this reader would call malformed.
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        _check_format(decoder(_Versioned).decode(data).format_version, where)
    return canonical_json.decode(data, BundleManifest, where=where)


def _check_format(version: str, where: str) -> None:
    major, minor = FORMAT_VERSION.split(".")
    if version not in [f"{major}.{known}" for known in range(int(minor) + 1)]:
        raise refusal("AOTC-E115", where, version, expected=f"{major}.0 to {FORMAT_VERSION}")


def references(manifest: BundleManifest) -> dict[str, tuple[str, int]]:
    """Digest to media type and size of every blob; other roles of an asset's blob come first."""
    return {ref.digest: (media_type, ref.size) for ref, media_type, _ in roles_of(manifest)}


def roles_of(manifest: BundleManifest) -> Iterator[tuple[BlobRef, str, str]]:
    """Yield every blob of a manifest with its media type and its role, assets first."""
    for name, asset in (manifest.assets or {}).items():
        for path, ref in asset.files.items():
            yield ref, oci_layout.ASSET_TYPE, f"asset {name} {path}"
    for name, weights in manifest.weights.items():
        for ref in weights.blobs:
            yield ref, oci_layout.WEIGHTS_TYPE, f"weights {name}"
    for name, entry_point in manifest.entry_points.items():
        for profile in entry_point.profiles:
            place = label(name, profile.sizes)
            yield profile.module, oci_layout.MODULE_TYPE, f"module {place}"
            yield profile.fixture, oci_layout.FIXTURE_TYPE, f"fixture {place}"
            yield profile.executable, oci_layout.EXECUTABLE_TYPE, f"executable {place}"
        if entry_point.symbolic is not UNSET:
            yield entry_point.symbolic.module, oci_layout.MODULE_TYPE, f"symbolic module {name}"
    if manifest.evidence is not UNSET:
        yield manifest.evidence, oci_layout.EVIDENCE_TYPE, "evidence"


def check_layers(
    image: ImageManifest, manifest: BundleManifest, sizes: dict[str, int], where: str
) -> Iterator[Finding]:
    """Check that the layers are exactly the blobs of the manifest, in size and type (AOTC-E205).

    `sizes` are by digest, of the targets before; this one's are added.
    """
    wanted = references(manifest)
    for ref, _, role in roles_of(manifest):
        if ref.size != (size := sizes.setdefault(ref.digest, ref.size)):
            found, expected = f"{ref.size} bytes", f"{size} bytes"
            yield finding("AOTC-E205", f"{where} {role}", found, expected=expected)
    given = {layer.digest: (layer.mediaType, layer.size) for layer in image.layers}
    if [layer.digest for layer in image.layers] != sorted(given):
        yield finding("AOTC-E205", where, "", expected="each layer once, in the order of digests")
    for digest in sorted(wanted.keys() | given.keys()):
        if wanted.get(digest) != given.get(digest):
            expected, found = _layer_text(wanted.get(digest)), _layer_text(given.get(digest))
            yield finding("AOTC-E205", f"{where} {digest}", found, expected=expected)


def _layer_text(layer: tuple[str, int] | None) -> str:
    return f"{layer[1]} bytes of {layer[0]}" if layer else "no such layer"


def _is_weights(layer: Descriptor) -> bool:
    return layer.mediaType == oci_layout.WEIGHTS_TYPE


def _hash_layers(
    source: BlobSource, layers: Mapping[str, Descriptor]
) -> tuple[dict[str, memoryview], WeightsHashing]:
    """Copy and hash every layer, by digest.

    Weights stay mapped while they are hashed.
    """
    data: dict[str, memoryview] = {}
    weights: dict[str, memoryview] = {}
    for digest in sorted(layers):
        stored = _stored_blob(source, layers[digest], digest)
        if _is_weights(layers[digest]):
            weights[digest] = stored
        else:
            data[digest] = memoryview(copy_of(stored))
    for digest, found in zip(data, sha256_each(tuple(data.values())), strict=True):
        if found != digest:
            where = f"{source.name} {digest} ({layers[digest].mediaType})"
            raise refusal("AOTC-E201", where, found, expected=digest)
    return data | weights, WeightsHashing(source, weights)
