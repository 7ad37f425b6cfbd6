"""From manifests and blobs to a bundle on disk: OCI layout, as a folder or one .aotb file.

The same parts give the same bytes: members in a fixed order (documents, small blobs, weights last),
canonical JSON, no times, no owners.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO

from msgspec import UNSET

from aotc.base.errors import finding, raise_if, refusal
from aotc.base.shared_blocks import WholeFile, appended
from aotc.base.stages import Bundle
from aotc.bundle.write.atomic_files import (
    FILE_MODE,
    LARGE_BYTES,
    Before,
    Chunk,
    nothing,
    write_atomically,
    write_folder_atomically,
)
from aotc.bundle.write.neighbor_layouts import blobs_beside
from aotc.bundle.write.oci_descriptors import descriptor, descriptor_of, layout_index
from aotc.bundle.write.output_paths import BUNDLE, require_file_place, require_folder_place
from aotc.bundle.write.read_back import ReadBack
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import pieces, sha256
from aotc_runtime.base.errors import BundleFormatError, Finding, IntegrityError
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import (
    AttestationManifest,
    BlobSource,
    ConfigDescriptor,
    Descriptor,
    EnvelopeDescriptor,
    ImageDescriptor,
    ImageManifest,
    Index,
    Platform,
    RootIndex,
)
from aotc_runtime.formats.tar_archive import BLOCK
from aotc_runtime.schema.bundle_manifest import BlobRef, BundleManifest
from aotc_runtime.system.streamed_bundle import PassedMap, Told, look_into, nobody
from aotc_runtime.verification.bundle_contents import read_envelopes, read_root
from aotc_runtime.verification.bundle_examination import read_unverified

type Data = bytes | memoryview

type Check = Callable[[Path, Mapping[str, int]], None]
"""Looks at a bundle that was written, under its temporary name, before it replaces anything. It is
also given sizes by digest of blobs that need not be hashed any more: of files that have only got
another name, or hashed while more was written.
"""


class Form(Enum):
    """The form of a bundle on disk."""

    ARCHIVE = "archive"
    LAYOUT = "layout"


@dataclass(frozen=True)
class Blob:
    """Bytes with their media type. file: one that holds these bytes and nothing else, whose name a
    layout folder may share; nobody writes into it any more.  known: the digest, where somebody has
    taken it already. What is packed is read back and hashed, whoever did.
    """

    data: Data
    media_type: str
    file: Path | None = None
    known: str = ""

    @cached_property
    def digest(self) -> str:
        """The digest of the bytes; computed once, however many documents refer to them."""
        return self.known or sha256(self.data)

    def ref(self) -> BlobRef:
        """The reference a manifest holds."""
        return BlobRef(digest=self.digest, size=len(self.data))


@dataclass(frozen=True, slots=True)
class TargetParts:
    """One target: its manifest, and every blob the manifest refers to."""

    manifest: BundleManifest
    blobs: Sequence[Blob]


@dataclass(frozen=True, slots=True)
class Assembled:
    """A bundle without its attestations. root: reference to the root index. blobs: everything below
    the root, by digest. manifests: by target.
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
    """The documents of a bundle of these targets."""
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
    return rooted(images, blobs, {p.manifest.target.name: p.manifest for p in targets})


def rooted(
    images: Sequence[ImageDescriptor],
    blobs: Mapping[str, Blob],
    manifests: dict[str, BundleManifest],
) -> Assembled:
    """Documents that exist under a root index of their own. images: of the targets, by name."""
    index = RootIndex(
        schemaVersion=2,
        mediaType=oci_layout.INDEX_TYPE,
        manifests=tuple(images),
    )
    data = canonical_json.encode(index)
    root = descriptor(data, oci_layout.INDEX_TYPE)
    return Assembled(root, {**blobs, root.digest: Blob(data, oci_layout.INDEX_TYPE)}, manifests)


