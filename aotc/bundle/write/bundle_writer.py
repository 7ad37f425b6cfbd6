"""From manifests and blobs to a bundle on disk: OCI layout, as a folder or one .aotb file.

The same parts give the same bytes: members in a fixed order (documents, small blobs, weights last),
canonical JSON, no times, no owners.
"""

import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path

from msgspec import UNSET

from aotc.base.errors import finding, raise_if
from aotc.base.stages import Bundle, Chunk
from aotc.bundle.write import atomic_files
from aotc.bundle.write.oci_descriptors import descriptor_of, layout_index
from aotc.bundle.write.output_paths import BUNDLE, require_file_place, require_folder_place
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import BundleFormatError, IntegrityError
from aotc_runtime.formats import oci_layout, oci_referrers
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.formats.oci_layout import (
    ConfigDescriptor,
    Descriptor,
    ImageDescriptor,
    ImageManifest,
    Index,
    Platform,
    RootIndex,
)
from aotc_runtime.formats.tar_archive import BLOCK
from aotc_runtime.schema.bundle_manifest import BlobRef, BundleManifest
from aotc_runtime.system.bundle_files import MappedBundle
from aotc_runtime.system.streamed_bundle import OnProgress, ignore_progress, open_streamed
from aotc_runtime.verification.bundle_contents import read_envelopes, read_root
from aotc_runtime.verification.bundle_examination import read_unverified


class Form(Enum):
    """The form of a bundle on disk."""

    ARCHIVE = "archive"
    LAYOUT = "layout"


@dataclass(frozen=True)
class Blob:
    """Bytes with their media type.

    `file` is a file of the build with exactly these bytes; `known` is their digest, if it was
    computed before. What is packed is read back and hashed in any case.
    """

    data: Chunk
    media_type: str
    file: Path | None = None
    known: str = ""

    @cached_property
    def digest(self) -> str:
        """The digest of the bytes; computed once, however many documents refer to them."""
        return self.known or sha256(self.data)

    def ref(self) -> BlobRef:
        """Return the reference a manifest holds."""
        return BlobRef(digest=self.digest, size=len(self.data))


@dataclass(frozen=True, slots=True)
class TargetParts:
    """One target: its manifest, and every blob the manifest refers to."""

    manifest: BundleManifest
    blobs: Sequence[Blob]


@dataclass(frozen=True, slots=True)
class Assembled:
    """A bundle without its attestations.

    `root` refers to the root index, `blobs` has all below it by digest, `manifests` are by target.
    """

    root: Descriptor
    blobs: Mapping[str, Blob]
    manifests: dict[str, BundleManifest]


_VARIANTS = (("avx512f", "v4"), ("avx2", "v3"), ("sse4.2", "v2"))


def _platform(manifest: BundleManifest) -> Platform:
    variant = next((v for feature, v in _VARIANTS if feature in manifest.requires.isa), "v1")
    if manifest.requires.device is not UNSET:
        variant = ""  # of an accelerator's host nothing is asked that registries have a word for
    return Platform(architecture="amd64", os="linux", variant=variant)


def assemble(targets: Sequence[TargetParts]) -> Assembled:
    """Return the documents of a bundle of these targets."""
    blobs: dict[str, Blob] = {}
    images = []
    for parts in sorted(targets, key=lambda parts: parts.manifest.target.name):
        config = canonical_json.encode(parts.manifest)
        layers = {blob.digest: blob for blob in parts.blobs}
        image = ImageManifest(
            schemaVersion=2,
            mediaType=oci_layout.MANIFEST_TYPE,
            artifactType=oci_layout.BUNDLE_TYPE,
            config=descriptor_of(ConfigDescriptor, config, oci_layout.CONFIG_TYPE),
            layers=tuple(
                Descriptor(mediaType=blob.media_type, digest=digest, size=len(blob.data))
                for digest, blob in sorted(layers.items())
            ),
        )
        document = canonical_json.encode(image)
        documents = (Blob(config, oci_layout.CONFIG_TYPE), Blob(document, oci_layout.MANIFEST_TYPE))
        blobs |= layers | {blob.digest: blob for blob in documents}
        images.append(
            descriptor_of(
                ImageDescriptor,
                document,
                oci_layout.MANIFEST_TYPE,
                platform=_platform(parts.manifest),
                annotations={oci_layout.TARGET_ANNOTATION: parts.manifest.target.name},
            )
        )
    return assemble_root(images, blobs, {p.manifest.target.name: p.manifest for p in targets})


def assemble_root(
    images: Sequence[ImageDescriptor],
    blobs: Mapping[str, Blob],
    manifests: dict[str, BundleManifest],
) -> Assembled:
    """Put existing documents under a new root index, with these images by target."""
    index = RootIndex(schemaVersion=2, mediaType=oci_layout.INDEX_TYPE, manifests=tuple(images))
    data = canonical_json.encode(index)
    root = descriptor_of(Descriptor, data, oci_layout.INDEX_TYPE)
    return Assembled(root, {**blobs, root.digest: Blob(data, oci_layout.INDEX_TYPE)}, manifests)


def _members(
    files: Mapping[str, Chunk], blobs: Mapping[str, Blob], on_progress: OnProgress
) -> Iterator[tuple[str, Chunk]]:
    """File names and contents in their order on disk; weights, the large ones, last."""
    yield from files.items()
    for digest in sorted(blobs, key=lambda d: (blobs[d].media_type == oci_layout.WEIGHTS_TYPE, d)):
        blob = blobs[digest]
        yield oci_layout.BLOB_FOLDER + digest.removeprefix("sha256:"), blob.data
        if blob.file is not None:  # maps of other bundles tell by themselves
            on_progress(len(blob.data))


