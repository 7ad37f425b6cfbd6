"""The targets of a bundle that was read, as parts for another bundle, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aotc.bundle.write.bundle_writer import Blob
from aotc.bundle.write.hashed_weights import unchanged
from aotc_runtime.base import canonical_json
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.formats.oci_layout import Descriptor, ImageDescriptor, ImageManifest, RootIndex
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.verification.bundle_contents import Contents


@dataclass(frozen=True, slots=True)
class TargetPart:
    """One target of an existing bundle; `bundle` is its path, for messages.

    `reference` is the image manifest's in the root index; `blobs` by digest include both manifests.
    """

    bundle: str
    reference: ImageDescriptor
    manifest: BundleManifest
    image: ImageManifest
    blobs: Mapping[str, Blob]


def target_parts_of(source: BlobSource, contents: Contents) -> Iterator[TargetPart]:
    """The targets that a bundle holds, in the order of its root index.

    source: what the contents were read from, every digest checked but perhaps those of weights:
    what is written of them is to be hashed. Raises IntegrityError (AOTC-E201).
    """
    data = unchanged(source, contents.root_digest)
    root = canonical_json.decode(data, RootIndex, where=f"{source.name} root index")
    names = {_document(image).digest: name for name, image in contents.targets.items()}
    for reference in root.manifests:
        if reference.digest in names:
            name = names[reference.digest]
            image, manifest = contents.targets[name], contents.manifests[name]
            config = Blob(canonical_json.encode(manifest), oci_layout.CONFIG_TYPE)
            blobs = {
                reference.digest: _document(image),
                image.config.digest: config,
                **{d.digest: _layer(d, source, contents) for d in image.layers},
            }
            yield TargetPart(source.name, reference, manifest, image, blobs)


def _layer(layer: Descriptor, source: BlobSource, contents: Contents) -> Blob:
    data = contents.blobs.get(layer.digest) or source.blob(layer.digest) or b""
    return Blob(data, layer.mediaType, known=layer.digest)


def _document(image: ImageManifest) -> Blob:
    # Read strictly as canonical JSON, so that this gives the bytes that were read.
    return Blob(canonical_json.encode(image), oci_layout.MANIFEST_TYPE)