def _members(files: Mapping[str, Data], blobs: Mapping[str, Blob]) -> Iterator[tuple[str, Blob]]:
    """File names and contents in their order on disk; weights, the large ones, last."""
    for name, data in files.items():
        yield name, Blob(data, "")
    for digest in sorted(blobs, key=lambda d: (blobs[d].media_type == oci_layout.WEIGHTS_TYPE, d)):
        yield _member(digest), blobs[digest]


def _member(digest: str) -> str:
    return oci_layout.BLOB_FOLDER + digest.removeprefix("sha256:")


def _copy(blob: Blob, on_progress: Told, file: BinaryIO) -> Iterator[int]:
    """Append weights to a file, as `Copy` of `read_back`. on_progress: called with bytes that the
    system copied.
    """
    size = len(blob.data)
    if blob.file is not None:
        for more in WholeFile(blob.file, size).appended_to(file):
            on_progress(more)
            yield more
    elif (held := _held(blob.data)) is not None:
        source, start = held
        for more in appended(source.descriptor, start, size, file, ""):
            source.told(more)
            yield more
    else:
        for piece in pieces(blob.data):
            written = file.write(piece)
            file.flush()
            yield written


def _held(data: Data) -> tuple[PassedMap, int] | None:
    """The map over whose file the bytes are a view, if the file is open, and where they begin."""
    of = data.obj if isinstance(data, memoryview) else None
    if isinstance(of, PassedMap) and of.descriptor >= 0:
        return of, of.place(memoryview(data))
    return None


def _archive(
    members: Iterator[tuple[str, Blob]], read_back: ReadBack, on_progress: Told
) -> Iterator[Chunk]:
    for name, blob in members:
        info = tarfile.TarInfo(name)
        info.size = len(blob.data)
        info.mode = 0o644
        yield info.tobuf(tarfile.GNU_FORMAT)
        if blob.media_type == oci_layout.WEIGHTS_TYPE and info.size >= LARGE_BYTES:
            copy = partial(_copy, blob, on_progress)
            yield partial(read_back.append, copy, info.size, blob.digest)
        else:
            yield blob.data
        yield bytes(-info.size % BLOCK)
    yield bytes(2 * BLOCK)


def require_place(path: Path, form: Form) -> None:
    """Check before a build that `pack` will be able to write there.

    Raises UsageError (AOTC-E003, E004).
    """
    if form is Form.ARCHIVE:
        require_file_place(path, BUNDLE)
    else:
        require_folder_place(path)