def _archive(members: Iterator[tuple[str, Chunk]]) -> Iterator[Chunk]:
    for name, data in members:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        info.mode = 0o644
        yield info.tobuf(tarfile.GNU_FORMAT)
        yield data
        yield bytes(-info.size % BLOCK)
    yield bytes(2 * BLOCK)


def require_place(path: Path, form: Form) -> None:
    """Check before a build that `pack` can write there. Raises UsageError (AOTC-E003, E004)."""
    if form is Form.ARCHIVE:
        require_file_place(path, BUNDLE)
    else:
        require_folder_place(path)


def write(
    path: Path,
    form: Form,
    index: Index,
    blobs: Mapping[str, Blob],
    check: atomic_files.Check,
    before: atomic_files.Before = atomic_files.nothing,
    on_progress: OnProgress = ignore_progress,
) -> int:
    """Write atomically over whatever is there; the bundle's size in bytes.

    Raises UsageError (AOTC-E003, E058 more attestations than readers take).
    """
    layout = canonical_json.encode(oci_layout.Layout(oci_layout.LAYOUT_VERSION))
    files = {oci_layout.LAYOUT_FILE: layout, oci_layout.INDEX_FILE: canonical_json.encode(index)}
    members = _members(files, blobs, ignore_progress)
    unwritten = MappedBundle(str(path), {name: memoryview(data) for name, data in members})
    try:
        read_envelopes(unwritten, read_root(unwritten))
    except BundleFormatError as error:
        raise_if(
            finding("AOTC-E058", f.where, f.found, expected=f.expected) for f in error.findings
        )
    return write_files(path, form, files, blobs, check, before, on_progress)


def write_files(
    path: Path,
    form: Form,
    files: Mapping[str, Chunk],
    blobs: Mapping[str, Blob],
    check: atomic_files.Check,
    before: atomic_files.Before = atomic_files.nothing,
    on_progress: OnProgress = ignore_progress,
) -> int:
    """Write a bundle atomically over an existing one and return its size in bytes.

    `files` are oci-layout and index.json with their final bytes. `on_progress` is called with the
    bytes of whole files that were copied. Raises UsageError (AOTC-E003).
    """
    members = _members(files, blobs, on_progress)
    if form is Form.ARCHIVE:
        return atomic_files.write_atomically(path, _archive(members), check=check, before=before)
    return atomic_files.write_folder_atomically(path, members, check, before)


def pack(
    path: Path,
    form: Form,
    assembled: Assembled,
    envelopes: Sequence[bytes] = (),
    before: atomic_files.Before = atomic_files.nothing,
    sources: Sequence[BlobSource] = (),
    on_progress: OnProgress = ignore_progress,
) -> Bundle:
    """Write a bundle with its attestations in one step, read back before it replaces anything.

    `envelopes` are DSSE envelopes about the root, `before` is passed to `write_atomically` and
    `sources` to `reading_back`. `on_progress` is called with the bytes that were copied and hashed.
    Raises UsageError (AOTC-E003, E004), IntegrityError for the contents of a source.
    """
    root, manifests, blobs = assembled.root, assembled.manifests, dict(assembled.blobs)
    references = [add_attestation(root, envelope, blobs) for envelope in envelopes]
    index = layout_index(root, references, manifests)
    require_place(path, form)
    size = write(
        path,
        form,
        index,
        blobs,
        reading_back(root.digest, manifests, sources, on_progress),
        before,
        on_progress,
    )
    return Bundle(path=path, root_digest=root.digest, manifests=manifests, size_bytes=size)


def reading_back(
    root_digest: str,
    manifests: Mapping[str, BundleManifest],
    sources: Sequence[BlobSource] = (),
    on_progress: OnProgress = ignore_progress,
) -> atomic_files.Check:
    """Return a check that a written bundle has these targets, root and digests.

    `sources` are bundles that it was made from, with weights that were not hashed before: they are
    checked to locate damage of the result. `on_progress` gets hashed bytes.
    """

    def check(written: Path) -> None:
        try:
            contents, _ = read_unverified(open_streamed(written, on_progress))
        except IntegrityError:
            for source in sources:
                read_unverified(source)
            raise
        assert (contents.root_digest, contents.manifests) == (root_digest, manifests), (
            "a bundle reads back as it was written"
        )

    return check


def add_attestation(root: Descriptor, envelope: bytes, blobs: dict[str, Blob]) -> Descriptor:
    """Add an envelope's blobs as an OCI referrer of the root; the reference for index.json."""
    image = oci_referrers.referrer_of(envelope, oci_layout.ATTESTATION_TYPE, root)
    for data in (image, envelope, oci_layout.EMPTY_BLOB):
        blobs[sha256(data)] = Blob(data, oci_layout.ATTESTATION_TYPE)
    kind = oci_layout.ATTESTATION_TYPE
    return descriptor_of(Descriptor, image, oci_layout.MANIFEST_TYPE, artifactType=kind)


def form_of(path: Path) -> Form:
    """Return the form of an existing bundle."""
    return Form.LAYOUT if path.is_dir() else Form.ARCHIVE