def write(
    path: Path,
    form: Form,
    index: Index,
    blobs: Mapping[str, Blob],
    check: Check,
    before: Before = nothing,
    on_progress: Told = nobody,
) -> int:
    """Write atomically over whatever is there; the bundle's size in bytes.

    Raises UsageError (AOTC-E003, E058 more attestations than readers take).
    """
    layout = canonical_json.encode(oci_layout.Layout(oci_layout.LAYOUT_VERSION))
    files = {oci_layout.LAYOUT_FILE: layout, oci_layout.INDEX_FILE: canonical_json.encode(index)}
    raise_if(_check_attestations(Unwritten(str(path), files, blobs)))
    return write_files(path, form, files, blobs, check, before, on_progress)


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A bundle that is about to be written, for readers to say whether they would take it."""

    name: str
    files: Mapping[str, Data]
    blobs: Mapping[str, Blob]

    def file(self, name: str) -> memoryview | None:
        return memoryview(self.files[name]) if name in self.files else None

    def blob(self, digest: str) -> memoryview | None:
        return memoryview(self.blobs[digest].data) if digest in self.blobs else None

    def digests(self) -> frozenset[str]:
        return frozenset(self.blobs)


def _check_attestations(source: Unwritten) -> Iterator[Finding]:
    try:
        read_envelopes(source, read_root(source))
    except BundleFormatError as error:
        for refused in error.findings:
            yield finding(
                "AOTC-E058",
                refused.where,
                refused.found,
                expected=f"{refused.expected}, as much as readers take",
                hint="attestations are read before any signature is checked, so that there are "
                "limits: add fewer, or take the bundle as it was before some were added",
            )


def write_files(
    path: Path,
    form: Form,
    files: Mapping[str, Data],
    blobs: Mapping[str, Blob],
    check: Check,
    before: Before = nothing,
    on_progress: Told = nobody,
) -> int:
    """Write atomically over whatever is there; the bundle's size in bytes.

    files: oci-layout and index.json, as they are to stand there.  on_progress: of bytes that the
    system copied into an archive, and of those that were hashed while it was written. Raises
    UsageError (AOTC-E003).
    """
    members = _members(files, blobs)
    if form is Form.ARCHIVE:
        with ReadBack(on_progress) as read_back:
            return write_atomically(
                path,
                _archive(members, read_back, on_progress),
                check=lambda written: check(written, read_back.finish()),
                before=before,
            )
    same = {_member(digest): blob.file for digest, blob in blobs.items() if blob.file is not None}
    weights = {
        _member(digest): (digest, len(blob.data))
        for digest, blob in blobs.items()
        if blob.media_type == oci_layout.WEIGHTS_TYPE
    }
    shared = blobs_beside(path, weights, FILE_MODE)

    def check_all(written: Path) -> None:
        hashed = {name for name, file in shared.items() if (written / name).samefile(file)}
        check(written, {weights[name][0]: weights[name][1] for name in hashed})

    contents = ((name, blob.data) for name, blob in members)
    return write_folder_atomically(path, contents, check_all, before, same, shared)


def pack(
    path: Path,
    form: Form,
    assembled: Assembled,
    envelopes: Sequence[bytes] = (),
    before: Before = nothing,
    sources: Sequence[BlobSource] = (),
    on_progress: Told = nobody,
) -> Bundle:
    """Write a bundle with its attestations in one step, read back before it replaces anything.

    envelopes: DSSE envelopes about the root.  before: as of `write_atomically`.  sources: as of
    `reading_back`.  on_progress: of bytes that were copied by the system, and hashed. Raises
    UsageError (AOTC-E003, E004), IntegrityError for what a source holds.
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
    on_progress: Told = nobody,
) -> Check:
    """A check that what was written holds these targets under this root, every blob with its
    digest.

    sources: bundles that it was made of, of which weights were not hashed before: if what was
    written is damaged, they are looked at, so that whoever reads it knows where.  on_progress: of
    bytes that were hashed.
    """

    def check(written: Path, hashed: Mapping[str, int]) -> None:
        try:
            contents, _ = read_unverified(look_into(written, on_progress), hashed)
            for layer in (layer for image in contents.targets.values() for layer in image.layers):
                # Of blobs that were hashed elsewhere, nobody has looked how large they are.
                size = hashed.get(layer.digest, layer.size)
                if size != layer.size:
                    where, expected = f"{written} {layer.digest}", f"{layer.size} bytes"
                    raise refusal("AOTC-E203", where, f"{size} bytes", expected=expected)
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
    image = canonical_json.encode(
        AttestationManifest(
            schemaVersion=2,
            mediaType=oci_layout.MANIFEST_TYPE,
            artifactType=oci_layout.ATTESTATION_TYPE,
            config=descriptor(oci_layout.EMPTY_BLOB, oci_layout.EMPTY_TYPE),
            layers=(descriptor_of(EnvelopeDescriptor, envelope, oci_layout.ATTESTATION_TYPE),),
            subject=Descriptor(mediaType=root.mediaType, digest=root.digest, size=root.size),
        )
    )
    for data in (image, envelope, oci_layout.EMPTY_BLOB):
        blobs[sha256(data)] = Blob(data, oci_layout.ATTESTATION_TYPE)
    return descriptor(image, oci_layout.MANIFEST_TYPE, artifactType=oci_layout.ATTESTATION_TYPE)


def form_of(path: Path) -> Form:
    """The form of an existing bundle."""
    return Form.LAYOUT if path.is_dir() else Form.ARCHIVE
